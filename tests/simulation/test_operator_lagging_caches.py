"""One watch falls silent while the others go on: nothing is made for what is gone, nor taken from what stands."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import pytest
from operator_harness import Json, Simulation, clique, definitions, group, simulated, workload

from grove.api.kinds import POD_CLIQUE_SETS, POD_CLIQUES, SCALING_GROUPS
from grove.runtime.resource import Resource
from grove.testing.faults import Faults

SETS = frozenset({POD_CLIQUE_SETS.plural})


def _document() -> Json:
    cliques = [clique("a", 2), clique("b", 1)]
    return workload("w", 2, cliques, [group("g", ["b"], 2, 1)], terminationDelay="1h")


async def _running(faults: Faults) -> Simulation:
    sim = Simulation()
    sim.start_operator(faults)
    await sim.people.create(_document())
    await sim.settle()
    assert len(sim.ready_pods()) == 8
    return sim


def _uids(sim: Simulation) -> set[str]:
    return {pod["metadata"]["uid"] for pod in sim.pods().values()}


def _few(sim: Simulation) -> bool:
    """Each of the set's objects may have been made once or twice in vain, not again and again."""
    return len(sim.writes()) < 5 * len(sim.managed("w") or range(30))


@simulated
async def test_a_set_whose_deletion_is_not_heard_of_is_not_made_again_and_again() -> None:
    faults = Faults()
    sim = await _running(faults)
    faults.silent = SETS
    sim.server.log.clear()
    await sim.people.delete(POD_CLIQUE_SETS, "w")
    await asyncio.sleep(300)
    assert sim.managed("w") == set(), "gone, although the operator has not been told"
    assert _few(sim), sim.write_counts()
    sim.server.log.clear()
    faults.calm()
    await sim.settle()
    assert sim.writes() == []


@simulated
async def test_a_set_made_anew_unheard_gets_objects_of_its_own() -> None:
    faults = Faults()
    sim = await _running(faults)
    before = _uids(sim)
    faults.silent = SETS
    sim.server.log.clear()
    await sim.people.delete(POD_CLIQUE_SETS, "w")
    await sim.people.create(_document())
    await asyncio.sleep(300)
    assert len(sim.ready_pods()) == 8, "made from what the server says"
    assert not before & _uids(sim)
    faults.calm()
    await sim.settle()
    assert len(sim.ready_pods()) == 8
    assert sim.status("w")["availableReplicas"] == 2
    assert len(sim.writes()) < 300, sim.write_counts()


@pytest.mark.parametrize(("resource", "name"), [(SCALING_GROUPS, "w-0-g"), (POD_CLIQUES, "w-0-a")])
@simulated
async def test_a_child_whose_deletion_is_not_heard_of_comes_back_once(resource: Resource[Json], name: str) -> None:
    faults = Faults()
    sim = await _running(faults)
    everything = sim.managed("w")
    faults.silent = frozenset({resource.plural})
    sim.server.log.clear()
    await sim.people.delete(resource, name)
    await asyncio.sleep(300)
    assert _few(sim), sim.write_counts()
    faults.calm()
    await sim.settle()
    assert sim.managed("w") == everything
    assert len(sim.ready_pods()) == 8
    assert sim.status("w")["availableReplicas"] == 2


@simulated
async def test_what_belongs_to_a_set_not_heard_of_yet_is_no_leftover() -> None:
    """A process that takes over with an old list of sets: the pods it finds belong to one it has not seen."""
    sim = Simulation()
    behind = Faults()
    sim.start_operator(behind, seed=1)
    await asyncio.sleep(5)
    behind.silent = SETS
    sim.start_operator(seed=2)
    await sim.people.create(_document())
    await sim.settle()
    assert len(sim.ready_pods()) == 8
    assert not any(write.startswith("delete") for write in sim.write_counts()), sim.write_counts()


def _withdraw(sim: Simulation) -> Callable[[], None]:
    """The kind PodCliqueSet is not served until the returned function is called."""
    registry = sim.server.state.registry
    registry.remove(POD_CLIQUE_SETS.group, POD_CLIQUE_SETS.plural)
    sim.server.drop_watches()
    mine = [r for r in definitions() if r.group_resource == (POD_CLIQUE_SETS.group, POD_CLIQUE_SETS.plural)]

    def serve_again() -> None:
        for resource in mine:
            registry.add(resource)

    return serve_again


@simulated
async def test_sets_that_are_not_served_for_a_while_keep_their_pods() -> None:
    """An API server that comes up answers for its own kinds before it answers for ours."""
    sim = await _running(Faults())
    before = _uids(sim)
    serve_again = _withdraw(sim)
    sim.server.log.clear()
    await asyncio.sleep(120)
    assert sim.write_counts() == {}
    serve_again()
    await sim.settle()
    assert _uids(sim) == before
    assert len(sim.ready_pods()) == 8
    assert sim.write_counts() == {}


@simulated
async def test_a_set_that_went_while_its_kind_was_not_served_leaves_nothing() -> None:
    sim = await _running(Faults())
    serve_again = _withdraw(sim)
    await asyncio.sleep(60)
    serve_again()
    await sim.people.delete(POD_CLIQUE_SETS, "w")
    await sim.settle()
    assert sim.managed("w") == set()
