"""The whole operator in simulated time: its engine under its own RBAC rules, its webhooks, a cluster that runs pods.

Everything a real installation has comes from deploy/: definitions, rights, webhook configurations. An operator can die
at any write and comes back with empty caches; several can run at once. `people` is what a person with kubectl does.
"""

from __future__ import annotations

import asyncio
import functools
import random
from collections.abc import Callable, Coroutine, Iterable, Mapping
from pathlib import Path
from typing import Any, ParamSpec

import yaml

from grove.admission import Context
from grove.admission.authorization import Identities
from grove.api.kinds import POD_CLIQUE_SETS, POD_CLIQUES, POD_GANGS, PODS, SCALING_GROUPS
from grove.api.pod_clique_set import PodCliqueSet
from grove.apps.engine import Engine
from grove.config import OperatorConfiguration
from grove.runtime import errors, requests
from grove.runtime.client import Client
from grove.runtime.resource import Resource
from grove.testing import ApiServer, SimClock, simulate
from grove.testing.admission import Handler, Webhook
from grove.testing.cluster import Cluster
from grove.testing.faults import Faults, FaultyTransport
from grove.testing.kinds import Resource as ServedResource
from grove.testing.kinds import resources_from_crd
from grove.testing.kubelet import PodBehaviour
from grove.testing.process import supervise
from grove.testing.requests import LogEntry
from grove.testing.waiting import quiet, until
from grove.webhooks.handlers import Surroundings
from grove.webhooks.router import Router

Json = dict[str, Any]
P = ParamSpec("P")

OPERATOR = "system:serviceaccount:grove-system:grove-operator"
NAMESPACE = "default"
ROOT = Path(__file__).parents[2]
POD_GROUP_DEFINITION: Json = {
    "metadata": {"name": "podgroups.scheduling.run.ai"},
    "kind": "CustomResourceDefinition",
    "spec": {
        "group": "scheduling.run.ai",
        "scope": "Namespaced",
        "names": {"plural": "podgroups", "kind": "PodGroup"},
        "versions": [{"name": "v2alpha2", "served": True, "storage": True, "subresources": {"status": {}}}],
    },
}


def simulated(story: Callable[P, Coroutine[Any, Any, None]]) -> Callable[P, None]:
    """Turns an async test into one that runs in simulated time."""

    @functools.wraps(story)
    def run(*args: P.args, **kwargs: P.kwargs) -> None:
        simulate(story(*args, **kwargs), limit=30 * 24 * 3600)

    return run


@functools.cache
def documents(path: str) -> tuple[Json, ...]:
    """The documents of a file of this repository."""
    return tuple(yaml.load_all((ROOT / path).read_text(), yaml.CSafeLoader))


@functools.cache
def definitions() -> tuple[ServedResource, ...]:
    """Our kinds and KAI's PodGroup, compiled once for all servers."""
    files = sorted((ROOT / "deploy/crds").glob("*.yaml"))
    crds = [crd for file in files for crd in documents(str(file.relative_to(ROOT)))]
    return tuple(resource for crd in (*crds, POD_GROUP_DEFINITION) for resource in resources_from_crd(crd))


@functools.cache
def operator_rules() -> tuple[Json, ...]:
    """What the operator's ClusterRole allows."""
    roles = [d for d in documents("deploy/rbac/operator.yaml") if d["kind"] == "ClusterRole"]
    return tuple(rule for role in roles for rule in role["rules"])


class OperatorProcess:
    """One operator: it runs until killed, and starts again after each crash its faults ask for."""

    def __init__(self, simulation: Simulation, faults: Faults, seed: int) -> None:
        self.engine: Engine | None = None
        self._configuration = simulation.configuration
        self._transport = FaultyTransport(
            simulation.server.transport(OPERATOR, rules=operator_rules()), faults, random.Random(seed)
        )
        self._pause = (0.0, 3.0)
        self._task = asyncio.create_task(supervise(self._live, self._transport, pause=self._pause))

    async def _live(self, transport: FaultyTransport) -> None:
        self._transport = transport
        rng = transport.rng
        client = Client(transport, rng=rng)
        engine = self.engine = Engine(client, self._configuration, SimClock())
        # Jitter comes from the seed too, so that a failing run can be repeated.
        engine.workload.queue._rng = rng
        async with asyncio.TaskGroup() as group:
            group.create_task(engine.watch(rng=rng))
            group.create_task(engine.control())

    def crash(self) -> None:
        """Dies between two steps and comes back in a moment."""
        self._transport.crashed.set()

    async def stop(self) -> None:
        """Dies and stays dead."""
        self._transport.crashed.set()
        self._task.cancel()
        await asyncio.gather(self._task, return_exceptions=True)

    @property
    def waiting(self) -> bool:
        """Whether it is about to look at something again, by itself."""
        queue = self.engine.workload.queue if self.engine else None
        return queue is None or not queue.idle or bool(queue._timers)

    @property
    def writes(self) -> int:
        """How many writes it has attempted, over all its lives."""
        return self._transport.writes

    @property
    def failed(self) -> bool:
        """Whether it ended without being told to."""
        return self._task.done()


class Simulation:
    """A cluster with operators in it. Make it inside the loop."""

    def __init__(
        self,
        *,
        seed: int = 0,
        nodes: int = 8,
        webhooks: bool = True,
        behaviour: PodBehaviour | None = None,
        configuration: OperatorConfiguration | None = None,
    ) -> None:
        self.configuration = configuration or OperatorConfiguration()
        self.server = ApiServer(seed=seed)
        for resource in definitions():
            self.server.state.registry.add(resource)
        if webhooks:
            self._serve_webhooks()
        self.cluster = Cluster(self.server, seed=seed, behaviour=behaviour)
        self.cluster.add_nodes(nodes)
        self.people = People(self.server)
        self.operators: list[OperatorProcess] = []

    def start_operator(self, faults: Faults | None = None, seed: int = 0) -> OperatorProcess:
        operator = OperatorProcess(self, faults or Faults(), seed)
        self.operators.append(operator)
        return operator

    def add_pod_webhook(self, handler: Handler, *, mutating: bool = False) -> None:
        """Another program's word on every new pod; taken back by `remove_webhook("pods.example.com")`."""
        rules = [{"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["pods"]}]
        self.server.add_webhook(Webhook("pods.example.com", handler, mutating, rules))

    def _serve_webhooks(self) -> None:
        context = Context.of(self.configuration, compute_domains_served=False)

        async def minimum(resource: str, namespace: str, name: str) -> int | None:
            kind = "PodClique" if resource == POD_CLIQUES.plural else "PodCliqueScalingGroup"
            found = self.server.object("grove.io/v1alpha1", kind, name, namespace)
            return found["spec"]["minAvailable"] if found else None

        async def owner(namespace: str, name: str) -> PodCliqueSet | None:
            return None

        router = Router(Surroundings(lambda: context, Identities(OPERATOR), minimum, owner))
        handlers = {path: router.responder(path) for path in router.handlers}
        for configuration in documents("deploy/webhooks.yaml"):
            self.server.add_webhook_configuration(configuration, handlers)

    # Time.

    async def settle(self, seconds: float = 30.0, *, within: float = 7200.0) -> None:
        """Until nothing has changed for a while. An operator that ended by itself fails the test."""
        await quiet(self.server, seconds, within=within)
        assert not any(operator.failed for operator in self.operators), "an operator ended by itself"

    async def rest(self, seconds: float, *, within: float = 7200.0) -> None:
        """Until nothing has changed for a while and no operator waits for a time of its own choosing."""
        async with asyncio.timeout(within):
            await self.settle(seconds)
            while any(operator.waiting for operator in self.operators):
                await self.settle(seconds)

    async def until(self, holds: Callable[[], bool], *, within: float = 600.0) -> None:
        await until(self.server, holds, within=within)

    # Looking.

    def objects(self, resource: Resource[Any], namespace: str = NAMESPACE) -> dict[str, Json]:
        """The stored objects of a kind, by name."""
        found = self.server.objects(resource.api_version, resource.kind, namespace)
        return {item["metadata"]["name"]: item for item in found}

    def object(self, resource: Resource[Any], name: str, namespace: str = NAMESPACE) -> Json:
        return self.objects(resource, namespace)[name]

    def pods(self, namespace: str = NAMESPACE) -> dict[str, Json]:
        return self.objects(PODS, namespace)

    def ready_pods(self) -> set[str]:
        return {name for name, pod in self.pods().items() if is_ready(pod)}

    def images(self) -> dict[str, str]:
        """What each pod that stays runs."""
        return {name: image_of(pod) for name, pod in self.pods().items() if not is_leaving(pod)}

    def status(self, name: str) -> Json:
        found: Json = self.object(POD_CLIQUE_SETS, name).get("status", {})
        return found

    def condition(self, resource: Resource[Any], name: str, kind: str) -> Json:
        conditions = self.object(resource, name)["status"]["conditions"]
        return next(c for c in conditions if c["type"] == kind)

    def writes(self) -> list[LogEntry]:
        """What the operators have written since the log was cleared."""
        return self.server.log.writes(OPERATOR)

    def write_counts(self) -> dict[str, int]:
        """The operators' writes by verb and resource."""
        counted: dict[str, int] = {}
        for entry in self.writes():
            what = f"{entry.verb} {entry.resource}" + (f"/{entry.subresource}" if entry.subresource else "")
            counted[what] = counted.get(what, 0) + 1
        return counted

    def managed(self, set_name: str, namespace: str = NAMESPACE) -> set[str]:
        """Everything that belongs to a set, as `Kind/name`."""
        found = set()
        for table in self.server.storage.tables():
            for stored in table.sorted(namespace):
                marks = stored.obj["metadata"].get("labels") or {}
                if marks.get("app.kubernetes.io/part-of") == set_name:
                    found.add(f"{stored.obj['kind']}/{stored.obj['metadata']['name']}")
        return found


class People:
    """What a person does with kubectl, as cluster administrator."""

    def __init__(self, server: ApiServer) -> None:
        self.client = Client(server.transport(), field_manager="kubectl")

    async def create(self, document: Json) -> Json:
        created = await self.client.send(requests.create(_untyped(document["kind"]), document))
        return dict(created)

    async def patch(self, resource: Resource[Any], name: str, patch: Json, namespace: str = NAMESPACE) -> None:
        await self.client.send(requests.merge_patch(resource, namespace, name, patch))

    async def edit(self, resource: Resource[Any], name: str, *operations: Json) -> None:
        await self.client.send(requests.json_patch(resource, NAMESPACE, name, list(operations)))

    async def scale(self, resource: Resource[Any], name: str, replicas: int) -> None:
        await self.client.send(requests.set_scale(resource, NAMESPACE, name, replicas))

    async def delete(self, resource: Resource[Any], name: str, namespace: str = NAMESPACE) -> None:
        try:
            await self.client.delete(resource, namespace, name)
        except errors.NotFound:
            return

    async def delete_pod(self, name: str) -> None:
        await self.delete(PODS, name)

    async def set_image(self, name: str, image: str, *, clique: int = 0) -> None:
        path = f"/spec/template/cliques/{clique}/spec/podSpec/containers/0/image"
        await self.edit(POD_CLIQUE_SETS, name, {"op": "replace", "path": path, "value": image})

    async def set_strategy(self, name: str, **strategy: Any) -> None:
        await self.edit(POD_CLIQUE_SETS, name, {"op": "add", "path": "/spec/updateStrategy", "value": strategy})


_KINDS = {r.kind: r for r in (POD_CLIQUE_SETS, POD_CLIQUES, SCALING_GROUPS, POD_GANGS, PODS)}


def _untyped(kind: str) -> Resource[Any]:
    known = {
        "Service": Resource("", "v1", "services", "Service", dict),
        "Namespace": Resource("", "v1", "namespaces", "Namespace", dict, namespaced=False),
    }
    return known.get(kind) or _KINDS[kind].with_model(dict)


# Objects.


def clique(name: str, replicas: int, minimum: int | None = None, **more: Any) -> Json:
    """A clique template; `image`, `strategy`, `after`, `autoscaling`, `scheduler` and `pod` vary it."""
    pod: Json = {"containers": [{"name": "main", "image": more.get("image", "app:1")}], **more.get("pod", {})}
    if "scheduler" in more:
        pod["schedulerName"] = more["scheduler"]
    spec: Json = {"roleName": name, "replicas": replicas, "podSpec": pod}
    if minimum is not None:
        spec["minAvailable"] = minimum
    if "after" in more:
        spec["startsAfter"] = more["after"]
    if "autoscaling" in more:
        spec["autoScalingConfig"] = more["autoscaling"]
    found: Json = {"name": name, "spec": spec}
    if "strategy" in more:
        found["updateStrategy"] = more["strategy"]
    return found


def group(name: str, members: Iterable[str], replicas: int, minimum: int = 1, **more: Any) -> Json:
    """A scaling group; `more` is written as it is."""
    return {"name": name, "cliqueNames": list(members), "replicas": replicas, "minAvailable": minimum, **more}


def workload(name: str, replicas: int, cliques: Iterable[Json], groups: Iterable[Json] = (), **more: Any) -> Json:
    """A PodCliqueSet; `strategy` is its updateStrategy, everything else goes into the template."""
    strategy = more.pop("strategy", None)
    template: Json = {"cliques": list(cliques), **more}
    if groups:
        template["podCliqueScalingGroups"] = list(groups)
    spec: Json = {"replicas": replicas, "template": template}
    if strategy:
        spec["updateStrategy"] = strategy
    return {
        "apiVersion": "grove.io/v1alpha1",
        "kind": "PodCliqueSet",
        "metadata": {"name": name, "namespace": NAMESPACE},
        "spec": spec,
    }


def example(name: str) -> Json:
    """A PodCliqueSet of examples/workloads."""
    (document,) = documents(f"examples/workloads/{name}.yaml")
    return {**document, "metadata": {**document["metadata"], "namespace": NAMESPACE}}


def is_leaving(item: Json) -> bool:
    return "deletionTimestamp" in item["metadata"]


def is_ready(pod: Json) -> bool:
    conditions: Iterable[Mapping[str, str]] = pod.get("status", {}).get("conditions") or ()
    return not is_leaving(pod) and any(c["type"] == "Ready" and c["status"] == "True" for c in conditions)


def image_of(pod: Json) -> str:
    return str(pod["spec"]["containers"][0]["image"])


def gates(pod: Json) -> list[str]:
    return [gate["name"] for gate in pod["spec"].get("schedulingGates") or ()]
