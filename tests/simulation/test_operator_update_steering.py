"""Updates that people steer: by deleting pods themselves, by another strategy, a pause, a partition, a deadline."""

from __future__ import annotations

import asyncio

import pytest
from operator_harness import Json, Simulation, clique, group, image_of, is_ready, simulated, workload

from grove.api.kinds import CONTROLLER_REVISIONS, POD_CLIQUE_SETS, POD_CLIQUES
from grove.testing.faults import Faults
from grove.testing.kubelet import PodBehaviour


async def _running(document: Json) -> Simulation:
    sim = Simulation()
    sim.start_operator()
    await sim.people.create(document)
    await sim.settle()
    return sim


def _all(sim: Simulation, image: str) -> bool:
    return set(sim.images().values()) == {image}


def _versions(sim: Simulation, index: int) -> set[str]:
    return {i for n, i in sim.images().items() if n.startswith(f"w-{index}-")}


# OnDelete.


@simulated
async def test_on_delete_touches_nothing_until_a_pod_is_deleted() -> None:
    sim = await _running(workload("w", 2, [clique("a", 2)], strategy={"type": "OnDelete"}))
    before = {n: p["metadata"]["uid"] for n, p in sim.pods().items()}
    await sim.people.set_image("w", "app:2")
    await asyncio.sleep(3600)
    assert {n: p["metadata"]["uid"] for n, p in sim.pods().items()} == before
    progress = sim.status("w")["updateProgress"]
    assert progress["updateStartedAt"] == progress["updateEndedAt"]
    assert progress.get("updatingReplicas", []) == []
    await sim.people.delete_pod("w-1-a-1")
    await sim.settle()
    assert {n for n, i in sim.images().items() if i == "app:2"} == {"w-1-a-1"}
    assert sim.object(POD_CLIQUES, "w-1-a")["status"]["updatedReplicas"] == 1


@simulated
async def test_switching_from_on_delete_to_rolling_rolls_what_is_outdated() -> None:
    sim = await _running(workload("w", 2, [clique("a", 2)], strategy={"type": "OnDelete"}))
    await sim.people.set_image("w", "app:2")
    await sim.settle()
    await sim.people.set_strategy("w", type="RollingRecreate")
    await sim.settle()
    assert _all(sim, "app:2")
    assert sim.status("w")["updatedReplicas"] == 2


@simulated
async def test_switching_to_on_delete_in_the_middle_stops_the_roll_and_closes_it() -> None:
    sim = await _running(workload("w", 2, [clique("a", 3, 1)]))
    await sim.people.set_image("w", "app:2")
    await sim.until(lambda: any(i == "app:2" for i in sim.images().values()))
    await sim.people.set_strategy("w", type="OnDelete")
    await sim.settle()
    stopped = sim.images()
    assert "app:1" in stopped.values()
    assert sim.status("w")["updateProgress"]["updateEndedAt"]
    assert sim.object(POD_CLIQUES, "w-0-a")["status"]["updateProgress"]["updateEndedAt"]
    await asyncio.sleep(3600)
    assert sim.images() == stopped
    assert len(sim.ready_pods()) == 6


@simulated
async def test_switching_from_rolling_to_recreate_in_the_middle_ends_updated() -> None:
    sim = await _running(workload("w", 2, [clique("a", 3, 1)]))
    await sim.people.set_image("w", "app:2")
    await sim.until(lambda: any(i == "app:2" for i in sim.images().values()))
    await sim.people.set_strategy("w", type="ReplicaRecreate")
    await sim.settle()
    assert _all(sim, "app:2")
    assert len(sim.ready_pods()) == 6
    assert sim.status("w")["updateProgress"]["updateEndedAt"]


@simulated
async def test_switching_to_recreate_with_surge_in_the_middle_keeps_every_replica_until_there_is_cover() -> None:
    sim = await _running(workload("w", 2, [clique("a", 3, 1)]))
    serving: list[int] = []
    sim.server.storage.listeners.append(
        lambda table, change: serving.append(len({name.split("-")[1] for name in sim.ready_pods()}))
    )
    await sim.people.set_image("w", "app:2")
    await sim.until(lambda: "app:2" in {sim.images()[name] for name in sim.ready_pods()})
    await sim.people.set_strategy("w", type="ReplicaRecreate", rollingUpdate={"maxUnavailable": 0, "maxSurge": 1})
    await sim.settle()
    assert _all(sim, "app:2")
    assert min(serving) == 2
    assert max(serving) == 3
    assert sim.status("w")["updateProgress"]["updateEndedAt"]


# Steering.


@pytest.mark.parametrize("kind", ["RollingRecreate", "ReplicaRecreate"])
@simulated
async def test_a_paused_update_waits_and_goes_on(kind: str) -> None:
    sim = await _running(workload("w", 3, [clique("a", 2)]))
    await sim.people.set_strategy("w", type=kind, paused=True)
    await sim.people.set_image("w", "app:2")
    await asyncio.sleep(3600)
    assert _all(sim, "app:1")
    progressing = sim.condition(POD_CLIQUE_SETS, "w", "Progressing")
    assert (progressing["status"], progressing["reason"]) == ("False", "UpdatePaused")
    await sim.people.delete_pod("w-1-a-0")
    await sim.settle()
    assert _all(sim, "app:1"), "a held replica keeps its version"
    await sim.people.set_strategy("w", type=kind)
    await sim.settle()
    assert _all(sim, "app:2")


@pytest.mark.parametrize("kind", ["RollingRecreate", "ReplicaRecreate"])
@simulated
async def test_replicas_below_the_partition_keep_the_old_version(kind: str) -> None:
    sim = await _running(workload("w", 3, [clique("a", 2)]))
    await sim.people.set_strategy("w", type=kind, partition=2)
    await sim.people.set_image("w", "app:2")
    await sim.settle()
    assert (_versions(sim, 0), _versions(sim, 1), _versions(sim, 2)) == ({"app:1"}, {"app:1"}, {"app:2"})
    assert sim.status("w")["updateProgress"]["updateEndedAt"]
    await sim.people.delete_pod("w-0-a-0")
    await sim.settle()
    assert sim.images()["w-0-a-0"] == "app:1"
    await sim.people.set_strategy("w", type=kind, partition=1)
    await sim.settle()
    assert (_versions(sim, 0), _versions(sim, 1)) == ({"app:1"}, {"app:2"})
    await sim.people.set_strategy("w", type=kind)
    await sim.settle()
    assert _all(sim, "app:2")


@simulated
async def test_an_update_without_progress_says_so_after_its_deadline_and_recovers() -> None:
    sim = await _running(workload("w", 2, [clique("a", 2, 1)], strategy={"progressDeadlineSeconds": 120}))
    sim.cluster.behave = lambda pod: PodBehaviour(never_ready=image_of(pod) == "bad:1")
    await sim.people.set_image("w", "bad:1")
    await asyncio.sleep(100)
    assert sim.condition(POD_CLIQUE_SETS, "w", "Progressing")["status"] == "True"
    await asyncio.sleep(60)
    progressing = sim.condition(POD_CLIQUE_SETS, "w", "Progressing")
    assert (progressing["status"], progressing["reason"]) == ("False", "ProgressDeadlineExceeded")
    assert sim.condition(POD_CLIQUE_SETS, "w", "Stalled")["status"] == "True"
    await sim.people.set_image("w", "app:3")
    await sim.settle()
    assert sim.condition(POD_CLIQUE_SETS, "w", "Progressing")["status"] == "True"
    assert sim.condition(POD_CLIQUE_SETS, "w", "Stalled")["status"] == "False"


@simulated
async def test_a_pod_that_comes_and_goes_is_no_progress() -> None:
    sim = await _running(workload("w", 1, [clique("a", 2, 1)], strategy={"progressDeadlineSeconds": 120}))
    sim.cluster.behave = lambda pod: PodBehaviour(
        never_ready=pod["metadata"]["name"] == "w-0-a-1" and image_of(pod) == "app:2"
    )
    await sim.people.set_image("w", "app:2")
    await sim.until(lambda: sim.images().get("w-0-a-1") == "app:2")
    for _ in range(8):
        await asyncio.sleep(20)
        sim.cluster.crash_pod("default", "w-0-a-0")
    progressing = sim.condition(POD_CLIQUE_SETS, "w", "Progressing")
    assert (progressing["status"], progressing["reason"]) == ("False", "ProgressDeadlineExceeded")


@simulated
async def test_history_is_kept_up_to_its_limit() -> None:
    sim = await _running(workload("w", 1, [clique("a", 1)]))
    for version in range(2, 16):
        await sim.people.set_image("w", f"app:{version}")
        await sim.settle()
    assert len(sim.objects(CONTROLLER_REVISIONS)) == 11
    assert sim.images() == {"w-0-a-0": "app:15"}


# Two operators at once.


@simulated
async def test_two_leaders_at_once_end_in_the_same_state() -> None:
    sim = Simulation()
    sim.start_operator(seed=1)
    sim.start_operator(seed=2)
    await sim.people.create(workload("w", 2, [clique("a", 2), clique("b", 1)], [group("g", ["b"], 2, 1)]))
    await sim.settle()
    assert len(sim.ready_pods()) == 8
    ready: list[int] = []
    sim.server.storage.listeners.append(lambda table, change: ready.append(sum(map(is_ready, sim.pods().values()))))
    await sim.people.set_image("w", "app:2")
    await sim.people.set_image("w", "app:2", clique=1)
    await sim.settle()
    assert _all(sim, "app:2")
    assert len(sim.ready_pods()) == 8
    assert min(ready) >= 5
    sim.server.log.clear()
    await asyncio.sleep(600)
    assert sim.writes() == []


@pytest.mark.parametrize("write", range(1, 13))
@simulated
async def test_an_operator_that_dies_at_any_write_of_a_surge_goes_on_with_it(write: int) -> None:
    strategy = {"type": "ReplicaRecreate", "rollingUpdate": {"maxUnavailable": 0, "maxSurge": 1}}
    faults = Faults()
    sim = Simulation(webhooks=False)
    operator = sim.start_operator(faults)
    await sim.people.create(workload("w", 1, [clique("a", 2, 2)], strategy=strategy))
    await sim.settle()
    faults.crash_after_write = frozenset({operator.writes + write})
    await sim.people.set_image("w", "app:2")
    await sim.settle()
    assert sim.images() == {"w-0-a-0": "app:2", "w-0-a-1": "app:2"}
    assert len(sim.ready_pods()) == 2
