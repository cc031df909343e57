"""Gang termination: the smallest unit, once per breach, never before it ran, and safe at every crash."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any

from sample_sets import LATER, changed, clique, group, running, spec, with_image

from grove.api.kinds import POD_CLIQUES, POD_GANGS, PODS, SCALING_GROUPS
from grove.api.meta import condition
from grove.api.pod_clique import PodCliqueStatus
from grove.api.pod_clique_set import PodCliqueSetSpec
from grove.insight.forecast import run_to_rest
from grove.insight.model import Conduct, Model
from grove.plan.actions import Delete, StatusWrite
from grove.plan.replica import plan_replica
from grove.plan.termination import delay

DELAY = timedelta(minutes=10)


def workload(group_replicas: int = 3, minimum: int = 1, **template: Any) -> PodCliqueSetSpec:
    return spec(
        1,
        cliques=[clique("a", 2, minAvailable=1), clique("b"), clique("c", 2, minAvailable=2)],
        podCliqueScalingGroups=[group("g", ["b", "c"], group_replicas, minAvailable=minimum)],
        **{"terminationDelay": "10m", **template},
    )


def break_pods(model: Model, *names: str, now: datetime = LATER) -> None:
    """These pods stop being ready for good; whatever replaces them works."""
    broken = {model.objects.of(PODS)[name].metadata.uid for name in names}
    for name in names:
        model.mark(name, ready=False)
    model.conduct = Conduct(starts=lambda pod: pod.metadata.uid not in broken)
    model.settle(now)


def doomed(model: Model, now: datetime) -> set[str]:
    """The pods the operator deletes when it looks at this time."""
    return {record.name for record in model.settle(now) if record.verb == "delete" and record.kind == "Pod"}


def breach(model: Model, name: str) -> tuple[str, str]:
    status = model.objects.of(POD_CLIQUES)[name].status
    assert status is not None
    found = condition(status.conditions, "MinAvailableBreached")
    assert found is not None
    return found.status, found.message


def test_a_group_replica_goes_alone_while_enough_of_its_group_is_left() -> None:
    model = running(workload())
    break_pods(model, "web-0-g-2-c-0")
    assert doomed(model, LATER + DELAY) == {"web-0-g-2-b-0", "web-0-g-2-c-0", "web-0-g-2-c-1"}


def test_the_whole_replica_goes_when_too_little_of_a_group_is_left() -> None:
    model = running(workload(group_replicas=2, minimum=2))
    break_pods(model, "web-0-g-1-b-0")
    assert doomed(model, LATER + DELAY) == set(model.objects.of(PODS))


def test_the_whole_replica_goes_for_a_standalone_clique() -> None:
    model = running(workload())
    break_pods(model, "web-0-a-0", "web-0-a-1")
    assert len(doomed(model, LATER + DELAY)) == 11


def test_above_its_minimum_a_clique_is_not_broken() -> None:
    model = running(workload())
    break_pods(model, "web-0-a-0")
    assert breach(model, "web-0-a")[0] == "False"
    assert doomed(model, LATER + 100 * DELAY) == set()


def test_the_countdown_names_the_moment_it_ends_and_wakes_the_operator_then() -> None:
    model = running(workload())
    break_pods(model, "web-0-g-2-b-0")
    status, message = breach(model, "web-0-g-2-b")
    assert status == "True"
    assert "0 of at least 1 pods ready; its gang is recreated at 2026-01-01T01:10:00Z unless it recovers" in message
    wait = next(wait for wait in model.waits if wait.subject == "web-0-g-2-b")
    assert wait.until == DELAY.total_seconds()
    assert "2026-01-01T01:10:00Z" in wait.why.message
    model.settle(LATER + timedelta(minutes=4))
    assert breach(model, "web-0-g-2-b")[1] == message, "an absolute time needs no rewriting"
    assert doomed(model, LATER + DELAY - timedelta(seconds=1)) == set()


def test_a_unit_that_recovers_in_time_is_left_alone() -> None:
    model = running(workload())
    break_pods(model, "web-0-g-2-b-0")
    model.mark("web-0-g-2-b-0", ready=True)
    model.settle(LATER + DELAY / 2)
    assert breach(model, "web-0-g-2-b")[0] == "False"
    assert doomed(model, LATER + 2 * DELAY) == set()


def test_one_breach_ends_one_gang_once_even_if_its_successor_never_comes_up() -> None:
    model = running(workload())
    model.mark("web-0-g-2-b-0", ready=False)
    model.conduct = Conduct(starts=lambda pod: not pod.metadata.name.startswith("web-0-g-2"))
    model.settle(LATER)
    deleted = 0
    for minute in range(0, 120, 5):
        records = model.advance(LATER + timedelta(minutes=minute))
        deleted += sum(record.verb == "delete" and record.kind == "Pod" for record in records)
    assert deleted == 3
    assert breach(model, "web-0-g-2-b")[0] == "False"
    status = model.objects.of(POD_CLIQUES)["web-0-g-2-b"].status
    assert status is not None
    has_run = condition(status.conditions, "HasRun")
    assert has_run is not None
    assert has_run.status == "False"


def test_what_comes_back_and_breaks_again_is_ended_again() -> None:
    model = running(workload())
    break_pods(model, "web-0-g-2-b-0")
    model.settle(LATER + DELAY)
    run_to_rest(model, LATER + DELAY)
    again = LATER + 5 * DELAY
    break_pods(model, "web-0-g-2-b-0", now=again)
    assert doomed(model, again + DELAY / 2) == set()
    assert len(doomed(model, again + DELAY)) == 3


def test_what_never_ran_is_never_ended() -> None:
    model = Model.from_objects(running(workload()).owner)
    model.owner.status = None
    model.conduct = Conduct(starts=lambda pod: False)
    run_to_rest(model, LATER)
    assert len(model.objects.of(PODS)) == 11
    assert doomed(model, LATER + 100 * DELAY) == set()


def test_it_can_be_switched_off() -> None:
    model = running(workload(terminationPolicy="Never"))
    break_pods(model, "web-0-a-0", "web-0-a-1")
    status, message = breach(model, "web-0-a")
    assert status == "True"
    assert "recreated" not in message
    assert doomed(model, LATER + 1000 * DELAY) == set()


def test_the_default_is_four_hours() -> None:
    assert delay(spec(cliques=[clique("a")]).template) == timedelta(hours=4)


def test_the_unit_being_updated_is_exempt_and_only_that_unit() -> None:
    wanted = changed(workload(), replicas=2)
    model = running(wanted)
    broken = {model.objects.of(PODS)[f"web-1-a-{i}"].metadata.uid for i in (0, 1)}
    for index in (0, 1):
        model.mark(f"web-1-a-{index}", ready=False)
    old = {pod.metadata.uid for pod in model.objects.of(PODS).values()}
    model.conduct = Conduct(starts=lambda pod: pod.metadata.uid in old - broken)
    # Replica 1 is broken and is taken first; its update gets stuck, and nothing of it is ended for that.
    model.submit(with_image(wanted, "v2"))
    for minute in range(0, 100, 5):
        model.advance(LATER + timedelta(minutes=minute))
    assert breach(model, "web-1-a")[0] == "Unknown"
    assert all(name.startswith(("web-0", "web-1-a", "web-1-g")) for name in model.objects.of(PODS))
    # Replica 0 waits for its turn and stays armed.
    model.mark("web-0-g-2-b-0", ready=False)
    start = LATER + timedelta(hours=3)
    model.conduct = Conduct(starts=lambda pod: False)
    model.settle(start)
    assert breach(model, "web-0-g-2-b")[0] == "True"
    assert {name for name in doomed(model, start + DELAY) if name.startswith("web-0")} == {
        "web-0-g-2-b-0",
        "web-0-g-2-c-0",
        "web-0-g-2-c-1",
    }


def test_a_crash_between_deleting_and_taking_the_record_back_ends_nothing_twice() -> None:
    model = running(workload())
    break_pods(model, "web-0-g-2-b-0")
    late = LATER + DELAY
    history = model.history()
    assert history is not None
    plan, _ = plan_replica(model.replica_world(0, history), late)
    for stage in plan.stages:  # The deletions reach the API server, no status does.
        for action in stage:
            if not isinstance(action, StatusWrite):
                model.objects.carry_out(action, late)
    assert breach(model, "web-0-g-2-b")[0] == "True"
    plan, _ = plan_replica(model.replica_world(0, history), late + timedelta(minutes=1))
    assert not any(isinstance(action, Delete) for stage in plan.stages for action in stage)
    reset = next(write.status for write in plan.statuses if write.name == "web-0-g-2-b")
    assert isinstance(reset, PodCliqueStatus)
    has_run = condition(reset.conditions, "HasRun")
    assert has_run is not None
    assert has_run.status == "False"
    trace = run_to_rest(model, late + timedelta(minutes=2))
    assert not [record for record in trace.steps if record.verb == "delete"]
    assert len(model.objects.of(PODS)) == 11


def test_after_the_end_of_a_whole_replica_its_scaled_gangs_wait_for_its_base_gang_again() -> None:
    model = running(workload())
    break_pods(model, "web-0-a-0", "web-0-a-1")
    model.settle(LATER + DELAY)
    run_to_rest(model, LATER + DELAY)
    model.conduct = Conduct(places=lambda pod: not pod.metadata.name.startswith("web-0-a"))
    again = LATER + 10 * DELAY
    for index in (0, 1):
        model.mark(f"web-0-a-{index}", ready=False)
    model.conduct = Conduct(places=lambda pod: False, starts=lambda pod: False)
    model.settle(again)
    model.settle(again + DELAY)
    for event in model.pending():
        model.happen(event, again + DELAY)
    model.settle(again + DELAY)
    gang = model.objects.of(POD_GANGS)["web-0"].status
    assert gang is not None
    once = condition(gang.conditions, "ScheduledOnce")
    assert once is not None
    assert once.status == "False"
    scaled = [pod for name, pod in model.objects.of(PODS).items() if name.startswith("web-0-g-2")]
    assert scaled
    assert all(pod.spec.scheduling_gates for pod in scaled)


def test_the_group_says_whether_it_has_enough_whole_replicas() -> None:
    model = running(workload(group_replicas=3, minimum=2))
    break_pods(model, "web-0-g-2-b-0")
    status = model.objects.of(SCALING_GROUPS)["web-0-g"].status
    assert status is not None
    found = condition(status.conditions, "MinAvailableBreached")
    assert found is not None
    assert (found.status, status.available_replicas) == ("False", 2)
