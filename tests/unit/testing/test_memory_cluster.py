"""The scheduler and the kubelets around the in-memory server."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any

from memory_api import PODS, must, pod

from grove.testing import ApiServer, simulate
from grove.testing.capacity import quantity
from grove.testing.cluster import Cluster, is_ready, pods_by_name
from grove.testing.kubelet import PodBehaviour
from grove.testing.objects import dig, name_of
from grove.testing.waiting import quiet, until

GROUP = {
    "apiVersion": "apiextensions.k8s.io/v1",
    "kind": "CustomResourceDefinition",
    "metadata": {"name": "podgroups.scheduling.run.ai"},
    "spec": {
        "group": "scheduling.run.ai",
        "scope": "Namespaced",
        "names": {"plural": "podgroups", "kind": "PodGroup"},
        "versions": [{"name": "v2alpha2", "served": True, "storage": True}],
    },
}
GROUPS = "/apis/scheduling.run.ai/v2alpha2/namespaces/default/podgroups"


def _simulated(story: Coroutine[Any, Any, None]) -> None:
    simulate(story, limit=100_000)


def _gang_pod(name: str, subgroup: str, **spec: Any) -> dict[str, Any]:
    body = pod(name, gpus=1, labels={"kai.scheduler/subgroup-name": subgroup}, schedulerName="kai-scheduler", **spec)
    body["metadata"]["annotations"] = {"pod-group-name": "gang"}
    return body


def _group(**minimum: int) -> dict[str, Any]:
    return {
        "apiVersion": "scheduling.run.ai/v2alpha2",
        "kind": "PodGroup",
        "metadata": {"name": "gang"},
        "spec": {"subGroups": [{"name": name, "minMember": count} for name, count in minimum.items()]},
    }


def _ready(server: ApiServer) -> set[str]:
    return {name for name, obj in pods_by_name(server).items() if is_ready(obj)}


def _placed(server: ApiServer) -> set[str]:
    return {name for name, obj in pods_by_name(server).items() if obj["spec"].get("nodeName")}


def test_quantities_are_exact() -> None:
    assert [quantity(text) for text in ("1", "250m", "1Ki", "1.5", "2k", "1Gi")] == [
        1000,
        250,
        1024_000,
        1500,
        2_000_000,
        1024**3 * 1000,
    ]


def test_pods_are_placed_where_there_is_room_and_become_ready() -> None:
    async def story() -> None:
        server = ApiServer()
        cluster = Cluster(server, seed=1)
        cluster.add_nodes(2, gpus=2)
        for index in range(5):
            await must(server.transport(), "POST", PODS, pod(f"p{index}", gpus=1))
        await quiet(server)
        assert len(_ready(server)) == 4
        (waiting,) = (obj for obj in pods_by_name(server).values() if not obj["spec"].get("nodeName"))
        condition = waiting["status"]["conditions"][0]
        assert (condition["type"], condition["reason"]) == ("PodScheduled", "Unschedulable")
        await must(server.transport(), "DELETE", f"{PODS}/{min(_ready(server))}")
        await until(server, lambda: len(pods_by_name(server)) == 4 and len(_ready(server)) == 4)

    _simulated(story())


def test_gated_pods_wait_and_node_selectors_hold() -> None:
    async def story() -> None:
        server = ApiServer()
        cluster = Cluster(server)
        cluster.add_nodes(2, labels=lambda index: {"rack": f"r{index}"})
        await must(server.transport(), "POST", PODS, pod("a", schedulingGates=[{"name": "hold"}]))
        await must(server.transport(), "POST", PODS, pod("b", nodeSelector={"rack": "r1"}))
        await quiet(server)
        assert {name: obj["spec"].get("nodeName") for name, obj in pods_by_name(server).items()} == {
            "a": None,
            "b": "node-1",
        }
        await must(server.transport(), "PATCH", f"{PODS}/a", {"spec": {"schedulingGates": None}})
        await until(server, lambda: _ready(server) == {"a", "b"})

    _simulated(story())


def test_a_gang_starts_whole_or_not_at_all() -> None:
    async def story() -> None:
        server = ApiServer()
        server.define(GROUP)
        cluster = Cluster(server)
        cluster.add_nodes(1, gpus=3)
        transport = server.transport()
        for index in range(3):
            await must(transport, "POST", PODS, _gang_pod(f"w{index}", "workers"))
        await must(transport, "POST", GROUPS, _group(workers=2, leader=1))
        await quiet(server)
        assert _placed(server) == set()
        await must(transport, "POST", PODS, _gang_pod("l0", "leader"))
        await quiet(server)
        assert _placed(server) == {"l0", "w0", "w1"}
        cluster.add_nodes(1, prefix="more-", gpus=1)
        await until(server, lambda: len(_ready(server)) == 4)

    _simulated(story())


def test_a_gang_too_large_for_the_cluster_takes_nothing() -> None:
    async def story() -> None:
        server = ApiServer()
        server.define(GROUP)
        cluster = Cluster(server)
        cluster.add_nodes(2, gpus=2)
        for index in range(5):
            await must(server.transport(), "POST", PODS, _gang_pod(f"w{index}", "workers"))
        await must(server.transport(), "POST", GROUPS, _group(workers=5))
        await quiet(server)
        assert _placed(server) == set()

    _simulated(story())


def test_topology_is_a_hook() -> None:
    async def story() -> None:
        server = ApiServer()
        server.define(GROUP)
        cluster = Cluster(server)
        cluster.add_nodes(4, gpus=1, labels=lambda index: {"rack": f"r{index // 2}"})
        cluster.scheduler.domains = lambda gang, nodes: [
            [node for node in nodes if node.labels["rack"] == rack] for rack in ("r1", "r0")
        ]
        for index in range(2):
            await must(server.transport(), "POST", PODS, _gang_pod(f"w{index}", "workers"))
        await must(server.transport(), "POST", GROUPS, _group(workers=2))
        await quiet(server)
        assert {obj["spec"]["nodeName"] for obj in pods_by_name(server).values()} == {"node-2", "node-3"}

    _simulated(story())


def test_the_waiting_init_container_holds_a_pod_until_others_are_ready() -> None:
    async def story() -> None:
        server = ApiServer()
        cluster = Cluster(server)
        cluster.add_nodes(1)
        cluster.may_start = lambda _: "leader" in _ready(server)
        waiting = pod("worker", initContainers=[{"name": "grove-initc", "image": "initc:1"}])
        await must(server.transport(), "POST", PODS, waiting)
        await quiet(server)
        worker = pods_by_name(server)["worker"]
        assert (worker["spec"]["nodeName"], worker["status"]["phase"]) == ("node-0", "Pending")
        await must(server.transport(), "POST", PODS, pod("leader"))
        await until(server, lambda: _ready(server) == {"leader", "worker"})

    _simulated(story())


def test_crashing_pods_count_restarts_and_recover_when_told_to() -> None:
    async def story() -> None:
        server = ApiServer()
        cluster = Cluster(server)
        cluster.add_nodes(1)
        cluster.behave = lambda obj: PodBehaviour(crash_loops=name_of(obj) == "bad", exit_code=3)
        for name in ("good", "bad"):
            await must(server.transport(), "POST", PODS, pod(name))
        await asyncio.sleep(120)
        assert _ready(server) == {"good"}
        status = pods_by_name(server)["bad"]["status"]["containerStatuses"][0]
        assert status["restartCount"] >= 2
        assert dig(status, "lastState", "terminated", "exitCode") == 3
        cluster.behave = lambda _: PodBehaviour()
        await until(server, lambda: _ready(server) == {"good", "bad"})
        cluster.crash_pod("default", "good", exit_code=9)
        assert _ready(server) == {"bad"}
        await until(server, lambda: _ready(server) == {"good", "bad"})

    _simulated(story())


def test_a_failed_pod_is_over() -> None:
    async def story() -> None:
        server = ApiServer()
        cluster = Cluster(server)
        cluster.add_nodes(1, gpus=1)
        for name in ("a", "b"):
            await must(server.transport(), "POST", PODS, pod(name, gpus=1))
        await until(server, lambda: len(_ready(server)) == 1)
        (first,) = _ready(server)
        cluster.fail_pod("default", first, reason="Evicted")
        await quiet(server)
        assert pods_by_name(server)[first]["status"]["phase"] == "Failed"
        assert len(_ready(server) - {first}) == 1

    _simulated(story())


def test_a_lost_node_takes_readiness_then_pods_but_they_do_not_end() -> None:
    async def story() -> None:
        server = ApiServer()
        cluster = Cluster(server)
        cluster.add_nodes(1)
        await must(server.transport(), "POST", PODS, pod("a"))
        await until(server, lambda: _ready(server) == {"a"})
        cluster.lose_node("node-0")
        assert _ready(server) == set()
        await asyncio.sleep(400)
        lost = pods_by_name(server)["a"]
        assert "deletionTimestamp" in lost["metadata"]
        cluster.remove_node("node-0")
        await until(server, lambda: pods_by_name(server) == {})

    _simulated(story())


def test_a_node_that_comes_back_has_ready_pods_again() -> None:
    async def story() -> None:
        server = ApiServer()
        cluster = Cluster(server)
        cluster.add_nodes(1)
        await must(server.transport(), "POST", PODS, pod("a"))
        await until(server, lambda: _ready(server) == {"a"})
        cluster.lose_node("node-0")
        await asyncio.sleep(60)
        cluster.recover_node("node-0")
        await until(server, lambda: _ready(server) == {"a"})
        await asyncio.sleep(600)
        assert _ready(server) == {"a"}

    _simulated(story())


def test_deleted_pods_end_gracefully_or_stay_stuck() -> None:
    async def story() -> None:
        server = ApiServer()
        cluster = Cluster(server)
        cluster.add_nodes(1)
        cluster.behave = lambda obj: PodBehaviour(never_ends=name_of(obj) == "stuck")
        for name in ("a", "stuck"):
            await must(server.transport(), "POST", PODS, pod(name))
        await until(server, lambda: len(_ready(server)) == 2)
        for name in ("a", "stuck"):
            await must(server.transport(), "DELETE", f"{PODS}/{name}")
        assert set(pods_by_name(server)) == {"a", "stuck"}
        await quiet(server)
        assert set(pods_by_name(server)) == {"stuck"}
        cluster.behave = lambda _: PodBehaviour()
        await until(server, lambda: pods_by_name(server) == {})

    _simulated(story())
