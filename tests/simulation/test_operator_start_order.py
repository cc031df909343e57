"""Start ordering: pods wait in their init container until their parents have their minimum ready."""

from __future__ import annotations

import re

import pytest
from operator_harness import Json, Simulation, clique, example, group, is_ready, simulated, workload

from grove.api.kinds import ROLE_BINDINGS, ROLES, SERVICE_ACCOUNTS


def _order_of_start(sim: Simulation) -> list[str]:
    """Lets waiting pods start as the init program does, and records the order in which pods became ready."""
    order: list[str] = []

    def ready(clique_name: str) -> int:
        return sum(
            is_ready(p) and p["metadata"]["labels"]["grove.io/podclique"] == clique_name for p in sim.pods().values()
        )

    def may_start(pod: Json) -> bool:
        arguments = pod["spec"]["initContainers"][-1]["args"]
        parents = [re.fullmatch(r"--podcliques=(.+):(\d+)", argument) for argument in arguments]
        return all(p is not None and ready(p[1]) >= int(p[2]) for p in parents)

    def watch(table: object, change: object) -> None:
        order.extend(name for name in sorted(sim.ready_pods()) if name not in order)

    sim.cluster.may_start = may_start
    sim.server.storage.listeners.append(watch)
    return order


def _last(order: list[str], stem: str) -> int:
    return max(i for i, name in enumerate(order) if name.startswith(stem))


def _first(order: list[str], stem: str) -> int:
    return min(i for i, name in enumerate(order) if name.startswith(stem))


@simulated
async def test_in_any_order_nobody_waits_and_no_identity_is_made() -> None:
    sim = Simulation()
    sim.start_operator()
    await sim.people.create(workload("w", 1, [clique("a", 1), clique("b", 1)]))
    await sim.settle()
    assert all("initContainers" not in pod["spec"] for pod in sim.pods().values())
    assert not any(sim.objects(r) for r in (SERVICE_ACCOUNTS, ROLES, ROLE_BINDINGS))


@simulated
async def test_in_order_each_clique_waits_for_the_one_before() -> None:
    sim = Simulation()
    order = _order_of_start(sim)
    sim.start_operator()
    cliques = [clique("c", 2), clique("a", 2, 1), clique("b", 1)]
    await sim.people.create(workload("w", 1, cliques, cliqueStartupType="CliqueStartupTypeInOrder"))
    await sim.settle()
    assert len(order) == 5
    assert _last(order, "w-0-c") < _first(order, "w-0-a") < _first(order, "w-0-b")


@simulated
async def test_explicit_parents_are_waited_for_with_their_minimum() -> None:
    sim = Simulation()
    order = _order_of_start(sim)
    sim.start_operator()
    cliques = [clique("a", 1, after=["b", "c"]), clique("b", 2, 1), clique("c", 1)]
    await sim.people.create(workload("w", 1, cliques, cliqueStartupType="CliqueStartupTypeExplicit"))
    await sim.settle()
    assert len(order) == 4
    assert _first(order, "w-0-a") > max(_first(order, "w-0-b"), _last(order, "w-0-c"))


@simulated
async def test_a_scaled_group_replica_waits_only_for_its_own_members() -> None:
    sim = Simulation()
    order = _order_of_start(sim)
    sim.start_operator()
    cliques = [clique("r", 1), clique("l", 1), clique("x", 1)]
    document = workload("w", 1, cliques, [group("g", ["l", "x"], 2, 1)], cliqueStartupType="CliqueStartupTypeInOrder")
    await sim.people.create(document)
    await sim.settle()
    arguments = {
        name: p["spec"]["initContainers"][-1]["args"] for name, p in sim.pods().items() if "initContainers" in p["spec"]
    }
    assert arguments == {
        "w-0-g-0-l-0": ["--podcliques=w-0-r:1"],
        "w-0-g-0-x-0": ["--podcliques=w-0-g-0-l:1"],
        "w-0-g-1-x-0": ["--podcliques=w-0-g-1-l:1"],
    }
    assert len(order) == 5


@pytest.mark.parametrize("name", ["wl3", "wl4", "wl5", "wl6"])
@simulated
async def test_the_ordered_example_workloads_start_in_order(name: str) -> None:
    """Order holds inside a gang; a scaled gang waits only for the base gang to be scheduled."""
    sim = Simulation(nodes=30)
    order = _order_of_start(sim)
    sim.start_operator()
    document = example(name)
    await sim.people.create(document)
    await sim.settle()
    assert len(order) == 10
    stem = f"{document['metadata']['name']}-0"
    assert _last(order, f"{stem}-pc-a") < _first(order, f"{stem}-sg-x-0")


@simulated
async def test_a_pod_that_is_replaced_later_waits_for_the_same_parents() -> None:
    sim = Simulation()
    _order_of_start(sim)
    sim.start_operator()
    cliques = [clique("a", 1), clique("b", 1)]
    await sim.people.create(workload("w", 1, cliques, cliqueStartupType="CliqueStartupTypeInOrder"))
    await sim.settle()
    before = sim.pods()["w-0-b-0"]["spec"]["initContainers"]
    await sim.people.delete_pod("w-0-b-0")
    await sim.settle()
    assert sim.pods()["w-0-b-0"]["spec"]["initContainers"] == before
    assert sim.ready_pods() == {"w-0-a-0", "w-0-b-0"}
