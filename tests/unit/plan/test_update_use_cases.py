"""The use cases of the update design from manifest to rest: real plans on a model of the cluster."""

from __future__ import annotations

from collections.abc import Iterable

from sample_sets import LATER, budget, changed, clique, group, running, spec, update, with_image

from grove.api import labels
from grove.api.kinds import POD_CLIQUES, POD_GANGS, PODS
from grove.insight.forecast import Trace, run_to_rest
from grove.insight.model import Conduct, Model


def of(trace: Trace, stem: str, verbs: Iterable[str] = ("delete", "create")) -> list[str]:
    """The writes to pods whose name begins with the stem, as `verb rest-of-name`."""
    return [
        f"{record.verb} {record.name.removeprefix(stem)}"
        for record in trace.steps
        if record.kind == "Pod" and record.name.startswith(stem) and record.verb in verbs
    ]


def units(trace: Trace, stem: str) -> list[str]:
    """Like `of`, one entry per unit: the index right after the stem, repeats left out."""
    found: list[str] = []
    for entry in of(trace, stem, ("delete", "create", "ready", "gone")):
        verb, name = entry.split(" ", 1)
        step = f"{verb} {name.split('-')[0]}"
        if step not in found[-1:]:
            found.append(step)
    return found


def images_in_use(model: Model) -> set[str]:
    return {pod.metadata.labels[labels.POD_TEMPLATE_HASH] for pod in model.objects.of(PODS).values()}


def assert_finished(model: Model, trace: Trace) -> None:
    """Everything runs the latest templates, and nothing is left to do."""
    status = model.owner.status
    assert status is not None
    assert status.update_progress is not None
    assert status.update_progress.update_ended_at is not None
    assert status.update_progress.updating_replicas == []
    assert status.updated_replicas == status.available_replicas == model.owner.spec.replicas
    assert not trace.waits
    wanted = {clique.metadata.labels[labels.POD_TEMPLATE_HASH] for clique in model.objects.of(POD_CLIQUES).values()}
    assert images_in_use(model) == wanted
    assert model.settle(LATER) == []


def test_single_node_aggregated_frontends_one_by_one_and_workers_without_a_dip() -> None:
    wanted = spec(
        1,
        {"type": "RollingUpdate", "rollingUpdate": budget(1, 0)},
        cliques=[clique("frontend", 2), clique("agg-worker", 3, updateStrategy=budget(0, 1))],
    )
    model = running(wanted)
    trace = update(model, with_image(wanted, "v2"))
    assert of(trace, "web-0-frontend-") == ["delete 0", "create 0", "delete 1", "create 1"]
    assert of(trace, "web-0-agg-worker-") == [
        "create 3",
        "delete 0",
        "create 0",
        "delete 1",
        "create 1",
        "delete 2",
        "create 2",
        "delete 3",
    ]
    assert trace.lowest_available["web-0-agg-worker"] == 3
    assert trace.highest_total["web-0-agg-worker"] == 4
    assert trace.lowest_available["web-0-frontend"] == 1
    assert trace.highest_total["web-0-frontend"] == 2
    assert_finished(model, trace)


DISAGGREGATED = [clique("prefill-leader"), clique("prefill-worker", 2), clique("decode", 2)]
GROUPS = [group("prefill", ["prefill-leader", "prefill-worker"], 2), group("decode", ["decode"], 2)]


def test_disaggregated_with_room_recreates_whole_replicas_behind_an_extra_one() -> None:
    strategy = {"type": "ReplicaRecreate", "rollingUpdate": budget(0, 1)}
    wanted = spec(2, strategy, cliques=DISAGGREGATED, podCliqueScalingGroups=GROUPS)
    model = running(wanted)
    trace = update(model, with_image(wanted, "v2"))
    replicas = units(trace, "web-")
    assert [step for step in replicas if not step.startswith("ready")] == [
        "create 2",
        "delete 0",
        "gone 0",
        "create 0",
        "delete 1",
        "gone 1",
        "create 1",
        "gone 2",
    ]
    assert replicas.index("ready 2") < replicas.index("delete 0")
    assert trace.lowest_available["web"] == 2
    assert trace.highest_total["web"] == 3
    assert_finished(model, trace)
    assert not any(name.startswith("web-2") for name in model.objects.of(POD_GANGS))


def test_disaggregated_without_room_recreates_whole_replicas_one_by_one() -> None:
    strategy = {"type": "ReplicaRecreate", "rollingUpdate": budget(1, 0)}
    wanted = spec(2, strategy, cliques=DISAGGREGATED, podCliqueScalingGroups=GROUPS)
    model = running(wanted)
    trace = update(model, with_image(wanted, "v2"))
    assert [s for s in units(trace, "web-") if not s.startswith("ready")] == [
        "delete 0",
        "gone 0",
        "create 0",
        "delete 1",
        "gone 1",
        "create 1",
    ]
    assert trace.lowest_available["web"] == 1
    assert trace.highest_total["web"] == 2
    assert_finished(model, trace)


def test_three_set_replicas_with_one_extra_go_step_by_step_as_the_design_says() -> None:
    strategy = {"type": "ReplicaRecreate", "rollingUpdate": budget(0, 1)}
    wanted = spec(3, strategy, cliques=[clique("a", 2)])
    model = running(wanted)
    trace = update(model, with_image(wanted, "v2"))
    recreated = [f"{verb} {index}" for index in range(3) for verb in ("delete", "gone", "create", "ready")]
    assert units(trace, "web-") == ["create 3", "ready 3", *recreated, "gone 3"]
    assert trace.lowest_available["web"] == 3
    assert trace.highest_total["web"] == 4
    assert_finished(model, trace)


def test_both_replicas_at_once_when_both_may_be_missing() -> None:
    strategy = {"type": "ReplicaRecreate", "rollingUpdate": budget(2, 0)}
    wanted = spec(2, strategy, cliques=[clique("a", 2)])
    model = running(wanted)
    trace = update(model, with_image(wanted, "v2"))
    deleted = {record.name for record in trace.rounds[0] if record.verb == "delete"}
    assert deleted == {"web-0-a-0", "web-0-a-1", "web-1-a-0", "web-1-a-1"}
    assert_finished(model, trace)


def test_five_replicas_with_two_missing_and_one_extra_record_what_is_being_updated() -> None:
    strategy = {"type": "ReplicaRecreate", "rollingUpdate": budget(2, 1)}
    wanted = spec(5, strategy, cliques=[clique("a")])
    model = running(wanted)
    model.submit(with_image(wanted, "v2"))
    model.settle(LATER)
    assert model.owner.status is not None
    progress = model.owner.status.update_progress
    assert progress is not None
    assert [entry.replica_index for entry in progress.updating_replicas] == [0, 1, 5]
    trace = run_to_rest(model, LATER)
    assert trace.lowest_available["web"] == 3
    assert trace.highest_total["web"] == 6
    assert_finished(model, trace)


def test_aggregated_rolls_group_replicas_inside_one_set_replica_after_the_other() -> None:
    wanted = spec(
        2,
        {"type": "RollingUpdate", "rollingUpdate": budget(1, 0)},
        cliques=[clique("leader"), clique("worker", 2), clique("decoder", 2)],
        podCliqueScalingGroups=[
            group("prefill", ["leader", "worker"], 3, updateStrategy=budget(1, 0)),
            group("decode", ["decoder"], 2, updateStrategy=budget(0, 1)),
        ],
    )
    model = running(wanted)
    trace = update(model, with_image(wanted, "v2"))
    assert [s for s in units(trace, "web-0-prefill-") if s.startswith("delete")] == ["delete 0", "delete 1", "delete 2"]
    assert [s for s in units(trace, "web-0-decode-") if not s.startswith(("ready", "gone"))] == [
        "create 2",
        "delete 0",
        "create 0",
        "delete 1",
        "create 1",
    ]
    for index in (0, 1):
        assert trace.lowest_available[f"web-{index}-prefill"] == 2
        assert trace.highest_total[f"web-{index}-prefill"] == 3
        assert trace.lowest_available[f"web-{index}-decode"] == 2
        assert trace.highest_total[f"web-{index}-decode"] == 3
    touched = [record.name.split("-")[1] for record in trace.steps if record.kind == "Pod"]
    assert touched == sorted(touched), "the second replica is touched only when the first is done"
    assert_finished(model, trace)


def test_a_surge_group_replica_lives_in_a_scaled_gang_also_when_all_others_are_in_the_base_gang() -> None:
    wanted = spec(
        1,
        cliques=[clique("a", 2)],
        podCliqueScalingGroups=[group("g", ["a"], 3, minAvailable=3, updateStrategy=budget(0, 1))],
    )
    model = running(wanted)
    assert list(model.objects.of(POD_GANGS)) == ["web-0"]
    model.submit(with_image(wanted, "v2"))
    model.settle(LATER)
    assert sorted(model.objects.of(POD_GANGS)) == ["web-0", "web-0-g-3"]
    base = {group.name for group in model.objects.of(POD_GANGS)["web-0"].spec.podgroups}
    assert base == {"web-0-g-0-a", "web-0-g-1-a", "web-0-g-2-a"}
    trace = run_to_rest(model, LATER)
    assert [s for s in units(trace, "web-0-g-") if s.startswith(("delete", "ready"))] == [
        "ready 3",
        "delete 0",
        "ready 0",
        "delete 1",
        "ready 1",
        "delete 2",
        "ready 2",
    ]
    assert trace.lowest_available["web-0-g"] == 3
    assert list(model.objects.of(POD_GANGS)) == ["web-0"]
    assert_finished(model, trace)


def test_a_surge_group_replica_beside_a_scaled_one_is_removed_last() -> None:
    wanted = spec(
        1,
        cliques=[clique("a")],
        podCliqueScalingGroups=[group("g", ["a"], 3, minAvailable=2, updateStrategy=budget(0, 1))],
    )
    model = running(wanted)
    assert sorted(model.objects.of(POD_GANGS)) == ["web-0", "web-0-g-2"]
    trace = update(model, with_image(wanted, "v2"))
    assert units(trace, "web-0-g-")[-1] == "gone 3"
    assert sorted(model.objects.of(POD_GANGS)) == ["web-0", "web-0-g-2"]
    assert_finished(model, trace)


def test_a_stuck_extra_replica_says_why_and_ends_after_the_budget_is_corrected() -> None:
    strategy = {"type": "ReplicaRecreate", "rollingUpdate": budget(0, 1)}
    wanted = spec(2, strategy, cliques=[clique("a", 2)])
    model = running(wanted)
    model.conduct = Conduct(places=lambda pod: pod.metadata.labels[labels.REPLICA_INDEX] != "2")
    stuck = update(model, with_image(wanted, "v2"))
    assert any(wait.why.reason == "WaitingForSurge" for wait in stuck.waits)
    assert stuck.lowest_available["web"] == 2
    corrected = changed(with_image(wanted, "v2"), updateStrategy={**strategy, "rollingUpdate": budget(1, 0)})
    assert_finished(model, update(model, corrected))


def test_a_stuck_extra_pod_ends_after_the_template_is_corrected() -> None:
    wanted = spec(1, cliques=[clique("a", 3, updateStrategy=budget(0, 1))])
    model = running(wanted)
    bad = with_image(wanted, "bad")
    hashes = images_in_use(model)
    model.conduct = Conduct(starts=lambda pod: pod.metadata.labels[labels.POD_TEMPLATE_HASH] in hashes)
    stuck = update(model, bad)
    assert [wait.why.reason for wait in stuck.waits] == ["WaitingForSurge"]
    model.conduct = Conduct()
    trace = update(model, with_image(wanted, "good"))
    assert trace.lowest_available["web-0-a"] == 3
    assert_finished(model, trace)


def test_undoing_a_stuck_update_replaces_only_what_was_changed() -> None:
    wanted = spec(1, cliques=[clique("a", 3)])
    model = running(wanted)
    hashes = images_in_use(model)
    model.conduct = Conduct(starts=lambda pod: pod.metadata.labels[labels.POD_TEMPLATE_HASH] in hashes)
    stuck = update(model, with_image(wanted, "bad"))
    assert of(stuck, "web-0-a-") == ["delete 0", "create 0"]
    trace = update(model, wanted)
    assert of(trace, "web-0-a-") == ["delete 0", "create 0"]
    assert_finished(model, trace)
