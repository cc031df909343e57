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
from typing import TypedDict, Unpack

import structlog

from grove.api.kinds import PODS
from grove.apps.leading import lead
from grove.controllers.api_arrivals import ApiArrivals
from grove.controllers.pod_grouper import WORKERS, PodGrouper
from grove.controllers.stores import Stores
from grove.podgrouper.kind_defaults import CONFIG_MAPS, ConfigMap
from grove.podgrouper.kinds import FIELD_MANAGER
from grove.runtime.client import Client
from grove.runtime.connection import Connection, connect
from grove.runtime.health import Health
from grove.runtime.leader import LeaderElector, LeaseSettings
from grove.runtime.metrics import Metrics
from grove.runtime.recorder import Recorder
from grove.runtime.reflector import Reflector
from grove.runtime.server import HttpServer, metrics_route
from grove.runtime.store import Store
from grove.schedulers import kai

LEASE_NAME = "grove-pod-grouper"
ONLY_KAI = f"spec.schedulerName={kai.NAME}"
_log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class PodGrouperOptions:
    """How the process runs. Without `lease_namespace` it works at once and alone.

    The ConfigMap holds defaults per kind of owner, as KAI's own pod-grouper takes them; without a name there are none.
    """

    lease_namespace: str = ""
    unique_names: bool = False
    default_priorities_configmap_name: str = ""
    default_priorities_configmap_namespace: str = ""
    bind_address: str = "0.0.0.0"
    metrics_port: int = 9446
    probe_port: int = 9447

    @property
    def defaults(self) -> tuple[str, str] | None:
        name, namespace = self.default_priorities_configmap_name, self.default_priorities_configmap_namespace
        return (namespace, name) if name and namespace else None


class GrouperOptions(TypedDict, total=False):
    """`defaults` is the namespace and name of the ConfigMap with defaults per kind; `workers` is how many pods are
    worked on at once.
    """

    unique_names: bool
    defaults: tuple[str, str] | None
    workers: int


class Grouper:
    """Caches of KAI's pods and all that groups them. The caches are its own, as nobody else here looks at all pods."""

    def __init__(
        self,
        client: Client,
        *,
        recorder: Recorder | None = None,
        metrics: Metrics | None = None,
        **options: Unpack[GrouperOptions],
    ) -> None:
        self.client = client
        self.stores = Stores()
        self._named = options.get("defaults")
        self._defaults: Store[ConfigMap] | None = Store(CONFIG_MAPS) if self._named else None
        self.pods = PodGrouper(
            client,
            self.stores,
            recorder,
            metrics,
            defaults=self._defaults,
            unique_names=options.get("unique_names", False),
            workers=options.get("workers", WORKERS),
        )
        if metrics is not None:
            metrics.watch_queue("pod-grouper", self.pods.queue)
            metrics.watch_queue("pod-group", self.pods.gangs.queue)
            for store in self.stores:
                metrics.watch_store(store)

    @property
    def synced(self) -> bool:
        """Whether all caches are warm."""
        return all(store.synced for store in self.stores) and (self._defaults is None or self._defaults.synced)

    async def watch(self) -> None:
        """Fills the caches until cancelled. The pods of other schedulers never reach this process."""
        reflectors = [
            Reflector(self.client, store, field_selector=ONLY_KAI if store.resource == PODS else "")
            for store in self.stores
        ]
        async with asyncio.TaskGroup() as tasks:
            for reflector in reflectors:
                tasks.create_task(reflector.run())
            tasks.create_task(ApiArrivals(self.client, reflectors).run())
            if self._defaults is not None and self._named is not None:
                namespace, name = self._named
                only = f"metadata.name={name}"
                tasks.create_task(
                    Reflector(self.client, self._defaults, namespace=namespace, field_selector=only).run()
                )

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
            self._client,
            recorder=self._recorder,
            metrics=self._metrics,
            unique_names=options.unique_names,
            defaults=options.defaults,
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
        health.ready_when("caches", lambda: self._grouper.synced)
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
