"""Gangs run whole or not at all, their minimum first, and grow with the cluster. One node has room for one pod."""

from __future__ import annotations

from scenario_objects import names
from workbench import GROUPS, SETS, Workbench


def running_by_clique(bench: Workbench) -> dict[str, int]:
    found: dict[str, int] = {}
    for pod in bench.ready():
        clique = pod["metadata"]["labels"]["grove.io/podclique"]
        found[clique] = found.get(clique, 0) + 1
    return found


def test_gang_stays_pending_as_a_whole_until_the_last_pod_fits(bench: Workbench) -> None:
    bench.add_nodes(10, cordoned=1)
    bench.create(bench.workload(1))
    bench.until_refused(total=10, running=0)
    bench.uncordon(1)
    bench.until_counts(total=10, running=10)
    assert bench.until_settled("workload1")["status"]["availableReplicas"] == 1


def test_scaled_out_group_replica_waits_as_a_whole_beside_a_running_gang(bench: Workbench) -> None:
    bench.add_nodes(14, cordoned=5)
    bench.create(bench.workload(1))
    bench.until_refused(total=10, running=0)
    bench.uncordon(1)
    bench.until_counts(total=10, running=10)

    bench.scale(GROUPS, "workload1-0-sg-x", 3)
    bench.until_refused(total=14, running=10)
    assert names(bench.pods(gang="workload1-0-sg-x-2")) == {
        "workload1-0-sg-x-2-pc-b-0",
        *(f"workload1-0-sg-x-2-pc-c-{i}" for i in range(3)),
    }
    bench.uncordon()
    bench.until_counts(total=14, running=14)


def test_second_replica_of_a_set_waits_as_a_whole_beside_the_first(bench: Workbench) -> None:
    bench.add_nodes(20, cordoned=11)
    bench.create(bench.workload(1))
    bench.until_refused(total=10, running=0)
    bench.uncordon(1)
    bench.until_counts(total=10, running=10)

    bench.scale(SETS, "workload1", 2)
    bench.until_refused(total=20, running=10)
    assert len(bench.ready(replica="0")) == 10
    bench.uncordon()
    bench.until_counts(total=20, running=20)


def test_minimum_of_every_clique_runs_first_and_the_rest_follows(bench: Workbench) -> None:
    bench.add_nodes(10, cordoned=8)
    bench.create(bench.workload(2))
    bench.until_refused(total=10, running=0)
    bench.uncordon(1)
    bench.until_refused(total=10, running=3)
    minimum = {"workload2-0-pc-a": 1, "workload2-0-sg-x-0-pc-b": 1, "workload2-0-sg-x-0-pc-c": 1}
    assert running_by_clique(bench) == minimum
    bench.uncordon()
    bench.until_counts(total=10, running=10)


def test_minimum_of_a_scaled_out_group_replica_runs_first(bench: Workbench) -> None:
    bench.add_nodes(14, cordoned=12)
    bench.create(bench.workload(2))
    bench.until_refused(total=10, running=0)
    bench.uncordon(1)
    bench.until_refused(total=10, running=3)
    bench.uncordon(7)
    bench.until_counts(total=10, running=10)

    bench.scale(GROUPS, "workload2-0-sg-x", 3)
    bench.until_refused(total=14, running=10)
    bench.uncordon(2)
    bench.until_refused(total=14, running=12)
    assert {name: count for name, count in running_by_clique(bench).items() if "sg-x-2" in name} == {
        "workload2-0-sg-x-2-pc-b": 1,
        "workload2-0-sg-x-2-pc-c": 1,
    }
    bench.uncordon()
    bench.until_counts(total=14, running=14)


def test_minimum_of_a_second_replica_runs_first(bench: Workbench) -> None:
    bench.add_nodes(20, cordoned=18)
    bench.create(bench.workload(2))
    bench.until_refused(total=10, running=0)
    bench.uncordon(1)
    bench.until_refused(total=10, running=3)
    bench.uncordon(7)
    bench.until_counts(total=10, running=10)

    bench.scale(SETS, "workload2", 2)
    bench.until_refused(total=20, running=10)
    bench.uncordon(3)
    bench.until_refused(total=20, running=13)
    assert {name: count for name, count in running_by_clique(bench).items() if name.startswith("workload2-1-")} == {
        "workload2-1-pc-a": 1,
        "workload2-1-sg-x-0-pc-b": 1,
        "workload2-1-sg-x-0-pc-c": 1,
    }
    bench.uncordon()
    bench.until_counts(total=20, running=20)


def test_groups_and_replicas_grow_by_their_minimum_one_after_the_other(bench: Workbench) -> None:
    bench.add_nodes(28, cordoned=26)
    bench.create(bench.workload(2))
    bench.until_refused(total=10, running=0)
    bench.uncordon(1)
    bench.until_refused(total=10, running=3)
    bench.uncordon(7)
    bench.until_counts(total=10, running=10)

    bench.scale(GROUPS, "workload2-0-sg-x", 3)
    bench.uncordon(2)
    bench.until_refused(total=14, running=12)
    bench.uncordon(2)
    bench.until_counts(total=14, running=14)

    bench.scale(SETS, "workload2", 2)
    bench.uncordon(3)
    bench.until_refused(total=24, running=17)
    bench.uncordon(7)
    bench.until_counts(total=24, running=24)

    bench.scale(GROUPS, "workload2-1-sg-x", 3)
    bench.uncordon(2)
    bench.until_refused(total=28, running=26)
    bench.uncordon()
    bench.until_counts(total=28, running=28)
