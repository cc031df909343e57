"""The pod-grouper as a process: caches, the grouper while it leads, metrics and probes all the time.

`Grouper` is the part without servers, which tests and other programs run as it is.
"""

from __future__ import annotations

import asyncio
import os
import signal
import socket
from collections.abc import Callable
from dataclasses import dataclass

import structlog

from grove.api.kinds import PODS
from grove.apps.leading import lead
from grove.controllers.pod_grouper import PodGrouper
from grove.controllers.stores import Stores
from grove.podgrouper.kinds import FIELD_MANAGER
from grove.runtime.client import Client
from grove.runtime.connection import Connection, connect
from grove.runtime.health import Health
from grove.runtime.leader import LeaderElector, LeaseSettings
from grove.runtime.metrics import Metrics
from grove.runtime.recorder import Recorder
from grove.runtime.reflector import Reflector
from grove.runtime.server import HttpServer, metrics_route
from grove.schedulers import kai

LEASE_NAME = "grove-pod-grouper"
ONLY_KAI = f"spec.schedulerName={kai.NAME}"
_log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class PodGrouperOptions:
    """How the process runs. Without `lease_namespace` it works at once and alone."""

    lease_namespace: str = ""
    unique_names: bool = False
    bind_address: str = "0.0.0.0"
    metrics_port: int = 9446
    probe_port: int = 9447


class Grouper:
    """Caches of KAI's pods and all that groups them."""

    def __init__(
        self,
        client: Client,
        *,
        recorder: Recorder | None = None,
        metrics: Metrics | None = None,
        unique_names: bool = False,
    ) -> None:
        self.client = client
        self.stores = Stores()
        self.pods = PodGrouper(client, self.stores, recorder, metrics, unique_names=unique_names)
        if metrics is not None:
            metrics.watch_queue("pod-grouper", self.pods.queue)
            metrics.watch_queue("pod-group", self.pods.gangs.queue)
            for store in self.stores:
                metrics.watch_store(store)

    async def watch(self) -> None:
        """Fills the caches until cancelled. The pods of other schedulers never reach this process."""
        async with asyncio.TaskGroup() as tasks:
            for store in self.stores:
                selector = ONLY_KAI if store.resource == PODS else ""
                tasks.create_task(Reflector(self.client, store, field_selector=selector).run())

    async def run(self) -> None:
        """Watches and groups until cancelled."""
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self.watch())
            tasks.create_task(self.pods.run())


class _Process:
    def __init__(self, options: PodGrouperOptions, connection: Connection) -> None:
        self._options = options
        self._transport = connect(connection)
        self._metrics = Metrics()
        self._client = Client(self._transport, field_manager=FIELD_MANAGER, on_request=self._metrics.api_request)
        self._recorder = Recorder(self._client, controller="grove.io/pod-grouper", instance=socket.gethostname())
        self._grouper = Grouper(
            self._client, recorder=self._recorder, metrics=self._metrics, unique_names=options.unique_names
        )

    async def run(self) -> None:
        servers = self._servers()
        for server in servers:
            await server.start()
        try:
            async with asyncio.TaskGroup() as tasks:
                tasks.create_task(self._recorder.run())
                tasks.create_task(self._grouper.watch())
                tasks.create_task(self._lead())
        finally:
            for server in servers:
                await server.stop()
            await self._transport.close()

    async def _lead(self) -> None:
        if not self._options.lease_namespace:
            await self._work()
            return
        unfenced = Client(self._transport, on_request=self._metrics.api_request)
        identity = f"{socket.gethostname()}-{os.getpid()}"
        elector = LeaderElector(unfenced, LeaseSettings(self._options.lease_namespace, LEASE_NAME, identity))
        await lead(elector, lambda: self._work(elector.fence), self._transport)

    async def _work(self, fence: Callable[[], bool] | None = None) -> None:
        self._client.fence = fence
        _log.info("grouping pods")
        self._metrics.leading(True)
        await self._grouper.pods.run()

    def _servers(self) -> list[HttpServer]:
        health, host = Health(), self._options.bind_address
        health.ready_when("caches", lambda: all(store.synced for store in self._grouper.stores))
        return [
            HttpServer([metrics_route(self._metrics)], host=host, port=self._options.metrics_port),
            HttpServer(health.routes(), host=host, port=self._options.probe_port),
        ]


async def run(options: PodGrouperOptions, connection: Connection) -> None:
    """Runs the pod-grouper until SIGTERM or SIGINT."""
    loop = asyncio.get_running_loop()
    task = asyncio.create_task(_Process(options, connection).run())
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, task.cancel)
    try:
        await task
    except asyncio.CancelledError:
        _log.info("stopped")
