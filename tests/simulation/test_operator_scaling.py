"""Scaling of all three kinds, out and in, through the same door kubectl and autoscalers use."""

from __future__ import annotations

import pytest
from operator_harness import Simulation, clique, group, is_leaving, simulated, workload

from grove.api.kinds import AUTOSCALERS, POD_CLIQUE_SETS, POD_CLIQUES, POD_GANGS, SCALING_GROUPS, SERVICES
from grove.runtime import errors


async def _running(replicas: int = 1) -> Simulation:
    """Replicas of a clique with three pods (two needed) and a group with two replicas (one needed)."""
    sim = Simulation()
    sim.start_operator()
    cliques = [clique("a", 3, 2, autoscaling={"maxReplicas": 6, "minReplicas": 2}), clique("b", 2)]
    await sim.people.create(workload("w", replicas, cliques, [group("g", ["b"], 2, 1)]))
    await sim.settle()
    return sim


@simulated
async def test_a_set_grows_by_whole_replicas() -> None:
    sim = await _running()
    before = {name: pod["metadata"]["uid"] for name, pod in sim.pods().items()}
    await sim.people.scale(POD_CLIQUE_SETS, "w", 3)
    await sim.settle()
    assert sim.status("w")["availableReplicas"] == 3
    assert set(sim.objects(SERVICES)) == {"w-0", "w-1", "w-2"}
    assert before.items() <= {name: pod["metadata"]["uid"] for name, pod in sim.pods().items()}.items()


@simulated
async def test_a_set_that_shrinks_loses_its_highest_replicas_and_leaves_nothing_of_them() -> None:
    sim = await _running(3)
    left = {name for name in sim.managed("w") if "/w-1-" not in f"{name}-" and "/w-2-" not in f"{name}-"}
    await sim.people.scale(POD_CLIQUE_SETS, "w", 1)
    await sim.settle()
    assert sim.managed("w") == left
    assert sim.status("w")["replicas"] == 1


@simulated
async def test_a_set_goes_to_zero_and_comes_back() -> None:
    sim = await _running(2)
    everything = sim.managed("w")
    await sim.people.scale(POD_CLIQUE_SETS, "w", 0)
    await sim.settle()
    assert {name.partition("/")[0] for name in sim.managed("w")} == {"ControllerRevision"}
    assert sim.condition(POD_CLIQUE_SETS, "w", "Ready")["reason"] == "ScaledToZero"
    await sim.people.scale(POD_CLIQUE_SETS, "w", 2)
    await sim.settle()
    assert sim.managed("w") == everything
    assert sim.status("w")["availableReplicas"] == 2


@simulated
async def test_zero_and_back_at_once_ends_in_the_same_place() -> None:
    sim = await _running(2)
    everything = sim.managed("w")
    await sim.people.scale(POD_CLIQUE_SETS, "w", 0)
    await sim.until(lambda: any(is_leaving(pod) for pod in sim.pods().values()))
    await sim.people.scale(POD_CLIQUE_SETS, "w", 2)
    await sim.settle()
    assert sim.managed("w") == everything
    assert sim.status("w")["availableReplicas"] == 2


@simulated
async def test_a_clique_grows_and_shrinks_by_pods() -> None:
    sim = await _running()
    await sim.people.scale(POD_CLIQUES, "w-0-a", 5)
    await sim.settle()
    assert {n for n in sim.ready_pods() if n.startswith("w-0-a")} == {f"w-0-a-{i}" for i in range(5)}
    references = sim.object(POD_GANGS, "w-0")["spec"]["podgroups"][0]["podReferences"]
    assert [r["name"] for r in references] == [f"w-0-a-{i}" for i in range(5)]
    await sim.people.scale(POD_CLIQUES, "w-0-a", 2)
    await sim.settle()
    assert {n for n in sim.pods() if n.startswith("w-0-a")} == {"w-0-a-0", "w-0-a-1"}
    references = sim.object(POD_GANGS, "w-0")["spec"]["podgroups"][0]["podReferences"]
    assert [r["name"] for r in references] == ["w-0-a-0", "w-0-a-1"]


@simulated
async def test_a_clique_keeps_its_scale_when_the_set_is_changed() -> None:
    sim = await _running()
    await sim.people.scale(POD_CLIQUES, "w-0-a", 5)
    await sim.settle()
    await sim.people.set_image("w", "app:2")
    await sim.settle()
    assert sum(n.startswith("w-0-a") for n in sim.ready_pods()) == 5
    assert sim.object(POD_CLIQUES, "w-0-a")["spec"]["replicas"] == 5


@simulated
async def test_a_group_grows_by_scaled_gangs_and_shrinks_again() -> None:
    sim = await _running()
    await sim.people.scale(SCALING_GROUPS, "w-0-g", 4)
    await sim.settle()
    assert set(sim.objects(POD_GANGS)) == {"w-0", "w-0-g-1", "w-0-g-2", "w-0-g-3"}
    assert sim.object(SCALING_GROUPS, "w-0-g")["status"]["availableReplicas"] == 4
    await sim.people.scale(SCALING_GROUPS, "w-0-g", 1)
    await sim.settle()
    assert set(sim.objects(POD_GANGS)) == {"w-0"}
    assert {n for n in sim.objects(POD_CLIQUES) if n.startswith("w-0-g")} == {"w-0-g-0-b"}
    assert {n for n in sim.pods() if n.startswith("w-0-g")} == {"w-0-g-0-b-0", "w-0-g-0-b-1"}


@simulated
async def test_scale_in_takes_the_pod_that_does_not_run_first() -> None:
    sim = await _running()
    sim.cluster.scheduler.paused = True
    await sim.people.delete_pod("w-0-a-0")
    await sim.settle()
    await sim.people.scale(POD_CLIQUES, "w-0-a", 2)
    await sim.settle()
    assert {n for n in sim.pods() if n.startswith("w-0-a")} == {"w-0-a-1", "w-0-a-2"}


@simulated
async def test_growth_after_a_hole_fills_the_lowest_index() -> None:
    sim = await _running()
    sim.cluster.scheduler.paused = True
    await sim.people.delete_pod("w-0-a-0")
    await sim.settle()
    await sim.people.scale(POD_CLIQUES, "w-0-a", 2)
    await sim.settle()
    sim.cluster.scheduler.paused = False
    await sim.people.scale(POD_CLIQUES, "w-0-a", 4)
    await sim.settle()
    assert {n for n in sim.ready_pods() if n.startswith("w-0-a")} == {f"w-0-a-{i}" for i in range(4)}


@simulated
async def test_growth_in_the_middle_of_the_start() -> None:
    sim = Simulation()
    sim.start_operator()
    sim.cluster.scheduler.paused = True
    await sim.people.create(workload("w", 1, [clique("a", 2), clique("b", 1)], [group("g", ["b"], 1, 1)]))
    await sim.settle()
    await sim.people.scale(POD_CLIQUE_SETS, "w", 2)
    await sim.people.scale(POD_CLIQUES, "w-0-a", 3)
    await sim.people.scale(SCALING_GROUPS, "w-0-g", 3)
    await sim.settle()
    sim.cluster.scheduler.paused = False
    await sim.settle()
    assert sim.status("w")["availableReplicas"] == 2
    expected = {"w-0-a-0", "w-0-a-1", "w-0-a-2", "w-0-g-0-b-0", "w-0-g-1-b-0", "w-0-g-2-b-0"}
    assert sim.ready_pods() == expected | {"w-1-a-0", "w-1-a-1", "w-1-g-0-b-0"}


@simulated
async def test_scaling_below_the_minimum_is_refused() -> None:
    sim = await _running()
    with pytest.raises(errors.ApiError):
        await sim.people.scale(POD_CLIQUES, "w-0-a", 1)
    with pytest.raises(errors.ApiError):
        await sim.people.scale(SCALING_GROUPS, "w-0-g", 0)


@simulated
async def test_an_autoscaler_that_is_no_longer_asked_for_goes() -> None:
    sim = await _running()
    assert set(sim.objects(AUTOSCALERS)) == {"w-0-a"}
    removal = {"op": "remove", "path": "/spec/template/cliques/0/spec/autoScalingConfig"}
    await sim.people.edit(POD_CLIQUE_SETS, "w", removal)
    await sim.settle()
    assert set(sim.objects(AUTOSCALERS)) == set()
    assert len(sim.ready_pods()) == 7
