"""The test stand: one local cluster with the operator on it, and what every measurement needs of both."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from grove.api.kinds import POD_CLIQUE_SETS, POD_CLIQUES, POD_GANGS, PODS, SCALING_GROUPS, SERVICES
from grove.bench.floor import floor_replicas
from grove.bench.meters import PodMeter, ProcessMeter, created, gone, operator_writes, ready, scrape, server_writes
from grove.bench.workloads import FLOOR_LABEL, NAMESPACE, Body, Shape, deployment, set_names
from grove.localcluster import ClusterSpec, RunningCluster, restart, up
from grove.localcluster.components import OPERATOR_METRICS
from grove.localcluster.ports import load_ports
from grove.localcluster.spec import Scheduler
from grove.runtime import errors, requests
from grove.runtime.aiohttp_transport import AiohttpTransport
from grove.runtime.client import Client
from grove.runtime.connection import load
from grove.runtime.credentials import Fixed
from grove.runtime.objects import PartialObject
from grove.runtime.resource import Resource
from grove.runtime.transport import Transport

NODES = 100
PATIENCE = 900.0
NAMESPACES = Resource("", "v1", "namespaces", "Namespace", PartialObject, namespaced=False)
DEPLOYMENTS = Resource("apps", "v1", "deployments", "Deployment", PartialObject)
_BY_KIND: dict[str, Resource[Any]] = {
    r.kind: r for r in (SERVICES, POD_CLIQUES, SCALING_GROUPS, POD_GANGS, PODS, POD_CLIQUE_SETS)
}


class Stand:
    """A cluster to measure on."""

    def __init__(self, cluster: RunningCluster, transport: Transport, metrics: Transport) -> None:
        self.cluster = cluster
        self.client = Client(transport, in_flight=64)
        self._transport = transport
        self._metrics = metrics

    def operator(self) -> ProcessMeter:
        return ProcessMeter(self.operator_pid)

    @property
    def operator_pid(self) -> int:
        return self.cluster.components()["operator"].pid

    async def restart_operator(self) -> None:
        await asyncio.to_thread(restart, self.cluster, "operator")

    async def operator_writes(self) -> Counter[str]:
        return await operator_writes(self._metrics)

    async def server_writes(self) -> Counter[str]:
        return await server_writes(self._transport)

    async def reconciles(self) -> int:
        samples = await scrape(self._metrics, "grove_reconciles_total")
        return int(sum(value for _, value in samples))

    # What is put on the stand.

    async def floor(self, shape: Shape) -> dict[str, float]:
        """The same end objects by a bare script: as fast as this API server takes them."""
        replicas = list(floor_replicas(shape))
        cpu = time.process_time()
        async with PodMeter(self.client, f"{FLOOR_LABEL}=true") as meter:
            await asyncio.gather(*(self._post_replica(*parts) for parts in replicas))
            spent = time.process_time() - cpu
            done = await meter.when(created(shape.pods), PATIENCE)
            is_ready = await meter.when(ready(shape.pods), PATIENCE)
            await self._clear_floor()
            await meter.when(gone, PATIENCE)
        return {"created_s": done, "ready_s": is_ready, "cpu_s": spent}

    async def _post_replica(self, objects: list[Body], pods: list[Body]) -> None:
        for bodies in (objects, pods):
            await asyncio.gather(*(self._post(body) for body in bodies))

    async def _post(self, body: Body) -> None:
        await self.client.send(requests.create(_BY_KIND[body["kind"]], body))

    async def _clear_floor(self) -> None:
        resources: tuple[Resource[Any], ...] = (PODS, POD_GANGS, POD_CLIQUES, SCALING_GROUPS, SERVICES)
        for resource in resources:
            found = await self.client.list_all(resource, namespace=NAMESPACE, label_selector=f"{FLOOR_LABEL}=true")
            await asyncio.gather(*(self._remove(resource, item.metadata.name) for item in found.items))

    async def _remove(self, resource: Resource[Any], name: str) -> None:
        try:
            await self.client.delete(resource, NAMESPACE, name)
        except errors.NotFound:
            return

    async def yardstick(self, pods: int) -> dict[str, float]:
        """A Deployment of as many pods."""
        async with PodMeter(self.client, "bench.grove.io/yardstick=true") as meter:
            await self.client.send(requests.create(DEPLOYMENTS, deployment(pods)))
            is_ready = await meter.when(ready(pods), PATIENCE)
            meter.begin()
            await self.client.delete(DEPLOYMENTS, NAMESPACE, "yardstick", propagation="Background")
            deleted = await meter.when(gone, PATIENCE)
        return {"ready_s": is_ready, "deleted_s": deleted}

    @asynccontextmanager
    async def product(self, bodies: list[Body], pods: int) -> AsyncIterator[dict[str, float]]:
        """PodCliqueSets, brought up; yields the times, and leaves them standing until the end of the block."""
        times: dict[str, float] = {}
        async with PodMeter(self.client, "app.kubernetes.io/managed-by=grove-operator") as meter:
            await asyncio.gather(*(self._post(body) for body in bodies))
            times["created_s"] = await meter.when(created(pods), PATIENCE)
            times["ready_s"] = await meter.when(ready(pods), PATIENCE)
            yield times
            meter.begin()
            await asyncio.gather(*(self._remove(POD_CLIQUE_SETS, body["metadata"]["name"]) for body in bodies))
            times["deleted_s"] = await meter.when(gone, PATIENCE)
        await self.settled()

    async def settled(self) -> None:
        """Waits until nothing of ours is left and the operator has stopped writing."""
        resources: tuple[Resource[Any], ...] = (POD_CLIQUES, POD_GANGS, SERVICES)
        for resource in resources:
            left = True
            while left:
                await asyncio.sleep(0.5)
                left = bool((await self.client.list_all(resource, namespace=NAMESPACE)).items)
        await self.quiet()

    async def quiet(self, seconds: float = 2.0) -> None:
        """Waits until the operator has written nothing for this long."""
        before = await self.operator_writes()
        while True:
            await asyncio.sleep(seconds)
            after = await self.operator_writes()
            if after == before:
                return
            before = after

    async def clear(self, shape: Shape) -> None:
        """Removes what an interrupted run may have left."""
        await self._clear_floor()
        await self._remove(DEPLOYMENTS, "yardstick")
        await asyncio.gather(*(self._remove(POD_CLIQUE_SETS, name) for name in set_names(shape)))


@asynccontextmanager
async def stand(name: str = "bench") -> AsyncIterator[Stand]:
    """Starts or reuses the cluster; what runs on it is left running for the next measurement."""
    spec = ClusterSpec(name=name, nodes=NODES, racks=10, scheduler=Scheduler.KUBE, operator=True)
    cluster = await asyncio.to_thread(up, spec)
    connection = load(cluster.kubeconfig)
    # The floor is what an ordinary script does, so it is measured over an ordinary client and not over the operator's.
    transport = AiohttpTransport(connection.server, tls=connection.tls, credentials=Fixed(connection.identity))
    port = load_ports(cluster.files.ports)[OPERATOR_METRICS]
    metrics = AiohttpTransport(f"http://127.0.0.1:{port}")
    try:
        found = Stand(cluster, transport, metrics)
        with contextlib.suppress(errors.AlreadyExists):
            await found.client.send(requests.create(NAMESPACES, {"metadata": {"name": NAMESPACE}}))
        yield found
    finally:
        await transport.close()
        await metrics.close()
