"""Updates with budgets: surge at each of the three levels, a surge that finds no room, an operator that dies.

`maxUnavailable: 0` is proved by a watcher that counts ready units after every change of any pod.
"""

from __future__ import annotations

from collections import Counter
from random import Random

import pytest
from operator_process import OperatorProcess
from pod_history import Count, PodHistory
from scenario_objects import Json, clique, condition_of, image_of, is_ready, names, pod_clique_set
from workbench import SETS, Workbench

NEW = "example/main:2"
SURGE = {"maxUnavailable": 0, "maxSurge": 1}
REPLICA = "grove.io/podcliqueset-replica-index"
GROUP_REPLICA = "grove.io/podcliquescalinggroup-replica-index"


def whole(label: str, pods_each: int) -> Count:
    """Counts units whose pods are all there and ready; a unit is known by this label of its pods."""

    def count(pods: list[Json]) -> int:
        ready = Counter(pod["metadata"]["labels"].get(label) for pod in pods if is_ready(pod))
        return sum(found >= pods_each for unit, found in ready.items() if unit is not None)

    return count


def present(label: str) -> Count:
    return lambda pods: len({pod["metadata"]["labels"].get(label) for pod in pods} - {None})


def running(bench: Workbench, wanted: Json, pods: int, *, spare: int) -> set[str]:
    bench.add_nodes(pods + spare)
    bench.create(bench.placed(wanted))
    bench.until_counts(total=pods, running=pods)
    bench.until_settled("web")
    return names(bench.pods())


def by_pods(**strategy: int) -> Json:
    return pod_clique_set("web", clique("a", 3, updateStrategy=SURGE), strategy=strategy or None)


def by_group_replicas() -> Json:
    group = {"name": "sg", "cliqueNames": ["b", "c"], "replicas": 2, "minAvailable": 1, "updateStrategy": SURGE}
    return pod_clique_set("web", clique("a", 1), clique("b", 1), clique("c", 1), podCliqueScalingGroups=[group])


def by_replicas(**strategy: int) -> Json:
    whole_replicas = {"type": "ReplicaRecreate", "rollingUpdate": SURGE, **strategy}
    return pod_clique_set("web", clique("a", 1), clique("b", 1), replicas=2, strategy=whole_replicas)


def ready_pods(pods: list[Json]) -> int:
    return sum(is_ready(pod) for pod in pods)


def all_are(bench: Workbench, image: str, expected: set[str]) -> None:
    found = bench.pods()
    assert names(found) == expected, "indices end where they began, without a hole"
    assert {image_of(pod) for pod in found} == {image}


def test_surge_pod_comes_up_before_a_pod_goes(bench: Workbench) -> None:
    expected = running(bench, by_pods(), pods=3, spare=1)
    with PodHistory(bench, ready=ready_pods, total=len) as history:
        bench.set_image("web", NEW)
        bench.until_updated("web")
        bench.until("the surge pod to go", lambda: names(bench.pods()) == expected)
    assert history.lowest("ready") == 3
    assert history.highest("total") == 4
    all_are(bench, NEW, expected)


def test_surge_group_replica_comes_up_before_a_group_replica_goes(bench: Workbench) -> None:
    expected = running(bench, by_group_replicas(), pods=5, spare=2)
    with PodHistory(bench, whole=whole(GROUP_REPLICA, 2), present=present(GROUP_REPLICA)) as history:
        bench.set_image("web", NEW, "b", "c")
        bench.until("a surge replica in a gang of its own", lambda: bench.pods(gang="web-0-sg-2"))
        bench.until_updated("web")
        bench.until("the surge replica to go", lambda: names(bench.pods()) == expected)
    assert history.lowest("whole") == 2
    assert history.highest("present") == 3
    assert {image_of(pod) for pod in bench.pods(group="web-0-sg")} == {NEW}


def test_surge_replica_comes_up_before_a_replica_goes(bench: Workbench) -> None:
    expected = running(bench, by_replicas(), pods=4, spare=2)
    with PodHistory(bench, whole=whole(REPLICA, 2), present=present(REPLICA)) as history:
        bench.set_image("web", NEW)
        bench.until("the Service of a surge replica", lambda: "web-2" in names(bench.all("services")))
        bench.until_updated("web")
        bench.until("the surge replica to go", lambda: names(bench.pods()) == expected)
    assert history.lowest("whole") == 2
    assert history.highest("present") == 3
    all_are(bench, NEW, expected)
    bench.until("its Service to go with it", lambda: names(bench.all("services")) == {"web-0", "web-1"})


def stalled(bench: Workbench) -> Json | None:
    found = bench.get(SETS, "web")
    over = condition_of(found, "Stalled").get("reason") == "ProgressDeadlineExceeded"
    return found if over else None


def test_surge_without_room_says_so_and_finishes_when_the_budget_is_corrected(bench: Workbench) -> None:
    expected = running(bench, by_pods(progressDeadlineSeconds=3), pods=3, spare=0)
    with PodHistory(bench, ready=ready_pods) as history:
        bench.set_image("web", NEW)
        stuck = bench.until("the deadline to pass", lambda: stalled(bench)) or {}
    assert history.lowest("ready") == 3
    assert "1 of 4 pods cannot be scheduled: " in condition_of(stuck, "Stalled")["message"]
    assert "no nodes with enough resources" in condition_of(stuck, "Stalled")["message"]
    assert condition_of(stuck, "Progressing")["status"] == "False"
    assert condition_of(stuck, "Ready")["status"] == "True"
    bench.until("an event", lambda: bench.events("PodCliqueSet", "web", "ProgressDeadlineExceeded"))

    def without_surge(spec: Json) -> None:
        spec["template"]["cliques"][0]["updateStrategy"] = {"maxUnavailable": 1, "maxSurge": 0}

    bench.edit("web", without_surge)
    bench.until_updated("web")
    all_are(bench, NEW, expected)
    assert bench.condition(SETS, "web", "Stalled")["status"] == "False"
    assert bench.condition(SETS, "web", "Progressing")["status"] == "True"


def test_replica_that_fits_nowhere_harms_nothing_and_a_corrected_template_goes_through(bench: Workbench) -> None:
    expected = running(bench, by_replicas(progressDeadlineSeconds=3), pods=4, spare=2)

    def select(spec: Json, place: str | None) -> None:
        for one in spec["template"]["cliques"]:
            one["spec"]["podSpec"]["nodeSelector"]["example.com/place"] = place
            one["spec"]["podSpec"]["containers"][0]["image"] = NEW

    with PodHistory(bench, whole=whole(REPLICA, 2)) as history:
        bench.edit("web", lambda spec: select(spec, "nowhere"))
        stuck = bench.until("the deadline to pass", lambda: stalled(bench)) or {}
        assert "web-2: 2 of 2 pods cannot be scheduled" in condition_of(stuck, "Stalled")["message"]
        bench.edit("web", lambda spec: select(spec, None))
        bench.until_updated("web")
        bench.until("the surge replica to go", lambda: names(bench.pods()) == expected)
    assert history.lowest("whole") == 2
    all_are(bench, NEW, expected)
    assert all("example.com/place" not in pod["spec"]["nodeSelector"] for pod in bench.pods())


def kill_now_and_then(bench: Workbench, operator: OperatorProcess, history: PodHistory, chance: Random) -> None:
    """Kill the operator three times, each after a few more changes of pods, and start it again."""
    for _ in range(3):
        wait_for_changes(bench, history, chance.randint(1, 10))
        operator.kill()
        operator.start()


def wait_for_changes(bench: Workbench, history: PodHistory, more: int) -> None:
    moment = history.changes + more
    bench.until("a moment to kill it", lambda: history.changes >= moment or bench.updated("web") is not None)


@pytest.mark.parametrize("seed", [1, 2])
def test_operator_killed_during_an_update_goes_on_without_a_dip(
    bench: Workbench, operator: OperatorProcess, seed: int
) -> None:
    expected = running(bench, by_replicas(), pods=4, spare=2)
    chance = Random(seed)
    with PodHistory(bench, whole=whole(REPLICA, 2), present=present(REPLICA)) as history:
        bench.set_image("web", NEW)
        kill_now_and_then(bench, operator, history, chance)
        bench.until_updated("web")
        bench.until("the surge replica to go", lambda: names(bench.pods()) == expected)
    assert history.lowest("whole") == 2
    assert history.highest("present") == 3
    all_are(bench, NEW, expected)


def test_operator_killed_during_a_rolling_update_still_takes_one_unit_at_a_time(
    bench: Workbench, operator: OperatorProcess
) -> None:
    wanted = pod_clique_set("web", clique("a", 4, minimum=1))
    expected = running(bench, wanted, pods=4, spare=0)
    chance = Random(3)
    with PodHistory(bench, ready=ready_pods) as history:
        bench.set_image("web", NEW)
        kill_now_and_then(bench, operator, history, chance)
        bench.until_updated("web")
    assert history.lowest("ready") == 3
    all_are(bench, NEW, expected)
