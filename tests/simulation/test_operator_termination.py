"""Gang termination: the smallest broken unit is recreated, once per breach, and only if it ever ran."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from operator_harness import NAMESPACE, Json, OperatorProcess, Simulation, clique, group, simulated, workload

from grove.api.kinds import POD_CLIQUES
from grove.testing.faults import Faults
from grove.testing.kubelet import PodBehaviour


async def _running(document: Json, faults: Faults | None = None) -> Simulation:
    sim = Simulation()
    sim.start_operator(faults)
    await sim.people.create(document)
    await sim.settle()
    return sim


def _standalone(**more: Any) -> Json:
    return workload("w", 2, [clique("a", 2), clique("b", 1)], terminationDelay="10m", **more)


def _grouped(replicas: int, minimum: int) -> Json:
    cliques = [clique("r", 1), clique("l", 1), clique("x", 2)]
    return workload("w", 1, cliques, [group("g", ["l", "x"], replicas, minimum)], terminationDelay="10m")


def _break(sim: Simulation, *names: str) -> None:
    """These pods are never ready again, whoever they are replaced by."""
    sim.cluster.behave = lambda pod: PodBehaviour(never_ready=pod["metadata"]["name"] in names)
    for name in names:
        sim.cluster.set_ready(NAMESPACE, name, False)


def _uids(sim: Simulation) -> dict[str, str]:
    return {name: pod["metadata"]["uid"] for name, pod in sim.pods().items()}


def _changed(sim: Simulation, before: dict[str, str]) -> set[str]:
    now = _uids(sim)
    assert set(now) == set(before)
    return {name for name in now if now[name] != before[name]}


@simulated
async def test_a_broken_standalone_clique_recreates_its_replica_and_no_other() -> None:
    sim = await _running(_standalone())
    before = _uids(sim)
    _break(sim, "w-1-a-0")
    await asyncio.sleep(500)
    assert _changed(sim, before) == set()
    breached = sim.condition(POD_CLIQUES, "w-1-a", "MinAvailableBreached")
    assert (breached["status"], breached["reason"]) == ("True", "InsufficientReadyPods")
    assert "recreated at" in breached["message"]
    await asyncio.sleep(200)
    assert _changed(sim, before) == {"w-1-a-0", "w-1-a-1", "w-1-b-0"}


@simulated
async def test_one_breach_ends_one_gang_once() -> None:
    sim = await _running(_standalone())
    before = _uids(sim)
    _break(sim, "w-1-a-0")
    await asyncio.sleep(700)
    once = _uids(sim)
    assert _changed(sim, before)
    await asyncio.sleep(2 * 3600)
    assert _changed(sim, once) == set(), "what never ran again is not terminated again"
    assert sim.condition(POD_CLIQUES, "w-1-a", "MinAvailableBreached")["reason"] == "NeverReady"


@simulated
async def test_a_second_breach_is_counted_from_its_own_beginning() -> None:
    sim = await _running(_standalone())
    _break(sim, "w-1-a-0")
    await asyncio.sleep(700)
    sim.cluster.behave = lambda pod: PodBehaviour()
    await sim.settle()
    assert len(sim.ready_pods()) == 6
    before = _uids(sim)
    _break(sim, "w-1-b-0")
    await asyncio.sleep(550)
    assert _changed(sim, before) == set()
    await asyncio.sleep(150)
    assert _changed(sim, before) == {"w-1-a-0", "w-1-a-1", "w-1-b-0"}


@simulated
async def test_a_breach_that_heals_in_time_is_forgotten() -> None:
    sim = await _running(_standalone())
    before = _uids(sim)
    _break(sim, "w-0-a-1")
    await asyncio.sleep(590)
    sim.cluster.behave = lambda pod: PodBehaviour()
    await asyncio.sleep(3600)
    assert _changed(sim, before) == set()
    assert sim.condition(POD_CLIQUES, "w-0-a", "MinAvailableBreached")["status"] == "False"


@simulated
async def test_a_gang_that_never_ran_is_left_alone() -> None:
    sim = Simulation()
    sim.start_operator()
    sim.cluster.behave = lambda pod: PodBehaviour(never_ready=pod["metadata"]["name"] == "w-0-a-0")
    await sim.people.create(_standalone())
    await sim.settle()
    before = _uids(sim)
    await asyncio.sleep(2 * 3600)
    assert _changed(sim, before) == set()


@simulated
async def test_a_gang_that_breaks_four_seconds_after_it_started_is_a_gang_that_ran() -> None:
    sim = Simulation()
    sim.start_operator()
    await sim.people.create(_standalone())
    await sim.until(lambda: len(sim.ready_pods()) == 6)
    before = _uids(sim)
    await asyncio.sleep(4)
    _break(sim, "w-0-a-0")
    await asyncio.sleep(700)
    assert _changed(sim, before) == {"w-0-a-0", "w-0-a-1", "w-0-b-0"}


@simulated
async def test_a_gang_that_broke_while_no_operator_looked_is_still_recognised() -> None:
    sim = await _running(_standalone())
    before = _uids(sim)
    await sim.operators.pop().stop()
    _break(sim, "w-0-a-0")
    await asyncio.sleep(3600)
    sim.start_operator()
    await asyncio.sleep(500)
    assert _changed(sim, before) == set(), "the countdown starts when the breach is seen"
    await asyncio.sleep(200)
    assert _changed(sim, before) == {"w-0-a-0", "w-0-a-1", "w-0-b-0"}


@simulated
async def test_termination_can_be_switched_off() -> None:
    sim = await _running(_standalone(terminationPolicy="Never"))
    before = _uids(sim)
    _break(sim, "w-0-a-0")
    await asyncio.sleep(2 * 3600)
    assert _changed(sim, before) == set()
    assert sim.condition(POD_CLIQUES, "w-0-a", "MinAvailableBreached")["status"] == "True"


@simulated
async def test_a_clique_above_its_minimum_is_not_broken() -> None:
    sim = await _running(workload("w", 1, [clique("a", 3, 2)], terminationDelay="10m"))
    before = _uids(sim)
    _break(sim, "w-0-a-0")
    await asyncio.sleep(2 * 3600)
    assert _changed(sim, before) == set()


@simulated
async def test_a_group_replica_goes_alone_while_enough_are_left() -> None:
    sim = await _running(_grouped(3, 2))
    before = _uids(sim)
    _break(sim, "w-0-g-1-x-0")
    await asyncio.sleep(700)
    assert _changed(sim, before) == {"w-0-g-1-l-0", "w-0-g-1-x-0", "w-0-g-1-x-1"}


@simulated
async def test_a_group_below_its_minimum_takes_the_whole_replica() -> None:
    sim = await _running(_grouped(2, 2))
    before = _uids(sim)
    _break(sim, "w-0-g-1-x-0")
    await asyncio.sleep(700)
    assert _changed(sim, before) == set(before)


@simulated
async def test_two_broken_group_replicas_escalate_when_together_they_break_the_group() -> None:
    sim = await _running(_grouped(3, 2))
    before = _uids(sim)
    _break(sim, "w-0-g-1-x-0", "w-0-g-2-x-0")
    await asyncio.sleep(700)
    assert _changed(sim, before) == set(before)


@pytest.mark.parametrize("write", range(1, 16))
@pytest.mark.parametrize("when", ["before", "after"])
@simulated
async def test_an_operator_that_dies_at_any_write_ends_each_gang_once(write: int, when: str) -> None:
    faults = Faults()
    sim = await _running(_standalone(), faults)
    ended: list[str] = []

    def watch(table: Any, change: Any) -> None:
        if table.group_resource == ("", "pods") and change.kind == "DELETED":
            ended.append(change.stored.obj["metadata"]["name"])

    sim.server.storage.listeners.append(watch)
    operator: OperatorProcess = sim.operators[0]
    due = frozenset({operator.writes + write})
    if when == "before":
        faults.crash_before_write = due
    else:
        faults.crash_after_write = due
    _break(sim, "w-1-a-0")
    await asyncio.sleep(1500)
    assert sorted(ended) == ["w-1-a-0", "w-1-a-1", "w-1-b-0"]
    sim.cluster.behave = lambda pod: PodBehaviour()
    await sim.settle()
    assert len(sim.ready_pods()) == 6
