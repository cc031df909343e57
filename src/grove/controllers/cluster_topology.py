"""Keeps ClusterTopology and KAI Topology as the configuration says, repairs both, and says when it cannot."""

from __future__ import annotations

from grove.api.kinds import CLUSTER_TOPOLOGIES
from grove.controllers.apply import Applier, Failure, same_status
from grove.controllers.stores import Stores
from grove.plan import cluster_topology
from grove.plan.actions import Plan
from grove.plan.cluster_topology import KAI_TOPOLOGIES, TopologyWorld
from grove.plan.settings import TopologySettings
from grove.runtime.client import Client
from grove.runtime.clock import Clock
from grove.runtime.queue import WorkQueue
from grove.runtime.worker import DONE, Result

KEY = "topology"


def add_stores(stores: Stores) -> None:
    stores.add(CLUSTER_TOPOLOGIES)
    stores.add(KAI_TOPOLOGIES)


class TopologyController:
    """One key: there is one configuration."""

    def __init__(self, client: Client, stores: Stores, settings: TopologySettings, clock: Clock) -> None:
        self.queue: WorkQueue[str] = WorkQueue()
        self._stores = stores
        self._settings = settings
        self._clock = clock
        self._applier = Applier(client, stores)
        self._error: str | None = None
        stores[CLUSTER_TOPOLOGIES].subscribe(self._changed)
        stores[KAI_TOPOLOGIES].subscribe(self._changed)
        stores[KAI_TOPOLOGIES].when_served(self.start)

    def _changed(self, _old: object, _new: object) -> None:
        self.queue.add(KEY)

    def start(self) -> None:
        self.queue.add(KEY)

    async def reconcile(self, _: str) -> Result:
        failures = await self._applier.run(Plan(tuple(cluster_topology.actions(self._world()))))
        self._error = self._kai_error(failures)
        failures += await self._write_status()
        if failures:
            raise failures[0].error
        return DONE

    def _world(self) -> TopologyWorld:
        kai = self._stores[KAI_TOPOLOGIES]
        return TopologyWorld(
            settings=self._settings,
            topologies=tuple(self._stores[CLUSTER_TOPOLOGIES].all()),
            kai_topologies=tuple(kai.all()),
            kai_served=kai.served,
            error=self._error,
        )

    @staticmethod
    def _kai_error(failures: list[Failure]) -> str | None:
        return str(failures[0].error) if failures else None

    async def _write_status(self) -> list[Failure]:
        write = cluster_topology.status(self._world(), self._clock.now())
        if write is None:
            return []
        seen = self._stores[CLUSTER_TOPOLOGIES].get(write.name)
        if seen is not None and same_status(write.status, seen.status):
            return []
        return await self._applier.write((write,))
