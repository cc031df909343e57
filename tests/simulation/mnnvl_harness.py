"""The operator with MNNVL switched on: webhooks as processes of their own that can die at each of their writes.

Two things are looked at with every change: no domain or claim goes while pods run on purpose that use it, and none is
ever given an owner that is known to be gone.
"""

from __future__ import annotations

import asyncio
import itertools
import random
from typing import Any

from operator_harness import (
    OPERATOR,
    Json,
    Simulation,
    clique,
    documents,
    group,
    is_leaving,
    operator_rules,
    workload,
)

from grove.admission import Context
from grove.admission.authorization import Identities
from grove.api import labels
from grove.api.devices import COMPUTE_DOMAINS, RESOURCE_CLAIM_TEMPLATES, RESOURCE_CLAIMS
from grove.api.kinds import POD_CLIQUE_SETS, POD_CLIQUES, POD_GANGS
from grove.config import parse
from grove.plan.mnnvl import Apis
from grove.runtime.client import Client
from grove.runtime.resource import Resource
from grove.testing.faults import Faults, FaultyTransport, ProcessCrash
from grove.testing.storage import Change, Table
from grove.webhooks.handlers import Surroundings
from grove.webhooks.mnnvl import MnnvlWebhooks
from grove.webhooks.router import Router

CRD = "tests/data/computedomains.yaml"
DEVICES: tuple[Resource[Any], ...] = (COMPUTE_DOMAINS, RESOURCE_CLAIMS, RESOURCE_CLAIM_TEMPLATES)
NEWS = 1.0  # seconds within which everybody has heard of a deletion; until then two writers may cross
GPUS = {"resources": {"limits": {"nvidia.com/gpu": 1}}}


def configuration(claims: str = "shared") -> Any:
    return parse(
        {
            "apiVersion": "operator.config.grove.io/v1alpha1",
            "kind": "OperatorConfiguration",
            "mnnvl": {"enabled": True, "claims": claims},
        }
    )


class WebhookProcess:
    """One replica of the webhooks; after a crash it is away for a moment."""

    def __init__(self, simulation: MnnvlSimulation, faults: Faults) -> None:
        self._simulation = simulation
        transport = simulation.server.transport(OPERATOR, rules=operator_rules(), agent="webhook")
        self.transport = FaultyTransport(transport, faults, random.Random(0))

    async def answer(self, path: str, request: Json) -> Json:
        transport = self.transport
        if transport.crashed.is_set():
            raise ConnectionError("nobody answers")
        try:
            return await self._router(transport).responder(path)(request)
        except ProcessCrash as crash:
            asyncio.get_running_loop().call_later(2.0, self._restart)
            raise ConnectionError("the connection broke") from crash

    def _restart(self) -> None:
        self.transport = self.transport.restarted()

    def _router(self, transport: FaultyTransport) -> Router:
        simulation = self._simulation

        def context() -> Context:
            return Context.of(simulation.configuration, compute_domains_served=simulation.apis().compute_domains)

        per_pod = simulation.configuration.mnnvl.claims == "perPod"
        webhooks = MnnvlWebhooks(Client(transport, rng=transport.rng), simulation.apis, per_pod)
        return Router(Surroundings(context, Identities(OPERATOR)), webhooks)


class MnnvlSimulation(Simulation):
    """A cluster with the NVIDIA driver's kind, and `replicas` webhook processes that take turns."""

    def __init__(self, *, claims: str = "shared", driver: bool = True, faults: Faults | None = None, replicas: int = 1):
        self._faults = faults or Faults()
        self._replicas = replicas
        super().__init__(nodes=16, configuration=configuration(claims))
        if driver:
            self.install_driver()
        self.violations: list[str] = []
        self._ends: dict[str, float] = {}  # when each object that is gone went, by UID
        self.server.storage.listeners.append(self._judge)

    def install_driver(self) -> None:
        self.server.define(documents(CRD)[0])

    def apis(self) -> Apis:
        served = self.server.state.registry.of_kind(COMPUTE_DOMAINS.api_version, COMPUTE_DOMAINS.kind)
        return Apis(served is not None, "v1")

    def _serve_webhooks(self) -> None:
        processes = [WebhookProcess(self, self._faults) for _ in range(self._replicas)]
        self.webhooks = processes
        turns = itertools.cycle(processes)

        def handler(path: str) -> Any:
            async def respond(request: Json) -> Json:
                return await next(turns).answer(path, request)

            return respond

        paths = Router(Surroundings(Context, Identities(OPERATOR))).handlers
        for document in documents("deploy/webhooks.yaml"):
            self.server.add_webhook_configuration(document, {path: handler(path) for path in paths})

    # Looking.

    def devices(self) -> dict[str, str]:
        """Every domain, claim and template, with its owner."""
        found = {}
        for resource in DEVICES if self.apis().compute_domains else DEVICES[1:]:
            for name, item in self.objects(resource).items():
                (owner,) = item["metadata"]["ownerReferences"]
                found[f"{resource.kind}/{name}"] = f"{owner['kind']}/{owner['name']}"
        return found

    def owned(self, **gangs: list[str]) -> None:
        """Asserts that exactly these domains (by stem) exist, each with its claim, with these PodGangs as owners."""
        expected = {}
        for gang, stems in gangs.items():
            for stem in stems:
                expected[f"ComputeDomain/{stem}-cd"] = f"PodGang/{gang}"
                expected[f"ResourceClaim/{stem}-mnnvl-claim"] = f"PodGang/{gang}"
        assert self.devices() == expected
        stored = self.objects(POD_GANGS)
        for gang in gangs:
            assert stored[gang]["metadata"]["annotations"][labels.MNNVL_ADOPTED] == "true"
        self.sound()

    def sound(self) -> None:
        assert self.violations == []

    def claims_of(self, pod_clique: str) -> tuple[Json, dict[str, list[Json]]]:
        """The claims of a clique's pod spec, and which containers use which."""
        spec = self.object(POD_CLIQUES, pod_clique)["spec"]["podSpec"]
        containers = [*spec.get("initContainers", ()), *spec["containers"]]
        return spec.get("resourceClaims"), {c["name"]: c.get("resources", {}).get("claims") for c in containers}

    # Judging.

    def _judge(self, table: Table, change: Change) -> None:
        kind = change.stored.obj.get("kind")
        now = asyncio.get_running_loop().time()
        if change.kind == "DELETED":
            self._ends[change.stored.obj["metadata"]["uid"]] = now
        if kind not in {resource.kind for resource in DEVICES}:
            return
        name = change.stored.obj["metadata"]["name"]
        if change.kind == "DELETED":
            stem = name.removesuffix("-cd").removesuffix("-mnnvl-claim")
            users = [pod for pod in self.pods().values() if self._uses(pod, f"{stem}-mnnvl-claim")]
            self.violations += [f"{kind} {name} went under {pod['metadata']['name']}" for pod in users]
            return
        for owner in change.stored.obj["metadata"].get("ownerReferences", ()):
            if owner.get("controller") and self._ends.get(owner["uid"], now) < now - NEWS:
                self.violations.append(f"{kind} {name} is given to {owner['kind']} {owner['name']}, which is gone")

    def _uses(self, pod: Json, claim: str) -> bool:
        """Whether a pod that runs on purpose uses this claim."""
        entries = pod["spec"].get("resourceClaims") or ()
        (owner,) = pod["metadata"]["ownerReferences"]
        holder = self.server.storage.by_uid(owner["uid"])
        wanted = not is_leaving(pod) and holder is not None and "mix" in self.objects(POD_CLIQUE_SETS)
        return wanted and any(claim in entry.values() for entry in entries)


def uids(objects: dict[str, Json]) -> dict[str, str]:
    return {name: item["metadata"]["uid"] for name, item in objects.items()}


def asks(scope: str, **more: str) -> dict[str, str]:
    return {labels.MNNVL_ENABLED: "true", labels.MNNVL_SCOPE: scope, **more}


def gpu_clique(name: str, replicas: int = 1, scope: str | None = None) -> Json:
    found = clique(name, replicas, pod={"containers": [{"name": "main", "image": "app:1", **GPUS}]})
    return {**found, "annotations": asks(scope)} if scope else found


def mix(replicas: int = 1, **more: Any) -> Json:
    """All three scopes in one set: the replica's for what says nothing of its own."""
    found = workload(
        "mix",
        replicas,
        [gpu_clique("lead", 2), gpu_clique("solo", scope="clique"), gpu_clique("member"), clique("plain", 1)],
        [group("pool", ["member"], 2, 1, annotations=asks("scalingGroupReplica"))],
        **more,
    )
    found["metadata"]["annotations"] = asks("replica")
    return found


def of_replica(index: int, pool: int = 2) -> dict[str, list[str]]:
    """Which gang of a replica of `mix` owns what."""
    base = f"mix-{index}"
    found = {base: [base, f"{base}-solo", f"{base}-pool-0"]}
    return found | {f"{base}-pool-{j}": [f"{base}-pool-{j}"] for j in range(1, pool)}
