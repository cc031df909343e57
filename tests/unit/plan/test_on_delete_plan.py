"""OnDelete: nothing is taken down, what comes anew is new, and progress opens and closes in one moment."""

from __future__ import annotations

import msgspec
from sample_sets import LATER, budget, changed, clique, group, running, spec, update, with_image

from grove.api import labels
from grove.api.kinds import POD_CLIQUES, PODS, SCALING_GROUPS
from grove.api.pod_clique import PodClique
from grove.api.scaling_group import ScalingGroup
from grove.insight.forecast import run_to_rest
from grove.insight.model import Model
from grove.plan.revision import of_template

WANTED = spec(
    1,
    {"type": "OnDelete"},
    cliques=[clique("a", 3), clique("b"), clique("c", 2)],
    podCliqueScalingGroups=[group("g", ["b", "c"], 2)],
)
TARGET = with_image(WANTED, "v2")


def outdated(model: Model) -> list[str]:
    latest = {template.hash for template in of_template(model.owner.spec.template).cliques.values()}
    pods = model.objects.of(PODS)
    return sorted(n for n, p in pods.items() if p.metadata.labels[labels.POD_TEMPLATE_HASH] not in latest)


def test_a_new_template_deletes_no_pod_and_closes_its_progress_at_once() -> None:
    model = running(WANTED)
    trace = update(model, TARGET)
    assert not [record for record in trace.steps if record.kind == "Pod"]
    assert not trace.waits
    status = model.owner.status
    assert status is not None
    assert status.current_generation_hash == of_template(TARGET.template).hash
    assert status.updated_replicas == 0
    assert status.available_replicas == 1
    assert status.update_progress is not None
    assert status.update_progress.update_started_at == status.update_progress.update_ended_at
    assert status.update_progress.updating_replicas == []
    for name in ("web-0-a", "web-0-g-0-b"):
        of_clique = model.objects.of(POD_CLIQUES)[name].status
        assert of_clique is not None
        assert of_clique.updated_replicas == 0
        assert of_clique.update_progress is not None
        assert of_clique.update_progress.update_started_at == of_clique.update_progress.update_ended_at
        assert of_clique.update_progress.ready_pods_selected_to_update is None
        assert of_clique.update_progress.pod_template_hash == of_template(TARGET.template).cliques[name[-1]].hash
    of_group = model.objects.of(SCALING_GROUPS)["web-0-g"].status
    assert of_group is not None
    assert of_group.updated_replicas == 0
    assert of_group.update_progress is not None
    assert of_group.update_progress.update_started_at == of_group.update_progress.update_ended_at
    assert of_group.update_progress.ready_replica_indices_selected_to_update is None


def test_a_pod_deleted_by_hand_comes_back_new_and_is_counted() -> None:
    model = running(WANTED)
    update(model, TARGET)
    model.objects.delete(PODS, "web-0-a-1", LATER)
    model.objects.delete(PODS, "web-0-g-0-c-0", LATER)
    run_to_rest(model, LATER)
    assert {"web-0-a-1", "web-0-g-0-c-0"}.isdisjoint(outdated(model))
    assert len(outdated(model)) == 7
    status = model.objects.of(POD_CLIQUES)["web-0-a"].status
    assert status is not None
    assert (status.updated_replicas, status.replicas) == (1, 3)


def test_a_group_replica_whose_cliques_are_deleted_by_hand_comes_back_new() -> None:
    model = running(WANTED)
    update(model, TARGET)
    for name in ("web-0-g-1-b", "web-0-g-1-c"):
        model.objects.delete(POD_CLIQUES, name, LATER)
    run_to_rest(model, LATER)
    assert not [name for name in outdated(model) if name.startswith("web-0-g-1")]
    status = model.objects.of(SCALING_GROUPS)["web-0-g"].status
    assert status is not None
    assert (status.updated_replicas, status.replicas) == (1, 2)


def test_a_scale_in_takes_outdated_pods_first() -> None:
    model = running(WANTED)
    update(model, TARGET)
    for index in (1, 2):
        model.objects.delete(PODS, f"web-0-a-{index}", LATER)
    run_to_rest(model, LATER)
    seen = model.objects.of(POD_CLIQUES)["web-0-a"]
    model.objects.replace(POD_CLIQUES, msgspec.structs.replace(seen, spec=_with_replicas(seen.spec, 2)))
    run_to_rest(model, LATER)
    assert sorted(n for n in model.objects.of(PODS) if n.startswith("web-0-a")) == ["web-0-a-1", "web-0-a-2"]


def _with_replicas(clique_spec: msgspec.Struct, replicas: int) -> msgspec.Struct:
    return msgspec.structs.replace(clique_spec, replicas=replicas)


def test_a_scale_in_of_a_group_takes_the_highest_index_whatever_it_runs() -> None:
    model = running(WANTED)
    update(model, TARGET)
    for name in ("web-0-g-1-b", "web-0-g-1-c"):
        model.objects.delete(POD_CLIQUES, name, LATER)
    run_to_rest(model, LATER)
    seen = model.objects.of(SCALING_GROUPS)["web-0-g"]
    model.objects.replace(SCALING_GROUPS, msgspec.structs.replace(seen, spec=_with_replicas(seen.spec, 1)))
    run_to_rest(model, LATER)
    assert {n.split("-")[3] for n in model.objects.of(PODS) if n.startswith("web-0-g")} == {"0"}


def test_switching_to_rolling_starts_rolling_what_is_outdated() -> None:
    model = running(WANTED)
    update(model, TARGET)
    trace = update(model, changed(TARGET, updateStrategy={"type": "RollingRecreate"}))
    assert not trace.waits
    assert outdated(model) == []
    assert trace.lowest_available["web-0-a"] == 2


def test_switching_from_rolling_in_mid_roll_stops_it_and_closes_the_progress() -> None:
    rolling = changed(TARGET, updateStrategy={"type": "RollingRecreate"})
    model = running(changed(WANTED, updateStrategy={"type": "RollingRecreate"}))
    model.submit(rolling)
    model.advance(LATER)
    model.advance(LATER)
    trace = update(model, TARGET)
    assert not [record for record in trace.steps if record.verb == "delete"]
    assert not trace.waits
    assert outdated(model)
    status = model.owner.status
    assert status is not None
    assert status.update_progress is not None
    assert status.update_progress.update_ended_at is not None
    parts: list[PodClique | ScalingGroup] = [*model.objects.of(POD_CLIQUES).values()]
    parts += model.objects.of(SCALING_GROUPS).values()
    for item in parts:
        assert item.status is not None
        progress = item.status.update_progress
        assert progress is None or progress.update_ended_at is not None
        breached = next(c for c in item.status.conditions if c.type == "MinAvailableBreached")
        assert breached.status == "False", "gang termination is armed again"


def test_switching_from_whole_replicas_with_an_extra_one_removes_the_extra_one() -> None:
    strategy = {"type": "ReplicaRecreate", "rollingUpdate": budget(0, 1)}
    model = running(changed(WANTED, updateStrategy=strategy))
    model.submit(changed(TARGET, updateStrategy=strategy))
    model.advance(LATER)
    assert any(name.startswith("web-1") for name in model.objects.of(PODS))
    update(model, TARGET)
    assert not any(name.startswith("web-1") for name in model.objects.of(PODS))
