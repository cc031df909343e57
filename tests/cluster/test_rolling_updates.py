"""RollingRecreate: one replica at a time, inside it one pod per clique and one group replica at a time.

A watcher counts after every change of any pod, so that "at a time" means at every moment of the update.
"""

from __future__ import annotations

from collections.abc import Callable

from pod_history import Count, PodHistory
from scenario_objects import Json, clique, image_of, is_ready, names, pod_clique_set, uids
from workbench import CLIQUES, GROUPS, SETS, Workbench

NEW = "example/main:2"
GROUP = {"name": "sg", "cliqueNames": ["b", "c"], "replicas": 2, "minAvailable": 2}


def workload(bench: Workbench, *, replicas: int = 1, pods: int = 2, group_replicas: int = 2) -> Json:
    """`a` of two pods beside a group whose replicas have one pod of `b` and one of `c`."""
    group = {**GROUP, "replicas": group_replicas}
    wanted = pod_clique_set(
        "web",
        clique("a", pods, minimum=1),
        clique("b", 1),
        clique("c", 1),
        replicas=replicas,
        podCliqueScalingGroups=[group],
    )
    return bench.placed(wanted)


def running(bench: Workbench, wanted: Json, pods: int, *, spare: int = 0) -> set[str]:
    """The workload at rest, and the names of its pods."""
    bench.add_nodes(pods + spare)
    bench.create(wanted)
    bench.until_counts(total=pods, running=pods)
    bench.until_settled("web")
    return names(bench.pods())


def down(expected: set[str], part: Callable[[str], str | None]) -> Count:
    """Counts the parts of the workload that lack a pod; `part` names the part a pod belongs to."""

    def count(pods: list[Json]) -> int:
        ready = {pod["metadata"]["name"] for pod in pods if is_ready(pod)}
        return len({part(name) for name in expected - ready} - {None})

    return count


def replica_of(name: str) -> str:
    return name.split("-")[1]


def pod_of_a(name: str) -> str | None:
    return name if "-a-" in name else None


def group_replica_of(name: str) -> str | None:
    return name.partition("-sg-")[2].split("-")[0] if "-sg-" in name else None


def all_new(bench: Workbench, *cliques: str) -> None:
    for pod in bench.pods():
        short = pod["metadata"]["name"].split("-")[-2]
        assert image_of(pod) == (NEW if short in cliques else "example/main:1"), pod["metadata"]["name"]


def test_changed_clique_is_replaced_pod_by_pod_and_replica_by_replica(bench: Workbench) -> None:
    expected = running(bench, workload(bench, replicas=2), pods=12)
    untouched = uids(pod for pod in bench.pods() if "-sg-" in pod["metadata"]["name"])
    with PodHistory(bench, replicas=down(expected, replica_of), pods=down(expected, pod_of_a)) as history:
        bench.set_image("web", NEW, "a")
        status = bench.until_updated("web")
    assert status["updatedReplicas"] == 2
    assert (history.highest("replicas"), history.highest("pods")) == (1, 1)
    all_new(bench, "a")
    assert names(bench.pods()) == expected
    assert uids(pod for pod in bench.pods() if "-sg-" in pod["metadata"]["name"]) == untouched


def test_changed_group_member_is_replaced_group_replica_by_group_replica(bench: Workbench) -> None:
    expected = running(bench, workload(bench), pods=6)
    untouched = uids(bench.pods(clique="web-0-a"))
    with PodHistory(bench, group_replicas=down(expected, group_replica_of)) as history:
        bench.set_image("web", NEW, "b")
        bench.until_updated("web")
    assert history.highest("group_replicas") == 1
    all_new(bench, "b")
    assert uids(bench.pods(clique="web-0-a")) == untouched
    progress = bench.get(GROUPS, "web-0-sg")["status"]["updateProgress"]
    assert progress["readyReplicaIndicesSelectedToUpdate"]["completed"] == [0, 1]


def test_change_of_everything_takes_one_pod_and_one_group_replica_at_a_time(bench: Workbench) -> None:
    expected = running(bench, workload(bench), pods=6)
    with PodHistory(bench, pods=down(expected, pod_of_a), groups=down(expected, group_replica_of)) as history:
        bench.set_image("web", NEW)
        status = bench.until_updated("web")
    assert (history.highest("pods"), history.highest("groups")) == (1, 1)
    all_new(bench, "a", "b", "c")
    progress = status["updateProgress"]
    assert progress["updatedPodCliquesCount"] == progress["totalPodCliquesCount"] == 1
    assert progress["updatedPodCliqueScalingGroupsCount"] == 1
    clique_progress = bench.get(CLIQUES, "web-0-a")["status"]["updateProgress"]
    assert sorted(clique_progress["readyPodsSelectedToUpdate"]["completed"]) == ["web-0-a-0", "web-0-a-1"]


def test_replica_added_during_an_update_starts_with_the_new_template(bench: Workbench) -> None:
    running(bench, workload(bench, replicas=2), pods=12, spare=6)
    bench.set_image("web", NEW, "a")
    bench.until("the update to begin", lambda: updating(bench))
    bench.scale(SETS, "web", 3)
    with PodHistory(bench, old=lambda pods: sum(is_old(pod, "web-2-a-") for pod in pods)) as history:
        bench.until_updated("web")
        bench.until_counts(total=18, running=18)
    assert history.highest("old") == 0
    all_new(bench, "a")


def updating(bench: Workbench) -> list[int]:
    progress = bench.get(SETS, "web").get("status", {}).get("updateProgress") or {}
    return [one["replicaIndex"] for one in progress.get("updatingReplicas") or []]


def is_old(pod: Json, prefix: str) -> bool:
    return str(pod["metadata"]["name"]).startswith(prefix) and image_of(pod) != NEW


def test_update_completes_when_the_replica_it_works_on_is_scaled_away(bench: Workbench) -> None:
    running(bench, workload(bench, replicas=2), pods=12)
    bench.set_image("web", NEW)
    bench.until("the last replica to have its turn", lambda: updating(bench) == [1])
    bench.scale(SETS, "web", 1)
    assert bench.until_updated("web")["updatedReplicas"] == 1
    bench.until_counts(total=6, running=6)
    all_new(bench, "a", "b", "c")


def test_update_completes_when_a_group_is_scaled_in_meanwhile(bench: Workbench) -> None:
    running(bench, workload(bench, group_replicas=3), pods=8)
    bench.set_image("web", NEW, "b", "c")
    bench.until("the update to begin", lambda: updating(bench))
    bench.scale(GROUPS, "web-0-sg", 2)
    bench.until_updated("web")
    bench.until_counts(total=6, running=6)
    all_new(bench, "b", "c")
    status = bench.get(GROUPS, "web-0-sg")["status"]
    assert (status["replicas"], status["updatedReplicas"]) == (2, 2)


def test_update_keeps_what_was_scaled_out_before_it(bench: Workbench) -> None:
    running(bench, workload(bench), pods=6, spare=1)
    bench.scale(CLIQUES, "web-0-a", 3)
    bench.until_counts(total=7, running=7)
    bench.set_image("web", NEW, "a")
    bench.until_updated("web")
    bench.until_counts(total=7, running=7)
    all_new(bench, "a")


def test_update_keeps_what_was_scaled_in_before_it(bench: Workbench) -> None:
    running(bench, workload(bench, pods=3), pods=7)
    bench.scale(CLIQUES, "web-0-a", 2)
    bench.until_counts(total=6, running=6)
    bench.set_image("web", NEW, "a")
    bench.until_updated("web")
    bench.until_counts(total=6, running=6)
    all_new(bench, "a")
    assert bench.get(CLIQUES, "web-0-a")["status"]["updatedReplicas"] == 2


def test_template_that_comes_back_in_the_middle_ends_where_it_began(bench: Workbench) -> None:
    expected = running(bench, workload(bench, replicas=2), pods=12)
    with PodHistory(bench, replicas=down(expected, replica_of)) as history:
        bench.set_image("web", NEW)
        bench.until("some pod to be new", lambda: any(image_of(pod) == NEW for pod in bench.pods()))
        bench.set_image("web", "example/main:1")
        bench.until_updated("web")
    assert history.highest("replicas") == 1
    bench.until_counts(total=12, running=12)
    all_new(bench)
    assert names(bench.pods()) == expected
