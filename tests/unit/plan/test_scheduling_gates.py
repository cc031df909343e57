"""Gates: no pod of a gang is schedulable before it may be, and only our own gate is ever removed."""

from __future__ import annotations

from typing import Any

from sample_sets import LATER, NOW, budget, clique, group, pod_clique_set, running, spec, with_image

from grove.api import labels
from grove.api.kinds import POD_CLIQUES, POD_GANGS, PODS
from grove.insight.forecast import run_to_rest
from grove.insight.model import Conduct, Model
from grove.plan.actions import Create, Patch
from grove.plan.layout import Gang
from grove.plan.replica import plan_replica
from grove.plan.replica_pods import _Held, _release
from grove.plan.settings import Settings
from grove.plan.views import PodView

KAI = Settings(default_scheduler="kai-scheduler")


def workload(**fields: Any) -> Any:
    return spec(
        1,
        cliques=[clique("a", 2, **fields), clique("b", 2)],
        podCliqueScalingGroups=[group("g", ["b"], 2, minAvailable=1, updateStrategy=budget(0, 1))],
    )


def gates(model: Model, stem: str) -> set[tuple[str, ...]]:
    pods = model.objects.of(PODS).items()
    return {tuple(gate.name for gate in pod.spec.scheduling_gates) for name, pod in pods if name.startswith(stem)}


def test_pods_of_the_base_gang_are_schedulable_only_when_all_of_them_exist() -> None:
    model = Model.from_objects(pod_clique_set(workload()))
    seen = []

    def look(now: Model) -> None:
        gang = now.objects.of(POD_GANGS).get("web-0")
        base = [p for p in now.objects.of(PODS).values() if p.metadata.labels[labels.POD_GANG] == "web-0"]
        free = [p for p in base if not p.spec.scheduling_gates]
        seen.append(len(free))
        if free:
            assert gang is not None
            listed = {r.name for g in gang.spec.podgroups for r in g.pod_references}
            assert listed == {"web-0-a-0", "web-0-a-1", "web-0-g-0-b-0", "web-0-g-0-b-1"}
            assert len(base) == 4

    model.watcher = look
    model.settle(NOW)
    assert seen[-1] == 4


def test_a_scaled_gang_waits_for_the_base_gang_to_be_scheduled_once_and_says_so() -> None:
    model = Model.from_objects(pod_clique_set(workload()))
    model.conduct = Conduct(places=lambda pod: False)
    run_to_rest(model, NOW)
    assert gates(model, "web-0-g-1") == {(labels.GATE,)}
    wait = next(wait for wait in model.waits if wait.subject == "web-0-g-1")
    assert wait.why.reason == "BaseGangUnscheduled"
    model.conduct = Conduct()
    run_to_rest(model, NOW)
    assert gates(model, "web-0-g-1") == {()}


def test_kai_holds_incomplete_gangs_itself_so_only_scaled_gangs_are_gated() -> None:
    model = Model.from_objects(pod_clique_set(workload()), settings=KAI)
    model.conduct = Conduct(places=lambda pod: False)
    run_to_rest(model, NOW)
    assert gates(model, "web-0-a") == gates(model, "web-0-g-0") == {()}
    assert gates(model, "web-0-g-1") == {(labels.GATE,)}


def test_gates_of_the_user_stay() -> None:
    wanted = workload()
    wanted.template.cliques[0].spec.pod_spec = {
        **wanted.template.cliques[0].spec.pod_spec,
        "schedulingGates": [{"name": "example.com/quota"}],
    }
    model = Model.from_objects(pod_clique_set(wanted))
    model.settle(NOW)
    assert gates(model, "web-0-a") == {("example.com/quota",)}
    assert gates(model, "web-0-g-0") == {()}


def test_a_gang_that_was_let_go_once_stays_so_for_replaced_pods() -> None:
    model = running(workload())
    model.objects.delete(PODS, "web-0-a-0", LATER)
    model.objects.gone(PODS, "web-0-a-0", LATER)
    model.settle(LATER)
    assert gates(model, "web-0-a") == {()}


def test_recreating_parts_of_the_base_gang_holds_back_neither_surge_nor_scaled_gangs() -> None:
    model = running(workload())
    # The standalone clique goes down for its update and stays down.
    model.conduct = Conduct(places=lambda pod: not pod.metadata.name.startswith("web-0-a"))
    model.submit(with_image(workload(), "v2"))
    trace = run_to_rest(model, LATER)
    assert gates(model, "web-0-g") == {()}
    replaced = {record.name for record in trace.steps if record.verb == "ready" and record.name.startswith("web-0-g")}
    assert "web-0-g-2-b-0" in replaced


def test_a_gate_is_taken_from_the_very_pod_that_was_seen() -> None:
    held = PodView("web-0-a-0", "seen", 0, "h", False, False, 1, False, False)
    gang = Gang("web-0", ())
    assert _release("default", gang, _Held.seen(held)).operations == (
        {"op": "test", "path": "/metadata/uid", "value": "seen"},
        {"op": "test", "path": "/spec/schedulingGates/1/name", "value": labels.GATE},
        {"op": "remove", "path": "/spec/schedulingGates/1"},
    )


def test_one_plan_makes_a_gang_completes_it_and_lets_its_pods_go() -> None:
    model = Model.from_objects(pod_clique_set(workload()))
    model.settle(NOW)
    for name in list(model.objects.of(PODS)):
        model.objects.gone(PODS, name, NOW)
    plan, _ = plan_replica(model.replica_world(0, model.history() or []), NOW)
    first, completing, released = plan.stages
    names = [action.body["metadata"]["name"] for action in (*first, *completing) if isinstance(action, Create)]
    assert [name for name in names if not name.startswith("web-0-g-1")] == [
        "web-0-a-0",
        "web-0-a-1",
        "web-0-g-0-b-0",
        "web-0-g-0-b-1",
    ]
    assert [action.body["metadata"]["name"] for action in completing if isinstance(action, Create)] == ["web-0-g-0-b-1"]
    cliques = model.objects.of(POD_CLIQUES)
    assert [(a.name, a.operations[0]) for a in released if isinstance(a, Patch)] == [
        (name, {"op": "test", "path": "/metadata/ownerReferences/0/uid", "value": cliques[owner].metadata.uid})
        for name, owner in (
            ("web-0-a-0", "web-0-a"),
            ("web-0-a-1", "web-0-a"),
            ("web-0-g-0-b-0", "web-0-g-0-b"),
        )
    ]
