"""The webhook or the operator dies at any of its writes, while the garbage collector acts: no orphan, nothing deleted
under running pods."""

from __future__ import annotations

import pytest
from mnnvl_harness import MnnvlSimulation, mix, of_replica, uids
from operator_harness import simulated

from grove.api.devices import COMPUTE_DOMAINS
from grove.api.kinds import POD_CLIQUE_SETS, SCALING_GROUPS
from grove.testing import simulate
from grove.testing.faults import Faults


async def story(simulation: MnnvlSimulation) -> None:
    """A life with everything in it; whatever dies on the way, each rest is the same."""
    await simulation.people.create(mix())
    await simulation.settle()
    simulation.owned(**of_replica(0))
    await simulation.people.scale(POD_CLIQUE_SETS, "mix", 2)
    await simulation.settle()
    simulation.owned(**of_replica(0), **of_replica(1))
    await simulation.people.scale(POD_CLIQUE_SETS, "mix", 1)
    await simulation.settle()
    simulation.owned(**of_replica(0))
    simulation.sound()
    await simulation.people.delete(POD_CLIQUE_SETS, "mix")
    await simulation.settle()
    assert simulation.devices() == {}
    assert simulation.managed("mix") == set()


def crashes(number: int, *, after: bool) -> Faults:
    point = frozenset({number})
    return Faults(crash_after_write=point) if after else Faults(crash_before_write=point)


WEBHOOK_WRITES = 16  # four domains and four claims for each of two replicas


@pytest.mark.campaign
class TestDeaths:
    @pytest.mark.parametrize("after", [False, True], ids=["before", "after"])
    def test_the_webhook_dies_at_any_of_its_writes(self, after: bool) -> None:
        async def run(number: int) -> None:
            simulation = MnnvlSimulation(faults=crashes(number, after=after))
            operator = simulation.start_operator()
            await story(simulation)
            assert simulation.webhooks[0].transport.writes >= WEBHOOK_WRITES
            await operator.stop()

        for number in range(1, WEBHOOK_WRITES + 1):
            simulate(run(number), limit=30 * 24 * 3600)

    @pytest.mark.parametrize("first", [0, 1], ids=["even", "odd"])
    def test_the_operator_dies_at_any_of_its_writes(self, first: int) -> None:
        """Even writes took effect, odd ones did not: what follows one write is what comes before the next."""

        async def run(number: int) -> int:
            simulation = MnnvlSimulation()
            operator = simulation.start_operator(crashes(number, after=number % 2 == 0))
            await story(simulation)
            await operator.stop()
            return operator.writes

        number, writes = 2 - first, 2
        while number <= writes:
            writes = simulate(run(number), limit=30 * 24 * 3600)
            number += 2
        assert writes > 50

    @pytest.mark.parametrize("number", range(WEBHOOK_WRITES // 2 + 1, WEBHOOK_WRITES + 1))
    def test_what_is_made_for_a_replica_given_up_meanwhile_goes(self, number: int) -> None:
        """The webhook and the operator die together, before a PodGang came for what was made so far."""

        async def run() -> None:
            simulation = MnnvlSimulation(faults=crashes(number, after=True))
            operator = simulation.start_operator()
            await simulation.people.create(mix())
            await simulation.settle()
            await simulation.people.scale(POD_CLIQUE_SETS, "mix", 2)
            await simulation.until(lambda: simulation.webhooks[0].transport.crashed.is_set())
            operator.crash()
            assert any("/mix-1" in item for item in simulation.devices())
            await simulation.people.scale(POD_CLIQUE_SETS, "mix", 1)
            await simulation.settle()
            simulation.owned(**of_replica(0))
            await simulation.people.scale(POD_CLIQUE_SETS, "mix", 2)
            await simulation.settle()
            simulation.owned(**of_replica(0), **of_replica(1))

        simulate(run(), limit=30 * 24 * 3600)

    @simulated
    async def test_what_is_made_for_a_group_replica_given_up_meanwhile_goes(self) -> None:
        simulation = MnnvlSimulation(faults=crashes(WEBHOOK_WRITES // 2 + 1, after=True))
        operator = simulation.start_operator()
        await simulation.people.create(mix())
        await simulation.settle()
        await simulation.people.scale(SCALING_GROUPS, "mix-0-pool", 3)
        await simulation.until(lambda: simulation.webhooks[0].transport.crashed.is_set())
        operator.crash()
        assert "ComputeDomain/mix-0-pool-2-cd" in simulation.devices()
        await simulation.people.scale(SCALING_GROUPS, "mix-0-pool", 2)
        await simulation.settle()
        simulation.owned(**of_replica(0))

    @simulated
    async def test_what_waits_for_its_gang_stays_while_its_replica_is_asked_for(self) -> None:
        """Only the operator is away: what the webhook has made is found again, not made anew."""
        simulation = MnnvlSimulation()
        operator = simulation.start_operator(crashes(6, after=False))
        await simulation.people.create(mix())
        await simulation.until(lambda: bool(simulation.objects(COMPUTE_DOMAINS)))
        before = uids(simulation.objects(COMPUTE_DOMAINS))
        operator.crash()
        await simulation.settle()
        simulation.owned(**of_replica(0))
        assert before.items() <= uids(simulation.objects(COMPUTE_DOMAINS)).items()
