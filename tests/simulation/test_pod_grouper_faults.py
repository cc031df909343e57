"""Whatever breaks meanwhile, pods end up in their groups and no group is left that nobody uses."""

from __future__ import annotations

import asyncio
import random

import pytest
from grouper_harness import IDENTITY, JOBS, PODS, STATEFUL_SETS, WORKLOADS, Json, Simulation, rights, simulated

from grove.apps.pod_grouper import Grouper
from grove.podgrouper.kinds import FIELD_MANAGER
from grove.runtime.client import Client
from grove.testing.faults import Faults, FaultyTransport
from grove.testing.process import supervise

IGNORE = "kai.scheduler/ignore-workload-api"


def start(simulation: Simulation, faults: Faults, rng: random.Random) -> asyncio.Task[None]:
    """A pod-grouper that dies and comes back as its faults say."""

    async def live(transport: FaultyTransport) -> None:
        await Grouper(Client(transport, field_manager=FIELD_MANAGER, rng=rng)).run()

    transport = FaultyTransport(simulation.server.transport(IDENTITY, rules=rights()), faults, rng)
    return asyncio.create_task(supervise(live, transport, pause=(0.0, 2.0)))


async def stir(simulation: Simulation, rng: random.Random) -> Json:
    """A busy quarter of a minute: pods come, opt out and back, a Workload changes its policy."""
    owner = await simulation.create(STATEFUL_SETS, "s")
    other = await simulation.create(JOBS, "j")
    ref = {"name": "w", "podGroup": "g", "podGroupReplicaKey": "k"}

    def policy(minimum: int) -> Json:
        return {"podGroups": [{"name": "g", "policy": {"gang": {"minCount": minimum}} if minimum else {"basic": {}}}]}

    await simulation.pod("free-0", owner)
    for index in range(3):
        await simulation.pod(f"p-{index}", owner if index else other, ref=ref)
        await asyncio.sleep(rng.uniform(0, 1))
    await simulation.create(WORKLOADS, "w", spec=policy(3))
    for value in ("true", None):
        await asyncio.sleep(rng.uniform(0, 3))
        for index in range(3):
            await simulation.patch(PODS, f"p-{index}", {"metadata": {"annotations": {IGNORE: value}}})
    await asyncio.sleep(rng.uniform(0, 3))
    await simulation.delete(WORKLOADS, "w")
    await asyncio.sleep(rng.uniform(0, 1))
    await simulation.create(WORKLOADS, "w", spec=policy(0))
    return owner


@pytest.mark.parametrize("seed", range(25))
def test_pods_end_in_their_groups(seed: int) -> None:
    @simulated
    async def story() -> None:
        rng = random.Random(seed)
        simulation = Simulation()
        faults = Faults.drawn(rng, strength=0.2, crashes=3, writes=20)
        task = start(simulation, faults, rng)
        owner = await stir(simulation, rng)
        await asyncio.sleep(rng.uniform(0, 20))
        faults.calm()
        await asyncio.sleep(120)
        assert not task.done()
        alone = f"pg-s-{owner['metadata']['uid']}"
        assert {name: group["spec"]["minMember"] for name, group in simulation.groups().items()} == {"w-g": 1, alone: 1}
        assert {simulation.marks(f"p-{index}") for index in range(3)} == {("w-g", None)}
        assert simulation.marks("free-0") == (alone, None)
        simulation.server.log.clear()
        await asyncio.sleep(120)
        assert simulation.server.log.writes(IDENTITY) == []
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)

    story()
