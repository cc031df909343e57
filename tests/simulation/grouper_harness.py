"""The pod-grouper in simulated time, under the rights its manifest gives it, beside a person with kubectl."""

from __future__ import annotations

import asyncio
import functools
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any, ParamSpec, Unpack

import yaml

from grove.apps.pod_grouper import Grouper, GrouperOptions
from grove.podgrouper.kinds import FIELD_MANAGER
from grove.runtime import requests
from grove.runtime.client import Client
from grove.runtime.recorder import Recorder
from grove.runtime.resource import Resource
from grove.testing import ApiServer, SimClock, simulate
from grove.testing.waiting import quiet, until

Json = dict[str, Any]
P = ParamSpec("P")

ROOT = Path(__file__).parents[2]
IDENTITY = "system:serviceaccount:grove-system:grove-pod-grouper"
NAMESPACE = "default"

PODS: Resource[Json] = Resource("", "v1", "pods", "Pod", dict)
WORKLOADS: Resource[Json] = Resource("scheduling.k8s.io", "v1alpha1", "workloads", "Workload", dict)
GANGS: Resource[Json] = Resource("scheduler.grove.io", "v1alpha1", "podgangs", "PodGang", dict)
GROUPS: Resource[Json] = Resource("scheduling.run.ai", "v2alpha2", "podgroups", "PodGroup", dict)
STATEFUL_SETS: Resource[Json] = Resource("apps", "v1", "statefulsets", "StatefulSet", dict)
REPLICA_SETS: Resource[Json] = Resource("apps", "v1", "replicasets", "ReplicaSet", dict)
DEPLOYMENTS: Resource[Json] = Resource("apps", "v1", "deployments", "Deployment", dict)
JOBS: Resource[Json] = Resource("batch", "v1", "jobs", "Job", dict)
CONFIG_MAPS: Resource[Json] = Resource("", "v1", "configmaps", "ConfigMap", dict)
NAMESPACES: Resource[Json] = Resource("", "v1", "namespaces", "Namespace", dict, namespaced=False)
PRIORITY_CLASSES: Resource[Json] = Resource(
    "scheduling.k8s.io", "v1", "priorityclasses", "PriorityClass", dict, namespaced=False
)


def definition(group: str, version: str, plural: str, kind: str) -> Json:
    """A custom resource that takes anything."""
    schema = {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}}
    names = {"plural": plural, "kind": kind, "singular": kind.lower(), "listKind": f"{kind}List"}
    served = {"name": version, "served": True, "storage": True, "schema": schema, "subresources": {"status": {}}}
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{plural}.{group}"},
        "spec": {"group": group, "scope": "Namespaced", "names": names, "versions": [served]},
    }


@functools.cache
def manifest() -> tuple[Json, ...]:
    return tuple(yaml.load_all((ROOT / "deploy/rbac/pod-grouper.yaml").read_text(), yaml.CSafeLoader))


def rights() -> tuple[Json, ...]:
    return tuple(rule for each in manifest() if each["kind"] == "ClusterRole" for rule in each["rules"])


def rights_at_home() -> dict[str, list[Json]]:
    """What the manifest allows in single namespaces."""
    return {each["metadata"]["namespace"]: each["rules"] for each in manifest() if each["kind"] == "Role"}


def simulated(story: Callable[P, Coroutine[Any, Any, None]]) -> Callable[P, None]:
    """Turns an async test into one that runs in simulated time."""

    @functools.wraps(story)
    def run(*args: P.args, **kwargs: P.kwargs) -> None:
        simulate(story(*args, **kwargs), limit=24 * 3600)

    return run


class Simulation:
    """A server, a person, and a pod-grouper that can be stopped and started."""

    def __init__(self) -> None:
        self.server = ApiServer()
        self.server.define(definition("scheduling.run.ai", "v2alpha2", "podgroups", "PodGroup"))
        self.server.define(definition("scheduler.grove.io", "v1alpha1", "podgangs", "PodGang"))
        self.person = Client(self.server.transport(), field_manager="kubectl")
        self.grouper: Grouper | None = None
        self._task: asyncio.Task[None] | None = None

    def start(self, **options: Unpack[GrouperOptions]) -> None:
        transport = self.server.transport(IDENTITY, rules=rights(), namespaced_rules=rights_at_home())
        client = Client(transport, field_manager=FIELD_MANAGER)
        recorder = Recorder(client, controller="grove.io/pod-grouper", instance="test", clock=SimClock())
        self.grouper = Grouper(client, recorder=recorder, **options)
        self._task = asyncio.create_task(self._run(self.grouper, recorder))

    async def _run(self, grouper: Grouper, recorder: Recorder) -> None:
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(recorder.run())
            tasks.create_task(grouper.run())

    async def stop(self) -> None:
        assert self._task is not None
        self._task.cancel()
        await asyncio.gather(self._task, return_exceptions=True)

    async def settle(self) -> None:
        await quiet(self.server, 5.0)
        assert self._task is None or not self._task.done() or self._task.result() is None

    async def until(self, holds: Callable[[], bool], *, within: float = 60.0) -> None:
        await until(self.server, holds, within=within)

    # A person

    async def create(self, resource: Resource[Json], name: str, **document: Any) -> Json:
        metadata = {"name": name, **document.pop("metadata", {})}
        if resource.namespaced:
            metadata.setdefault("namespace", NAMESPACE)
        return await self.person.send(requests.create(resource, {"metadata": metadata, **document}))

    async def pod(self, name: str, owner: Json | None = None, **fields: Any) -> Json:
        """A pod for KAI; `ref` is its workloadRef."""
        spec: Json = {"schedulerName": "kai-scheduler", "containers": [{"name": "main", "image": "app:1"}]}
        if "ref" in fields:
            spec["workloadRef"] = fields.pop("ref")
        metadata = fields.pop("metadata", {})
        if owner is not None:
            metadata = {**metadata, "ownerReferences": [reference_to(owner)]}
        return await self.create(PODS, name, metadata=metadata, spec={**spec, **fields})

    async def patch(self, resource: Resource[Json], name: str, patch: Json) -> Json:
        return await self.person.send(requests.merge_patch(resource, NAMESPACE, name, patch))

    async def annotate(self, resource: Resource[Json], name: str, **values: str | None) -> None:
        """`dots` in keys are written as two underscores, slashes as three."""
        keys = {key.replace("___", "/").replace("__", "."): value for key, value in values.items()}
        await self.patch(resource, name, {"metadata": {"annotations": keys}})

    async def delete(self, resource: Resource[Json], name: str) -> None:
        await self.person.delete(resource, NAMESPACE, name)

    # Looking

    def groups(self, namespace: str = NAMESPACE) -> dict[str, Json]:
        return {
            each["metadata"]["name"]: each for each in self.server.objects(GROUPS.api_version, "PodGroup", namespace)
        }

    def marks(self, name: str) -> tuple[str | None, str | None]:
        """The group and the subgroup a pod points at."""
        found = self.server.object("v1", "Pod", name, NAMESPACE)
        assert found is not None
        meta = found["metadata"]
        return (
            meta.get("annotations", {}).get("pod-group-name"),
            meta.get("labels", {}).get("kai.scheduler/subgroup-name"),
        )

    def events(self, name: str) -> list[str]:
        """The reasons told about an object."""
        found = self.server.objects("events.k8s.io/v1", "Event", NAMESPACE)
        return [each["reason"] for each in found if each["regarding"]["name"] == name]


def reference_to(owner: Json, *, controller: bool = True) -> Json:
    meta = owner["metadata"]
    found = {"apiVersion": owner["apiVersion"], "kind": owner["kind"], "name": meta["name"], "uid": meta["uid"]}
    return {**found, "controller": True} if controller else found


def pod_gang(**parts: int) -> Json:
    groups = [
        {
            "name": f"g-0-{name}",
            "minReplicas": count,
            "podReferences": [{"namespace": NAMESPACE, "name": f"g-0-{name}-{i}"} for i in range(count)],
        }
        for name, count in parts.items()
    ]
    return {"podgroups": groups}


async def clique_pod(simulation: Simulation, part: str, index: int, *, managed: bool = False) -> Json:
    """A pod of a clique; `managed` by the operator, which looks at no others."""
    owner = {"apiVersion": "grove.io/v1alpha1", "kind": "PodClique", "metadata": {"name": part, "uid": "c"}}
    labels = {"grove.io/podgang": "g-0", "grove.io/podclique": part}
    if managed:
        labels["app.kubernetes.io/managed-by"] = "grove-operator"
    return await simulation.pod(f"{part}-{index}", owner, metadata={"labels": labels})
