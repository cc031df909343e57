"""The operator without its servers: caches and controllers over one client. Simulations run exactly this."""

from __future__ import annotations

import asyncio
from typing import Any, TypedDict, Unpack

import structlog

from grove.apps.pod_grouper import Grouper, GrouperOptions
from grove.config import OperatorConfiguration
from grove.config.model import PodGrouper
from grove.controllers import cluster_topology, mnnvl, observe, webhook_bundles
from grove.controllers.api_arrivals import ApiArrivals
from grove.controllers.cluster_topology import TopologyController
from grove.controllers.mnnvl import MnnvlController
from grove.controllers.pod_grouper_gangs import PodGroupController
from grove.controllers.standing import Standing
from grove.controllers.stores import Stores
from grove.controllers.webhook_bundles import Authority, BundleController
from grove.controllers.workload import WorkloadController
from grove.plan.settings import Settings, TopologySettings
from grove.runtime.client import Client
from grove.runtime.clock import Clock
from grove.runtime.metrics import Metrics
from grove.runtime.recorder import Recorder
from grove.runtime.reflector import ReflectorOptions
from grove.runtime.worker import Controller
from grove.schedulers import kube

WORKERS = 64
_log = structlog.get_logger(__name__)


def settings_of(configuration: OperatorConfiguration, init_image: str) -> Settings:
    """What the configuration means for planning."""
    topology = configuration.topology
    return Settings(
        topology=TopologySettings(
            enabled=topology.enabled,
            name=topology.name,
            levels=tuple(topology.levels) if topology.enabled else (),
        ),
        default_scheduler=configuration.scheduler.default_profile_name,
        init_image=init_image,
        revision_history_limit=configuration.updates.revision_history_limit,
        kube_gangs=_kube_gangs(configuration),
    )


def _kube_gangs(configuration: OperatorConfiguration) -> bool:
    """Whether the default scheduler's profile asks for gangs through the Workload API."""
    return any(p.name == kube.NAME and p.config.get("gangScheduling") for p in configuration.scheduler.profiles)


class EngineOptions(TypedDict, total=False):
    """What a whole process adds: whom to tell, and the image of the waiting program.

    `grouper` is the client PodGroups are written with, under the pod-grouper's own field manager; `authority` is what
    the API server is to trust when it calls our webhooks, where we decide that ourselves.
    """

    recorder: Recorder
    metrics: Metrics
    authority: Authority | None
    grouper: Client
    init_image: str


def grouper_options(grouping: PodGrouper) -> GrouperOptions:
    """What the configuration means for the embedded pod-grouper."""
    name, namespace = grouping.default_priorities_config_map_name, grouping.default_priorities_config_map_namespace
    return {"workers": grouping.concurrent_syncs, "defaults": (namespace, name) if name and namespace else None}


class Engine:
    """Caches that are always warm, and controllers that run while this process leads."""

    def __init__(
        self, client: Client, configuration: OperatorConfiguration, clock: Clock, **options: Unpack[EngineOptions]
    ) -> None:
        """The embedded pod-grouper keeps the PodGroups of our own gangs, from the caches there are; when it is enabled
        for the pods of other workloads too, it is the whole of it, with caches of its own.
        """
        recorder, metrics, authority = options.get("recorder"), options.get("metrics"), options.get("authority")
        settings = settings_of(configuration, options.get("init_image", "grove:latest"))
        self.client = client
        self.stores = Stores()
        self._metrics = metrics
        observe.add_stores(self.stores, kube_gangs=settings.kube_gangs)
        cluster_topology.add_stores(self.stores)
        self.workload = WorkloadController(client, self.stores, settings, clock, recorder)
        self.standing = Standing(client, self.stores, self.workload.queue, self.workload.reconcile)
        self.topology = TopologyController(client, self.stores, settings.topology, clock, recorder)
        self.pod_groups: PodGroupController | None = None
        self.grouper: Grouper | None = None
        grouping, writer = configuration.pod_grouper, options.get("grouper", client)
        if grouping.embedded and grouping.enabled:
            self.grouper = Grouper(writer, recorder=recorder, metrics=metrics, **grouper_options(grouping))
        elif grouping.embedded:
            self.pod_groups = PodGroupController(writer, self.stores, recorder=recorder, observer=metrics)
        self.mnnvl: MnnvlController | None = None
        if configuration.mnnvl.enabled:
            mnnvl.add_stores(self.stores)
            per_pod = configuration.mnnvl.claims == "perPod"
            self.mnnvl = MnnvlController(client, self.stores, per_pod=per_pod, recorder=recorder, observer=metrics)
        self.bundles: BundleController | None = None
        if authority is not None:
            webhook_bundles.add_stores(self.stores)
            self.bundles = BundleController(client, self.stores, authority)

    async def watch(self, **options: Unpack[ReflectorOptions]) -> None:
        """Fills the caches until cancelled."""
        reflectors = self.stores.reflectors(self.client, **options)
        arrivals = ApiArrivals(self.client, reflectors)
        async with asyncio.TaskGroup() as group:
            for reflector in reflectors:
                group.create_task(reflector.run())
            if self.mnnvl:
                arrivals.subscribe(self.mnnvl.apis.api_changed)
                group.create_task(self.mnnvl.apis.keep())
            group.create_task(arrivals.run())
            if self.grouper:
                group.create_task(self.grouper.watch())

    async def control(self) -> None:
        """Runs the controllers on warm caches until cancelled."""
        await self.stores.wait_synced()
        _log.info("caches are warm, controllers start")
        self.topology.start()
        async with asyncio.TaskGroup() as group:
            for controller in self._controllers():
                group.create_task(controller.run())
            group.create_task(self.topology.refused())
            if self.pod_groups:
                group.create_task(self.pod_groups.run())
            if self.grouper:
                group.create_task(self.grouper.pods.run())
            if self.mnnvl:
                group.create_task(self.mnnvl.run())

    def _controllers(self) -> list[Controller[Any]]:
        observer: dict[str, Any] = {"observer": self._metrics} if self._metrics else {}
        found: list[Controller[Any]] = [
            Controller("workload", self.workload.queue, self.standing.reconcile, workers=WORKERS, **observer),
            Controller("topology", self.topology.queue, self.topology.reconcile, workers=1, **observer),
        ]
        if self.bundles:
            found.append(Controller("bundles", self.bundles.queue, self.bundles.reconcile, workers=1, **observer))
        if self._metrics:
            for controller in found:
                self._metrics.watch_queue(controller.name, controller.queue)
            for store in self.stores:
                self._metrics.watch_store(store)
        return found
