"""Keeps ClusterTopology and KAI Topology as the configuration says, repairs both, and says when it cannot.

A KAI that is missing or refuses is told in the status and tried again. A ClusterTopology that the API server refuses at
the start is the end of the operator: nothing that workloads ask of topology would be true.
"""

from __future__ import annotations

import asyncio

from grove.api.cluster_topology import ClusterTopology
from grove.api.kinds import CLUSTER_TOPOLOGIES
from grove.controllers.apply import Applier, Failure, same_status
from grove.controllers.stores import Stores
from grove.plan import cluster_topology
from grove.plan.actions import Plan
from grove.plan.cluster_topology import KAI_TOPOLOGIES, TopologyWorld
from grove.plan.settings import TopologySettings
from grove.runtime import errors
from grove.runtime.client import Client
from grove.runtime.clock import Clock
from grove.runtime.queue import WorkQueue
from grove.runtime.recorder import Recorder, reference
from grove.runtime.worker import DONE, Result

KEY = "topology"
_REFUSALS = (errors.Forbidden, errors.Invalid, errors.BadRequest)


class TopologyRefused(Exception):
    """The API server does not take the ClusterTopology of the configuration; the text says why."""


def add_stores(stores: Stores) -> None:
    stores.add(CLUSTER_TOPOLOGIES)
    stores.add(KAI_TOPOLOGIES)


class TopologyController:
    """One key: there is one configuration."""

    def __init__(
        self,
        client: Client,
        stores: Stores,
        settings: TopologySettings,
        clock: Clock,
        recorder: Recorder | None = None,
    ) -> None:
        self.queue: WorkQueue[str] = WorkQueue()
        self._stores = stores
        self._settings = settings
        self._clock = clock
        self._recorder = recorder
        self._applier = Applier(client, stores)
        self._error: str | None = None
        self._stood = False
        self._refusal = ""
        self._refused = asyncio.Event()
        stores[CLUSTER_TOPOLOGIES].subscribe(self._changed)
        stores[KAI_TOPOLOGIES].subscribe(self._changed)
        stores[KAI_TOPOLOGIES].when_served(self.start)

    def _changed(self, _old: object, _new: object) -> None:
        self.queue.add(KEY)

    def start(self) -> None:
        self.queue.add(KEY)

    async def refused(self) -> None:
        """Raises TopologyRefused when the ClusterTopology cannot even be written once; else waits for ever."""
        await self._refused.wait()
        raise TopologyRefused(self._refusal)

    async def reconcile(self, _: str) -> Result:
        world = self._world()
        failures = await self._applier.run(Plan(tuple(cluster_topology.actions(world))))
        if cluster_topology.in_place(world):
            self._stood = True
            self._error = str(failures[0].error) if failures else None
        elif failures:
            self._give_up(failures[0])
        failures += await self._write_status()
        if failures:
            raise failures[0].error
        return DONE

    def _give_up(self, failure: Failure) -> None:
        if isinstance(failure.error, _REFUSALS) and not self._stood:
            self._refusal = f"ClusterTopology {self._settings.name} cannot be written: {failure.error}"
            self._refused.set()

    def _world(self) -> TopologyWorld:
        kai = self._stores[KAI_TOPOLOGIES]
        return TopologyWorld(
            settings=self._settings,
            topologies=tuple(self._stores[CLUSTER_TOPOLOGIES].all()),
            kai_topologies=tuple(kai.all()),
            kai_served=kai.served,
            error=self._error,
        )

    async def _write_status(self) -> list[Failure]:
        write = cluster_topology.status(self._world(), self._clock.now())
        if write is None:
            return []
        seen = self._stores[CLUSTER_TOPOLOGIES].get(write.name)
        if seen is None or same_status(write.status, seen.status):
            return []
        failures = await self._applier.write((write,))
        after = self._stores[CLUSTER_TOPOLOGIES].get(write.name)
        if after is not None and not failures:
            self._tell(seen, after)
        return failures

    def _tell(self, before: ClusterTopology, after: ClusterTopology) -> None:
        notice = cluster_topology.notice(before, after)
        if notice and self._recorder:
            about = reference(CLUSTER_TOPOLOGIES, after)
            self._recorder.event(
                about, notice.why.reason, notice.why.message, type_="Warning" if notice.warning else "Normal"
            )
