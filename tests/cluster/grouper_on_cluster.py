"""The pod-grouper inside a test, acting on the real cluster as the service account its manifest makes."""

from __future__ import annotations

import asyncio
import contextlib
import os
import socket
import subprocess
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path
from typing import Any

import msgspec

from grove.apps.pod_grouper import Grouper
from grove.localcluster import RunningCluster, service_account_kubeconfig
from grove.localcluster.binaries import KAI_POD_GROUPER, ensure_built
from grove.localcluster.progress import PlainProgress
from grove.podgrouper.kinds import FIELD_MANAGER
from grove.runtime import requests
from grove.runtime.client import Client
from grove.runtime.connection import connect, load
from grove.runtime.objects import ObjectMeta
from grove.runtime.recorder import Recorder
from grove.runtime.reflector import Reflector
from grove.runtime.resource import Resource
from grove.runtime.store import Store

Json = dict[str, Any]
ROOT = Path(__file__).parents[2]
WITHIN = 60.0


class Document(msgspec.Struct):
    """Any object."""

    metadata: ObjectMeta
    spec: Json = {}
    status: Json = {}
    regarding: Json = {}
    reason: str = ""


PODS = Resource("", "v1", "pods", "Pod", Document)
GROUPS = Resource("scheduling.run.ai", "v2alpha2", "podgroups", "PodGroup", Document)
WORKLOADS = Resource("scheduling.k8s.io", "v1alpha1", "workloads", "Workload", Document)
GANGS = Resource("scheduler.grove.io", "v1alpha1", "podgangs", "PodGang", Document)
EVENTS = Resource("events.k8s.io", "v1", "events", "Event", Document)
STATEFUL_SETS = Resource("apps", "v1", "statefulsets", "StatefulSet", Document)
DEPLOYMENTS = Resource("apps", "v1", "deployments", "Deployment", Document)
JOBS = Resource("batch", "v1", "jobs", "Job", Document)
CRON_JOBS = Resource("batch", "v1", "cronjobs", "CronJob", Document)
GRAPHS = Resource("nvidia.com", "v1alpha1", "dynamographdeployments", "DynamoGraphDeployment", Document)


class Bench:
    """One namespace of the cluster, watched, with a person who can write to it."""

    def __init__(self, client: Client, namespace: str) -> None:
        self.client = client
        self.namespace = namespace
        self._changed = asyncio.Event()
        self._stores: dict[Resource[Document], Store[Document]] = {}
        for resource in (PODS, GROUPS, EVENTS):
            store: Store[Document] = Store(resource)
            store.subscribe(lambda old, new: self._changed.set())
            self._stores[resource] = store

    async def watch(self) -> None:
        async with asyncio.TaskGroup() as tasks:
            for store in self._stores.values():
                tasks.create_task(Reflector(self.client, store, namespace=self.namespace).run())

    async def until(self, holds: Callable[[], bool], what: str) -> None:
        """Waits until the watched namespace is as wanted."""
        try:
            async with asyncio.timeout(WITHIN):
                while not holds():
                    self._changed.clear()
                    await self._changed.wait()
        except TimeoutError:
            raise AssertionError(f"not within {WITHIN:g} s: {what}; groups {self.groups}, pods {self.marks}") from None

    async def create(self, resource: Resource[Document], name: str, **document: Any) -> Document:
        metadata = {"name": name, "namespace": self.namespace, **document.pop("metadata", {})}
        return await self.client.send(requests.create(resource, {"metadata": metadata, **document}))

    async def workload(self, name: str, metadata: Json | None = None, **groups: int) -> Document:
        """A Workload; 0 means the basic policy, anything else a gang of that minimum."""
        listed = [
            {"name": group, "policy": {"gang": {"minCount": minimum}} if minimum else {"basic": {}}}
            for group, minimum in groups.items()
        ]
        return await self.create(WORKLOADS, name, metadata=metadata or {}, spec={"podGroups": listed})

    async def pod(self, name: str, ref: Json | None = None, *, gpus: int = 0, **metadata: Any) -> Document:
        spec = pod_spec(gpus)
        if ref:
            spec["workloadRef"] = ref
        return await self.create(PODS, name, metadata=metadata, spec=spec)

    @property
    def pods(self) -> dict[str, Document]:
        return {pod.metadata.name: pod for pod in self._stores[PODS].all()}

    @property
    def groups(self) -> dict[str, int]:
        """The PodGroups by name, with their minimum."""
        return {group.metadata.name: group.spec.get("minMember", 0) for group in self._stores[GROUPS].all()}

    def group(self, name: str) -> Document:
        found = self._stores[GROUPS].get(f"{self.namespace}/{name}")
        assert found is not None, f"there is no PodGroup {name}"
        return found

    @property
    def marks(self) -> dict[str, str | None]:
        return {name: pod.metadata.annotations.get("pod-group-name") for name, pod in self.pods.items()}

    @property
    def running(self) -> set[str]:
        return {name for name, pod in self.pods.items() if pod.spec.get("nodeName")}

    def told(self, name: str) -> set[str]:
        """The reasons of events about an object."""
        return {event.reason for event in self._stores[EVENTS].all() if event.regarding.get("name") == name}


def pod_spec(gpus: int = 0, scheduler: str = "kai-scheduler") -> Json:
    container: Json = {"name": "main", "image": "example/main:1"}
    if gpus:
        container["resources"] = {"limits": {"nvidia.com/gpu": str(gpus)}}
    return {"schedulerName": scheduler, "containers": [container]}


def install(cluster: RunningCluster) -> Path:
    """Applies what the pod-grouper needs, and returns the kubeconfig of its service account."""
    for path in ("deploy/crds/scheduler.grove.io_podgangs.yaml", "deploy/rbac/pod-grouper.yaml"):
        cluster.kubectl("apply", "--server-side", "--force-conflicts", "-f", str(ROOT / path))
    cluster.kubectl("wait", "--for=condition=Established", "crd/podgangs.scheduler.grove.io", "--timeout=60s")
    return service_account_kubeconfig(cluster, "grove-system", "grove-pod-grouper")


@contextlib.asynccontextmanager
async def watching(cluster: RunningCluster, namespace: str) -> AsyncIterator[Bench]:
    """A watched namespace."""
    transport = connect(load(cluster.kubeconfig))
    bench = Bench(Client(transport, field_manager="test"), namespace)
    task = asyncio.create_task(bench.watch())
    try:
        yield bench
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        await transport.close()


@contextlib.asynccontextmanager
async def grouping(kubeconfig: Path) -> AsyncIterator[Grouper]:
    """A running pod-grouper."""
    transport = connect(load(kubeconfig))
    client = Client(transport, field_manager=FIELD_MANAGER)
    recorder = Recorder(client, controller="grove.io/pod-grouper", instance="test")
    grouper = Grouper(client, recorder=recorder)
    tasks = [asyncio.create_task(recorder.run()), asyncio.create_task(grouper.run())]
    try:
        yield grouper
    finally:
        for task in tasks:
            task.cancel()
        ended = await asyncio.gather(*tasks, return_exceptions=True)
        await transport.close()
    assert all(isinstance(end, asyncio.CancelledError) for end in ended), ended


@contextlib.contextmanager
def kais_pod_grouper(cluster: RunningCluster, scheduler: str) -> Iterator[None]:
    """KAI's own, for pods that name this scheduler only."""
    ensure_built([KAI_POD_GROUPER], PlainProgress())
    command = [
        str(KAI_POD_GROUPER.folder() / "podgrouper"),
        f"-metrics-bind-address=127.0.0.1:{free_port()}",
        f"-health-probe-bind-address=127.0.0.1:{free_port()}",
        f"-scheduler-name={scheduler}",
    ]
    environment = {**os.environ, "KUBECONFIG": str(cluster.kubeconfig)}
    process = subprocess.Popen(command, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        yield
    finally:
        process.terminate()
        process.wait()


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])
