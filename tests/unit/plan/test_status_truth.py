"""Statuses tell the truth at every moment: terminating pods count nowhere, errors are cleared, times are kept."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import Any

import msgspec
import pytest
from sample_sets import LATER, NOW, budget, changed, clique, group, pod_clique_set, running, spec, update, with_image

from grove.api.kinds import POD_CLIQUES, POD_GANGS, PODS, SCALING_GROUPS
from grove.api.meta import LastError, condition
from grove.api.pod_clique import PodCliqueStatus
from grove.api.pod_clique_set import PodCliqueSetStatus
from grove.insight.model import Conduct, Model
from grove.plan.pod_clique_set import plan_set
from grove.plan.replica import plan_replica


def clique_status(model: Model, name: str) -> PodCliqueStatus:
    status = model.objects.of(POD_CLIQUES)[name].status
    assert status is not None
    return status


def set_status(model: Model) -> PodCliqueSetStatus:
    assert model.owner.status is not None
    return model.owner.status


def phase(model: Model, gang: str) -> str:
    status = model.objects.of(POD_GANGS)[gang].status
    assert status is not None
    return status.phase


def test_terminating_pods_count_nowhere() -> None:
    model = running(spec(1, cliques=[clique("a", 3, minAvailable=1)]))
    model.objects.delete(PODS, "web-0-a-1", LATER)
    model.settle(LATER)
    status = clique_status(model, "web-0-a")
    counts = (status.replicas, status.ready_replicas, status.scheduled_replicas, status.updated_replicas)
    assert counts == (2, 2, 2, 2)


def test_counts_of_a_start_are_true_at_every_stage() -> None:
    model = Model.from_objects(pod_clique_set(spec(1, cliques=[clique("a", 2)])))
    model.conduct = Conduct(places=lambda pod: False)
    model.settle(NOW)
    status = clique_status(model, "web-0-a")
    assert (status.replicas, status.scheduled_replicas, status.ready_replicas) == (2, 0, 0)
    assert phase(model, "web-0") == "Pending"
    model.conduct = Conduct(starts=lambda pod: False)
    model.advance(NOW)
    model.settle(NOW)
    status = clique_status(model, "web-0-a")
    assert (status.replicas, status.scheduled_replicas, status.ready_replicas) == (2, 2, 0)
    assert phase(model, "web-0") == "Starting"
    assert set_status(model).available_replicas == 0


def test_updated_replicas_follow_every_step_of_an_update() -> None:
    wanted = spec(1, cliques=[clique("a", 2)])
    model = running(wanted)
    model.submit(with_image(wanted, "v2"))
    seen: list[tuple[int, int, int]] = []
    while model.settle(LATER) or model.pending():
        status = clique_status(model, "web-0-a")
        seen.append((status.replicas, status.updated_replicas, status.ready_replicas))
        for event in model.pending()[:1]:
            model.happen(event, LATER)
    status = clique_status(model, "web-0-a")
    seen.append((status.replicas, status.updated_replicas, status.ready_replicas))
    # Existing, updated, ready: one pod goes, comes back new, is ready; then the other.
    assert list(dict.fromkeys(seen)) == [(1, 0, 1), (2, 1, 1), (1, 1, 1), (2, 2, 1), (2, 2, 2)]
    assert set_status(model).updated_replicas == 1


@pytest.mark.parametrize("strategy", [{"type": "ReplicaRecreate"}, {"partition": 2}, {"paused": True}], ids=str)
def test_a_replica_that_is_held_counts_nothing_as_updated_that_the_set_no_longer_asks_for(strategy: Any) -> None:
    wanted = spec(
        2,
        strategy,
        cliques=[clique("a", 2), clique("b"), clique("c")],
        podCliqueScalingGroups=[group("g", ["b"], 2)],
    )
    model = running(wanted)
    model.conduct = Conduct(starts=lambda pod: False)
    update(model, with_image(wanted, "v2", "a", "b"))
    cliques, held = model.objects.of(POD_CLIQUES), model.objects.of(SCALING_GROUPS)["web-1-g"].status
    counted = {name: item.status.updated_replicas for name, item in cliques.items() if item.status and "web-1" in name}
    assert counted == {"web-1-a": 0, "web-1-g-0-b": 0, "web-1-g-1-b": 0, "web-1-c": 1}
    assert held is not None
    assert (held.updated_replicas, held.available_replicas) == (0, 2)
    assert set_status(model).updated_replicas == 0


def test_the_lists_of_an_update_name_what_goes_and_what_went() -> None:
    wanted = spec(
        1,
        cliques=[clique("a", 3, updateStrategy=budget(2, 0)), clique("b")],
        podCliqueScalingGroups=[group("g", ["b"], 2)],
    )
    model = running(wanted)
    model.submit(with_image(wanted, "v2"))
    model.settle(LATER)
    progress = clique_status(model, "web-0-a").update_progress
    assert progress is not None
    assert progress.ready_pods_selected_to_update is not None
    assert progress.ready_pods_selected_to_update.current == ["web-0-a-0", "web-0-a-1"]
    of_group = model.objects.of(SCALING_GROUPS)["web-0-g"].status
    assert of_group is not None
    assert of_group.update_progress is not None
    assert of_group.update_progress.ready_replica_indices_selected_to_update is not None
    assert of_group.update_progress.ready_replica_indices_selected_to_update.current == [0]
    while model.advance(LATER):
        pass
    progress = clique_status(model, "web-0-a").update_progress
    assert progress is not None
    assert progress.update_ended_at is not None
    assert progress.ready_pods_selected_to_update is not None
    assert progress.ready_pods_selected_to_update.current == []
    assert progress.ready_pods_selected_to_update.completed == ["web-0-a-0", "web-0-a-1", "web-0-a-2"]


def test_completed_lists_are_bounded() -> None:
    wanted = spec(1, cliques=[clique("a", 30, minAvailable=1, updateStrategy=budget(10, 0))])
    model = running(wanted)
    update(model, with_image(wanted, "v2"))
    progress = clique_status(model, "web-0-a").update_progress
    assert progress is not None
    assert progress.ready_pods_selected_to_update is not None
    assert len(progress.ready_pods_selected_to_update.completed) == 20


def test_errors_are_told_while_they_last_and_cleared_after() -> None:
    model = running(spec(1, cliques=[clique("a", 2)]))
    history = model.history()
    assert history is not None
    trouble = LastError(code="ERR", description="web-0-a: quota exceeded", observed_at="2026-01-01T00:00:00Z")
    world = replace(model.replica_world(0, history), errors=(trouble,))
    plan, summary = plan_replica(world, LATER)
    told = next(write.status for write in plan.statuses if write.name == "web-0-a")
    assert isinstance(told, PodCliqueStatus)
    assert told.last_errors == [trouble]
    whole = replace(model.set_world(), replicas={0: summary})
    status = plan_set(whole, LATER).statuses[0].status
    assert isinstance(status, PodCliqueSetStatus)
    assert status.last_errors == [trouble]
    stalled = condition(status.conditions, "Stalled")
    assert stalled is not None
    assert (stalled.status, stalled.message) == ("True", "web-0-a: quota exceeded")
    plan, _ = plan_replica(model.replica_world(0, history), LATER)
    cleared = next(write.status for write in plan.statuses if write.name == "web-0-a")
    assert isinstance(cleared, PodCliqueStatus)
    assert cleared.last_errors == []


def test_at_rest_a_later_look_writes_nothing() -> None:
    model = running(spec(2, cliques=[clique("a", 2), clique("b")], podCliqueScalingGroups=[group("g", ["b"], 2)]))
    before = (model.owner.status, {n: c.status for n, c in model.objects.of(POD_CLIQUES).items()})
    assert model.settle(LATER + timedelta(days=1)) == []
    assert (model.owner.status, {n: c.status for n, c in model.objects.of(POD_CLIQUES).items()}) == before


def test_ready_reconciling_and_stalled_tell_of_start_rest_and_update() -> None:
    wanted = spec(1, cliques=[clique("a", 2)])
    model = Model.from_objects(pod_clique_set(wanted))
    model.settle(NOW)

    def said() -> dict[str, str]:
        return {c.type: c.status for c in set_status(model).conditions}

    assert said()["Ready"] == "False"
    assert said()["Reconciling"] == "True"
    while model.advance(NOW):
        pass
    assert {k: said()[k] for k in ("Ready", "Reconciling", "Stalled")} == {
        "Ready": "True",
        "Reconciling": "False",
        "Stalled": "False",
    }
    model.submit(with_image(wanted, "v2"))
    model.settle(LATER)
    assert said()["Reconciling"] == "True"


def test_a_stuck_update_passes_its_deadline_with_the_cause_and_recovers_by_a_corrected_template() -> None:
    wanted = spec(1, {"progressDeadlineSeconds": 600}, cliques=[clique("a", 2, updateStrategy=budget(0, 1))])
    model = running(wanted)
    model.conduct = Conduct(starts=lambda pod: pod.metadata.name != "web-0-a-2")
    update(model, with_image(wanted, "bad"))
    deadline = next(wait.until for wait in model.waits if wait.until is not None)
    assert 0 < deadline <= 600
    late = LATER + timedelta(minutes=30)
    model.settle(late)
    conditions = set_status(model).conditions
    progressing, stalled = condition(conditions, "Progressing"), condition(conditions, "Stalled")
    assert progressing is not None
    assert stalled is not None
    assert (progressing.status, progressing.reason) == ("False", "ProgressDeadlineExceeded")
    assert (stalled.status, stalled.reason) == ("True", "ProgressDeadlineExceeded")
    assert "surge pod 2 not available yet" in stalled.message
    model.conduct = Conduct()
    trace = update(model, with_image(wanted, "good"), late)
    assert not [wait for wait in trace.waits if wait.until is None]
    progressing = condition(set_status(model).conditions, "Progressing")
    assert progressing is not None
    assert progressing.status == "True"


def test_the_pass_that_opens_an_update_or_sees_it_move_sets_the_timer_of_its_deadline() -> None:
    """Nothing else may come: the status written in that pass wakes nobody."""
    wanted = spec(1, {"progressDeadlineSeconds": 600}, cliques=[clique("a", 2)])
    model = running(wanted)
    model.submit(with_image(wanted, "v2"))
    assert plan_set(model.set_world(), LATER).wake_after is None, "the revision is recorded first"
    model.objects.carry_out(plan_set(model.set_world(), LATER).stages[0][0], LATER)
    history = model.history()
    assert history is not None
    _, summary = plan_replica(model.replica_world(0, history), LATER)
    assert plan_set(replace(model.set_world(), replicas={0: summary}), LATER).wake_after == 600


def test_the_deadline_counts_from_the_last_progress() -> None:
    wanted = spec(1, {"progressDeadlineSeconds": 600}, cliques=[clique("a", 2)])
    model = running(wanted)
    model.submit(with_image(wanted, "v2"))
    model.advance(LATER)
    model.advance(LATER)
    model.settle(LATER)
    moved = LATER + timedelta(minutes=9)
    model.advance(moved)  # the first new pod becomes ready
    model.settle(moved)
    progress = set_status(model).update_progress
    assert progress is not None
    assert progress.last_progress_at == "2026-01-01T01:09:00Z"
    model.settle(LATER + timedelta(minutes=15))
    progressing = condition(set_status(model).conditions, "Progressing")
    assert progressing is not None
    assert progressing.status == "True"


def test_a_pod_that_comes_and_goes_does_not_put_the_deadline_off() -> None:
    wanted = spec(1, {"progressDeadlineSeconds": 600}, cliques=[clique("a", 2, minAvailable=1)])
    model = running(wanted)
    model.conduct = Conduct(starts=lambda pod: pod.metadata.name != "web-0-a-1")
    update(model, with_image(wanted, "v2"))
    for minutes in range(1, 12):
        model.mark("web-0-a-0", ready=minutes % 2 == 0)
        model.settle(LATER + timedelta(minutes=minutes))
    progressing = condition(set_status(model).conditions, "Progressing")
    assert progressing is not None
    assert (progressing.status, progressing.reason) == ("False", "ProgressDeadlineExceeded")


def test_pods_that_come_after_a_scale_count_as_progress_whatever_was_reached_before() -> None:
    wanted = spec(1, {"progressDeadlineSeconds": 600}, cliques=[clique("a", 4, minAvailable=1)])
    model = running(wanted)
    model.conduct = Conduct(starts=lambda pod: pod.metadata.name != "web-0-a-3")
    update(model, with_image(wanted, "v2"))
    progress = set_status(model).update_progress
    assert progress is not None
    assert (progress.updated_pods, progress.total_pods, progress.most_updated_pods) == (3, 4, 3)
    standing = model.objects.of(POD_CLIQUES)["web-0-a"]
    scaled = msgspec.structs.replace(standing.spec, replicas=3)
    model.objects.replace(POD_CLIQUES, msgspec.structs.replace(standing, spec=scaled))
    model.mark("web-0-a-0", ready=False)
    model.settle(LATER + timedelta(minutes=5))
    model.mark("web-0-a-0", ready=True)
    moved = LATER + timedelta(minutes=9)
    model.settle(moved)
    progress = set_status(model).update_progress
    assert progress is not None
    assert progress.last_progress_at == "2026-01-01T01:09:00Z"


def test_scaled_to_zero_is_ready_and_at_rest() -> None:
    wanted = spec(1, cliques=[clique("a")])
    model = running(wanted)
    trace = update(model, changed(wanted, replicas=0))
    assert not trace.waits
    assert not model.objects.of(PODS)
    assert not model.objects.of(POD_CLIQUES)
    assert not model.objects.of(POD_GANGS)
    ready = condition(set_status(model).conditions, "Ready")
    assert ready is not None
    assert (ready.status, ready.reason) == ("True", "ScaledToZero")
