"""How soon a Workload's arrival releases the pods that wait for it, on a local cluster, beside the floor.

Released is a pod that points at its PodGroup, as a watcher sees it. The floor is the same number of pod patches, sent
by a bare client with as many in flight to pods of the same shape and watched the same way: what the API server, and all
who watch pods, cost on this machine. CPU is counted per process of the cluster while the Workload's pods are released.
Both are bound by CPU, so what programs outside the measurement used meanwhile is told with each figure (`elsewhere`, in
cores), and the figures shown are those of the round that was disturbed least.
"""

from __future__ import annotations

import asyncio
import os
import tempfile
import time
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from grove.api.core import Pod
from grove.api.kinds import PODS
from grove.bench.meters import ProcessMeter
from grove.localcluster import ClusterSpec, RunningCluster, reset, up
from grove.runtime import requests
from grove.runtime.client import Client
from grove.runtime.connection import connect, load
from grove.runtime.reflector import Reflector
from grove.runtime.store import Store
from grove.schedulers import kai
from grove.schedulers.kube_workload import WORKLOADS

NAMESPACE = "default"
IN_FLIGHT = 64
PATIENCE = 300.0
_LOOK = 2.0
_CALM = 0.3  # cores that a cluster at rest may use
Json = dict[str, Any]


class Marks:
    """Which pods of the namespace are there, and which of them point at a PodGroup."""

    def __init__(self, client: Client) -> None:
        pods: Store[Pod] = Store(PODS)
        self.there: set[str] = set()
        self.marked: set[str] = set()
        self._changed = asyncio.Event()
        pods.subscribe(self._note)
        self._reflector = Reflector(client, pods, namespace=NAMESPACE)

    async def watch(self) -> None:
        await self._reflector.run()

    async def until(self, names: set[str], *, marked: bool) -> None:
        """Waits until all of these pods are there, or are marked."""
        async with asyncio.timeout(PATIENCE):
            while not names <= (self.marked if marked else self.there):
                self._changed.clear()
                await self._changed.wait()
                await asyncio.sleep(0.01)  # many changes, one look

    def _note(self, old: Pod | None, new: Pod | None) -> None:
        if new is not None:
            self.there.add(new.metadata.name)
            if kai.POD_GROUP_ANNOTATION in new.metadata.annotations:
                self.marked.add(new.metadata.name)
        self._changed.set()


def waiting_pod(name: str, workload: str, scheduler: str = kai.NAME) -> Json:
    """A pod of that Workload. One for a scheduler nobody runs is looked at by no pod-grouper."""
    spec = {
        "schedulerName": scheduler,
        "containers": [{"name": "main", "image": "example/main:1"}],
        "workloadRef": {"name": workload, "podGroup": "workers"},
    }
    return {"metadata": {"name": name, "namespace": NAMESPACE}, "spec": spec}


class Machine:
    """What the whole machine does, from the kernel's books; busy seconds of all cores."""

    def __init__(self, meters: Iterable[ProcessMeter]) -> None:
        self._meters = tuple(meters)
        self._busy, self._began = self._total(), time.monotonic()

    def elsewhere(self) -> float:
        """Cores that others used since: neither the given processes nor this one."""
        ours = sum(meter.cpu() for meter in self._meters)
        return max(0.0, self._total() - self._busy - ours) / (time.monotonic() - self._began)

    @staticmethod
    def _total() -> float:
        user, nice, system, _, _, interrupts, soft, *_ = map(int, Path("/proc/stat").read_text().split()[1:11])
        return (user + nice + system + interrupts + soft) / os.sysconf("SC_CLK_TCK")


class Release:
    """Both measurements on one cluster."""

    def __init__(self, cluster: RunningCluster, client: Client, marks: Marks, pods: int) -> None:
        self._cluster = cluster
        self._client = client
        self._marks = marks
        self._pods = pods

    async def floor(self, name: str) -> Json:
        """Seconds for the patches alone."""
        await self._create(name, "nobody")
        await self._calm()
        value = [{"op": "add", "path": "/metadata/annotations", "value": {kai.POD_GROUP_ANNOTATION: f"{name}-workers"}}]
        machine = Machine((*self._meters().values(), ProcessMeter(os.getpid())))
        began = time.monotonic()
        await asyncio.gather(
            *(self._client.send(requests.json_patch(PODS, NAMESPACE, each, value)) for each in self._names(name))
        )
        await self._marks.until(self._names(name), marked=True)
        return {"floor_s": _short(time.monotonic() - began), "floor_elsewhere": _short(machine.elsewhere())}

    async def release(self, name: str) -> Json:
        """Seconds from creating the Workload until all pods are in its group, and who used how much CPU meanwhile."""
        await self._create(name, kai.NAME)
        await self._calm()
        meters = self._meters()
        gang = {"name": "workers", "policy": {"gang": {"minCount": self._pods}}}
        workload = {"metadata": {"name": name, "namespace": NAMESPACE}, "spec": {"podGroups": [gang]}}
        machine = Machine((*meters.values(), ProcessMeter(os.getpid())))
        began = time.monotonic()
        await self._client.send(requests.create(WORKLOADS, workload))
        await self._marks.until(self._names(name), marked=True)
        seconds, elsewhere = time.monotonic() - began, machine.elsewhere()
        cpu = {each: _short(meter.cpu()) for each, meter in meters.items()}
        return {"release_s": _short(seconds), "release_elsewhere": _short(elsewhere), "cpu_s": cpu}

    async def remove(self, name: str) -> None:
        deletions = [requests.delete(PODS, NAMESPACE, each, grace_period=0) for each in self._names(name)]
        await asyncio.gather(*(self._client.send(each) for each in deletions), return_exceptions=True)

    def _names(self, name: str) -> set[str]:
        return {f"{name}-{index}" for index in range(self._pods)}

    async def _create(self, name: str, scheduler: str) -> None:
        bodies = [waiting_pod(each, name, scheduler) for each in self._names(name)]
        await asyncio.gather(*(self._client.send(requests.create(PODS, body)) for body in bodies))
        await self._marks.until(self._names(name), marked=False)

    async def _calm(self) -> None:
        """Until everybody has dealt with what came before: pods seen, told what they wait for, or removed."""
        async with asyncio.timeout(PATIENCE):
            spent = -1.0
            while (now := sum(meter.cpu_total() for meter in self._meters().values())) - spent > _CALM * _LOOK:
                spent = now
                await asyncio.sleep(_LOOK)

    def _meters(self) -> dict[str, ProcessMeter]:
        return {each: ProcessMeter(state.pid) for each, state in self._cluster.components().items() if state.pid}


@asynccontextmanager
async def local_cluster() -> AsyncIterator[RunningCluster]:
    with tempfile.TemporaryDirectory() as folder:
        spec = ClusterSpec(name="grouper-bench", nodes=4, operator=True, data_dir=Path(folder) / "cluster")
        cluster = await asyncio.to_thread(up, spec)
        try:
            yield cluster
        finally:
            await asyncio.to_thread(reset, spec.name, spec.data_dir)


async def measure(pods: int, rounds: int) -> Json:
    async with local_cluster() as cluster:
        transport = connect(load(cluster.kubeconfig))
        client = Client(transport, field_manager="bench", in_flight=IN_FLIGHT)
        marks = Marks(client)
        watching = asyncio.create_task(marks.watch())
        found: list[Json] = []
        try:
            bench = Release(cluster, client, marks, pods)
            for index in range(rounds):
                floor = await bench.floor(f"floor-{index}")
                await bench.remove(f"floor-{index}")
                release = await bench.release(f"wait-{index}")
                await bench.remove(f"wait-{index}")
                found.append({**floor, **release})
                print(found[-1], flush=True)
        finally:
            watching.cancel()
            await asyncio.gather(watching, return_exceptions=True)
            await transport.close()
    calmest = min(found, key=lambda each: max(each["floor_elsewhere"], each["release_elsewhere"]))
    return {"waiting_pods": pods, **calmest, "rounds": [[each["floor_s"], each["release_s"]] for each in found]}


def _short(number: float) -> float:
    return round(number, 2)
