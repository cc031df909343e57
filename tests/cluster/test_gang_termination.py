"""A gang that stays below its minimum is recreated after terminationDelay, in the smallest unit that is broken."""

from __future__ import annotations

from scenario_objects import Json, clique, is_ready, names, node_of, pod_clique_set, uids
from workbench import CLIQUES, PODS, Workbench

DELAY = "10s"


def with_delay(workload: Json) -> Json:
    workload["spec"]["template"]["terminationDelay"] = DELAY
    return workload


def break_one(bench: Workbench, clique_name: str) -> None:
    """Delete a running pod, and leave no room for the one that replaces it."""
    victim = bench.ready(clique=clique_name)[0]
    bench.cordon(node_of(victim))
    bench.delete(PODS, victim["metadata"]["name"])


def replica_is_recreated_after_breaking(bench: Workbench, name: str, clique_name: str) -> None:
    before = uids(bench.pods())
    break_one(bench, clique_name)
    countdown = bench.until("the countdown", lambda: told_breach(bench, clique_name))
    assert "its gang is recreated at" in countdown
    bench.until("every pod to be another", lambda: len(bench.pods()) == 10 and not before & uids(bench.pods()))
    told = bench.until("the event", lambda: bench.events("PodCliqueSet", name, "GangTerminated"))
    assert clique_name in told[0]
    bench.until_refused(total=10, running=0)
    fresh = uids(bench.pods())
    bench.uncordon()
    bench.until_counts(total=10, running=10)
    assert uids(bench.pods()) == fresh, "one breach ends a gang once"


def told_breach(bench: Workbench, clique_name: str) -> str:
    breach = bench.condition(CLIQUES, clique_name, "MinAvailableBreached")
    message: str = breach["message"] if breach.get("status") == "True" else ""
    return message


def test_replica_is_recreated_when_a_standalone_clique_stays_short(bench: Workbench) -> None:
    bench.add_nodes(10)
    bench.create(with_delay(bench.workload(1)))
    bench.until_counts(total=10, running=10)
    replica_is_recreated_after_breaking(bench, "workload1", "workload1-0-pc-a")


def test_replica_is_recreated_when_too_few_group_replicas_are_left(bench: Workbench) -> None:
    bench.add_nodes(10)
    bench.create(with_delay(bench.workload(1)))
    bench.until_counts(total=10, running=10)
    replica_is_recreated_after_breaking(bench, "workload1", "workload1-0-sg-x-0-pc-c")


def test_only_the_broken_group_replica_is_recreated_while_enough_are_left(bench: Workbench) -> None:
    bench.add_nodes(5)
    group = {"name": "sg", "cliqueNames": ["w"], "replicas": 2, "minAvailable": 1}
    wanted = pod_clique_set(
        "team", clique("a", 1), clique("w", 2), podCliqueScalingGroups=[group], terminationDelay="2s"
    )
    bench.create(bench.placed(wanted))
    bench.until_counts(total=5, running=5)
    untouched = uids(bench.pods(gang="team-0"))
    broken = uids(bench.pods(gang="team-0-sg-1"))

    break_one(bench, "team-0-sg-1-w")
    bench.until(
        "the group replica to be another",
        lambda: len(bench.pods(gang="team-0-sg-1")) == 2 and not broken & uids(bench.pods(gang="team-0-sg-1")),
    )
    bench.uncordon()
    bench.until_counts(total=5, running=5)
    assert uids(bench.pods(gang="team-0")) == untouched


def test_lost_pod_above_the_minimum_is_replaced_and_nothing_else_happens(bench: Workbench) -> None:
    bench.add_nodes(10)
    bench.create(with_delay(bench.workload(2)))
    bench.until_counts(total=10, running=10)
    before = uids(bench.pods())
    victim = bench.ready(clique="workload2-0-sg-x-1-pc-c")[0]
    assert victim["metadata"]["labels"]["grove.io/base-podgang"] == "workload2-0"
    bench.delete(PODS, victim["metadata"]["name"])
    bench.until(
        "the pod to be replaced",
        lambda: any(
            pod["metadata"]["uid"] not in before and is_ready(pod)
            for pod in bench.pods(clique="workload2-0-sg-x-1-pc-c")
        ),
    )
    bench.until_settled("workload2")
    assert before - uids(bench.pods()) == {victim["metadata"]["uid"]}
    assert victim["metadata"]["name"] in names(bench.pods())
    assert not bench.events("PodCliqueSet", "workload2", "GangTerminated")
