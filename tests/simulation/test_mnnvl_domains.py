"""Multi-node NVLink in simulated time: domains and claims come, move, stay and go with their PodGangs.

Webhooks run as processes of their own that can die at each of their writes, the operator at each of its; the garbage
collector acts all the while. Two things are looked at with every change: no domain or claim goes while pods run on
purpose that use it, and none is ever given an owner that does not exist.
"""

from __future__ import annotations

import asyncio
import itertools
import random
from typing import Any

import pytest
from operator_harness import (
    NAMESPACE,
    OPERATOR,
    Json,
    Simulation,
    clique,
    documents,
    group,
    is_leaving,
    operator_rules,
    simulated,
    workload,
)

from grove.admission import Context
from grove.admission.authorization import Identities
from grove.api import labels
from grove.api.devices import COMPUTE_DOMAINS, RESOURCE_CLAIM_TEMPLATES, RESOURCE_CLAIMS
from grove.api.kinds import POD_CLIQUE_SETS, POD_CLIQUES, POD_GANGS, PODS, SCALING_GROUPS
from grove.config import parse
from grove.plan.mnnvl import Apis
from grove.runtime import errors, requests
from grove.runtime.client import Client
from grove.runtime.resource import Resource
from grove.testing import simulate
from grove.testing.faults import Faults, FaultyTransport, ProcessCrash
from grove.testing.kubelet import PodBehaviour
from grove.testing.storage import Change, Table
from grove.webhooks.handlers import Surroundings
from grove.webhooks.mnnvl import MnnvlWebhooks
from grove.webhooks.router import Router

CRD = "tests/data/computedomains.yaml"
DEVICES: tuple[Resource[Any], ...] = (COMPUTE_DOMAINS, RESOURCE_CLAIMS, RESOURCE_CLAIM_TEMPLATES)
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
        if kind not in {resource.kind for resource in DEVICES}:
            return
        name = change.stored.obj["metadata"]["name"]
        if change.kind == "DELETED":
            stem = name.removesuffix("-cd").removesuffix("-mnnvl-claim")
            users = [pod for pod in self.pods().values() if self._uses(pod, f"{stem}-mnnvl-claim")]
            self.violations += [f"{kind} {name} went under {pod['metadata']['name']}" for pod in users]
            return
        for owner in change.stored.obj["metadata"].get("ownerReferences", ()):
            if owner.get("controller") and self.server.storage.by_uid(owner["uid"]) is None:
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


class TestLifeOfADomain:
    @simulated
    async def test_each_scope_has_its_domains_and_each_gang_owns_its_own(self) -> None:
        simulation = MnnvlSimulation()
        simulation.start_operator()
        await simulation.people.create(mix())
        await simulation.settle()
        simulation.owned(**of_replica(0))
        assert simulation.claims_of("mix-0-lead") == (
            [{"name": "mnnvl", "resourceClaimName": "mix-0-mnnvl-claim"}],
            {"main": [{"name": "mnnvl"}]},
        )
        assert simulation.claims_of("mix-0-plain") == (None, {"main": None})
        pod = simulation.pods()["mix-0-pool-1-member-0"]
        assert pod["spec"]["resourceClaims"] == [{"name": "mnnvl", "resourceClaimName": "mix-0-pool-1-mnnvl-claim"}]
        assert simulation.ready_pods() == set(simulation.pods())
        for gang in simulation.objects(POD_GANGS).values():
            assert gang["metadata"]["annotations"][labels.MNNVL_ENABLED] == "true"

    @simulated
    async def test_a_gang_that_shares_the_domain_of_its_base_is_nobodys_owner(self) -> None:
        """Its creation need not go through the webhook."""
        simulation = MnnvlSimulation()
        simulation.start_operator()
        document = workload("mix", 1, [gpu_clique("member")], [group("pool", ["member"], 2, 1)])
        document["metadata"]["annotations"] = asks("replica")
        await simulation.people.create(document)
        await simulation.settle()
        simulation.owned(**{"mix-0": ["mix-0"]})
        assert labels.MNNVL_ENABLED not in simulation.object(POD_GANGS, "mix-0-pool-1")["metadata"]["annotations"]

    @simulated
    async def test_domains_come_with_scaling_out_and_go_with_scaling_in(self) -> None:
        simulation = MnnvlSimulation()
        simulation.start_operator()
        await simulation.people.create(mix())
        await simulation.settle()
        await simulation.people.scale(POD_CLIQUE_SETS, "mix", 2)
        await simulation.people.scale(SCALING_GROUPS, "mix-0-pool", 3)
        await simulation.settle()
        simulation.owned(**of_replica(0, pool=3), **of_replica(1))
        await simulation.people.scale(SCALING_GROUPS, "mix-0-pool", 1)
        await simulation.people.scale(POD_CLIQUE_SETS, "mix", 1)
        await simulation.settle()
        simulation.owned(**of_replica(0, pool=1))
        await simulation.people.delete(POD_CLIQUE_SETS, "mix")
        await simulation.settle()
        assert simulation.devices() == {}
        assert simulation.managed("mix") == set()
        simulation.sound()

    @simulated
    async def test_updates_keep_domains_and_claims(self) -> None:
        for strategy in ("RollingRecreate", "ReplicaRecreate", "OnDelete"):
            simulation = MnnvlSimulation()
            simulation.start_operator()
            await simulation.people.create(mix(strategy={"type": strategy}))
            await simulation.settle()
            before = uids(simulation.objects(COMPUTE_DOMAINS))
            for position in range(3):
                await simulation.people.set_image("mix", "app:2", clique=position)
            await simulation.settle()
            for pod in list(simulation.pods()) if strategy == "OnDelete" else ():
                await simulation.people.delete(PODS, pod)
            await simulation.settle()
            simulation.owned(**of_replica(0))
            assert uids(simulation.objects(COMPUTE_DOMAINS)) == before, strategy
            for name in ("lead", "solo", "pool-0-member"):
                pods = [p for n, p in simulation.pods().items() if n.startswith(f"mix-0-{name}")]
                assert {p["spec"]["containers"][0]["image"] for p in pods} == {"app:2"}, strategy
                assert all(p["spec"]["resourceClaims"][0]["name"] == "mnnvl" for p in pods), strategy

    @simulated
    async def test_a_gang_that_is_recreated_keeps_domains_and_claims(self) -> None:
        simulation = MnnvlSimulation()
        simulation.start_operator()
        await simulation.people.create(mix(terminationDelay="10m"))
        await simulation.settle()
        domains, pods = uids(simulation.objects(COMPUTE_DOMAINS)), uids(simulation.pods())
        broken = pods["mix-0-lead-0"]
        simulation.cluster.behave = lambda pod: PodBehaviour(never_ready=pod["metadata"]["uid"] == broken)
        simulation.cluster.set_ready(NAMESPACE, "mix-0-lead-0", False)
        await asyncio.sleep(900)
        await simulation.settle()
        assert not pods.items() & uids(simulation.pods()).items(), "the gang was not recreated"
        assert uids(simulation.objects(COMPUTE_DOMAINS)) == domains
        simulation.owned(**of_replica(0))
        assert simulation.ready_pods() == set(simulation.pods())
        for pod in simulation.pods().values():
            assert ("resourceClaims" in pod["spec"]) != ("-plain-" in pod["metadata"]["name"])

    @simulated
    async def test_at_rest_nothing_is_written(self) -> None:
        simulation = MnnvlSimulation()
        simulation.start_operator()
        await simulation.people.create(mix())
        await simulation.settle()
        simulation.server.log.clear()
        await asyncio.sleep(1800)
        assert simulation.write_counts() == {}

    @simulated
    async def test_a_deleted_domain_or_claim_is_made_again(self) -> None:
        simulation = MnnvlSimulation()
        simulation.start_operator()
        await simulation.people.create(mix())
        await simulation.settle()
        await simulation.people.delete(COMPUTE_DOMAINS, "mix-0-cd")
        await simulation.people.delete(RESOURCE_CLAIMS, "mix-0-pool-1-mnnvl-claim")
        simulation.violations.clear()
        await simulation.settle()
        simulation.owned(**of_replica(0))

    @simulated
    async def test_a_replaced_gang_takes_its_domains_back(self) -> None:
        simulation = MnnvlSimulation()
        simulation.start_operator()
        await simulation.people.create(mix())
        await simulation.settle()
        await simulation.people.delete(POD_GANGS, "mix-0")
        await simulation.settle()
        simulation.violations.clear()
        simulation.owned(**of_replica(0))
        uid = simulation.object(POD_GANGS, "mix-0")["metadata"]["uid"]
        (owner,) = simulation.object(COMPUTE_DOMAINS, "mix-0-cd")["metadata"]["ownerReferences"]
        assert (owner["uid"], owner["controller"]) == (uid, True)

    @simulated
    async def test_a_claim_for_each_pod_comes_from_a_template(self) -> None:
        simulation = MnnvlSimulation(claims="perPod")
        simulation.start_operator()
        await simulation.people.create(mix())
        await simulation.settle()
        assert simulation.objects(RESOURCE_CLAIMS) == {}
        assert set(simulation.objects(RESOURCE_CLAIM_TEMPLATES)) == {
            f"{stem}-mnnvl-claim" for stems in of_replica(0).values() for stem in stems
        }
        assert set(simulation.devices().values()) == {"PodGang/mix-0", "PodGang/mix-0-pool-1"}
        claims, _ = simulation.claims_of("mix-0-solo")
        assert claims == [{"name": "mnnvl", "resourceClaimTemplateName": "mix-0-solo-mnnvl-claim"}]

    @simulated
    async def test_two_webhooks_at_once_make_one_of_each(self) -> None:
        simulation = MnnvlSimulation(replicas=2, faults=Faults(latency=(0.0, 0.5)))
        simulation.start_operator()
        document = mix()
        document["spec"]["template"]["cliques"] += [gpu_clique(f"more-{n}") for n in range(6)]
        await simulation.people.create(document)
        await simulation.settle()
        simulation.owned(**of_replica(0))
        refused = [e for e in simulation.server.log.entries if e.code == 409 and e.resource == "computedomains"]
        assert refused, "nobody was second: the race was not run"

    @simulated
    async def test_scaled_gangs_keep_what_the_whole_replica_shares(self) -> None:
        """The base gang goes last, because pods of scaled gangs may still use its domain."""
        simulation = MnnvlSimulation()
        simulation.start_operator()
        document = mix(2)
        document["spec"]["template"]["podCliqueScalingGroups"][0]["annotations"] = asks("replica")
        await simulation.people.create(document)
        await simulation.settle()
        simulation.owned(**{f"mix-{i}": [f"mix-{i}", f"mix-{i}-solo"] for i in range(2)})
        gone: list[str] = []

        def note(_: Table, change: Change) -> None:
            if change.kind == "DELETED" and change.stored.obj["kind"] in ("Pod", "ComputeDomain"):
                gone.append(change.stored.obj["metadata"]["name"])

        simulation.server.storage.listeners.append(note)
        await simulation.people.scale(POD_CLIQUE_SETS, "mix", 1)
        await simulation.settle()
        assert set(gone[-2:]) == {"mix-1-cd", "mix-1-solo-cd"}
        assert "mix-1-pool-1-member-0" in gone


class TestRefusals:
    @simulated
    async def test_a_dry_run_leaves_nothing(self) -> None:
        simulation = MnnvlSimulation()
        simulation.start_operator()
        await simulation.people.create(mix(0))
        await simulation.settle()
        owner = simulation.object(POD_CLIQUE_SETS, "mix")["metadata"]
        document = pod_clique(owner["uid"])
        tried = await simulation.people.client.send(
            requests.create(POD_CLIQUES.with_model(dict), document, dry_run=True)
        )
        assert tried["spec"]["podSpec"]["resourceClaims"][0]["resourceClaimName"] == "mix-0-mnnvl-claim"
        await simulation.settle()
        assert simulation.devices() == {}
        assert simulation.objects(POD_CLIQUES) == {}

    @simulated
    async def test_a_clique_without_a_set_is_refused(self) -> None:
        simulation = MnnvlSimulation()
        with pytest.raises(errors.Forbidden, match="PodCliqueSet 'mix' does not exist"):
            await simulation.people.client.send(requests.create(POD_CLIQUES, pod_clique("gone")))
        await simulation.people.create(mix(0))
        with pytest.raises(errors.Forbidden, match="belongs to an earlier PodCliqueSet 'mix'"):
            await simulation.people.client.send(requests.create(POD_CLIQUES, pod_clique("gone")))
        assert simulation.devices() == {}

    @simulated
    async def test_a_domain_of_somebody_else_is_not_used(self) -> None:
        simulation = MnnvlSimulation()
        simulation.start_operator()
        body = {"metadata": {"name": "mix-0-cd", "namespace": NAMESPACE}, "spec": {"numNodes": 4}}
        await simulation.people.client.send(requests.create(COMPUTE_DOMAINS, body))
        await simulation.people.create(mix())
        await asyncio.sleep(120)
        stored = simulation.object(COMPUTE_DOMAINS, "mix-0-cd")
        assert stored["spec"] == {"numNodes": 4}
        assert "ownerReferences" not in stored["metadata"]
        assert "mix-0-lead" not in simulation.objects(POD_CLIQUES)
        assert "mix-0-mnnvl-claim" not in simulation.objects(RESOURCE_CLAIMS)
        told = " ".join(error["description"] for error in simulation.status("mix").get("lastErrors", ()))
        assert "ComputeDomain default/mix-0-cd exists and cannot be used: it is not ours" in told
        # Once it is out of the way the workload comes up by itself.
        await simulation.people.delete(COMPUTE_DOMAINS, "mix-0-cd")
        await simulation.settle(120)  # the refused write is tried again within a minute
        simulation.owned(**of_replica(0))

    @simulated
    async def test_without_the_driver_the_workload_is_refused_until_it_is_installed(self) -> None:
        simulation = MnnvlSimulation(driver=False)
        simulation.start_operator()
        with pytest.raises(errors.Invalid, match="has no ComputeDomain resource"):
            await simulation.people.create(mix())
        plain = workload("mix", 1, [clique("plain", 1)])
        await simulation.people.create(plain)
        await simulation.settle()
        assert simulation.ready_pods() == {"mix-0-plain-0"}
        await simulation.people.delete(POD_CLIQUE_SETS, "mix")
        await simulation.settle()
        simulation.install_driver()
        await simulation.people.create(mix())
        await simulation.settle()
        simulation.owned(**of_replica(0))

    @simulated
    async def test_cliques_without_gpus_get_no_domain(self) -> None:
        simulation = MnnvlSimulation()
        simulation.start_operator()
        document = workload("mix", 1, [clique("plain", 2)])
        document["metadata"]["annotations"] = asks("replica")
        await simulation.people.create(document)
        await simulation.settle()
        assert simulation.devices() == {}
        annotations = simulation.object(POD_GANGS, "mix-0")["metadata"].get("annotations", {})
        assert not {labels.MNNVL_ADOPTED, labels.MNNVL_ENABLED} & set(annotations)
        assert len(simulation.ready_pods()) == 2

    @simulated
    async def test_another_device_class_for_a_shared_domain_is_refused(self) -> None:
        simulation = MnnvlSimulation()
        simulation.start_operator()
        await simulation.people.create(mix())
        await simulation.settle()
        uid = simulation.object(POD_CLIQUE_SETS, "mix")["metadata"]["uid"]
        document = pod_clique(uid, **{labels.MNNVL_DEVICE_CLASS: "other"})
        with pytest.raises(errors.Forbidden, match="not 'other'"):
            await simulation.people.client.send(requests.create(POD_CLIQUES, document))


def pod_clique(set_uid: str, **annotations: str) -> Json:
    """A PodClique of `mix`, as the operator would write it."""
    marks = {labels.SHORT_SET: "mix", labels.SHORT_REPLICA: "0", labels.POD_GANG: "mix-0", labels.SHORT_CLIQUE: "x"}
    owner = {"apiVersion": "grove.io/v1alpha1", "kind": "PodCliqueSet", "name": "mix", "uid": set_uid}
    return {
        "metadata": {
            "name": "mix-0-x",
            "namespace": NAMESPACE,
            "labels": marks,
            "annotations": asks("replica", **annotations),
            "ownerReferences": [{**owner, "controller": True}],
        },
        "spec": {**gpu_clique("x")["spec"], "minAvailable": 1},
    }


# Deaths.


async def story(simulation: MnnvlSimulation) -> None:
    """A life with everything in it; whatever dies on the way, each rest is the same."""
    await simulation.people.create(mix())
    await simulation.settle()
    simulation.owned(**of_replica(0))
    await simulation.people.scale(POD_CLIQUE_SETS, "mix", 2)
    await simulation.settle()
    simulation.owned(**of_replica(0), **of_replica(1))
    await simulation.people.scale(POD_CLIQUE_SETS, "mix", 1)
    await simulation.settle()
    simulation.owned(**of_replica(0))
    simulation.sound()
    await simulation.people.delete(POD_CLIQUE_SETS, "mix")
    await simulation.settle()
    assert simulation.devices() == {}
    assert simulation.managed("mix") == set()


def crashes(number: int, *, after: bool) -> Faults:
    point = frozenset({number})
    return Faults(crash_after_write=point) if after else Faults(crash_before_write=point)


WEBHOOK_WRITES = 16  # four domains and four claims for each of two replicas


@pytest.mark.campaign
class TestDeaths:
    @pytest.mark.parametrize("after", [False, True], ids=["before", "after"])
    def test_the_webhook_dies_at_any_of_its_writes(self, after: bool) -> None:
        async def run(number: int) -> None:
            simulation = MnnvlSimulation(faults=crashes(number, after=after))
            operator = simulation.start_operator()
            await story(simulation)
            assert simulation.webhooks[0].transport.writes >= WEBHOOK_WRITES
            await operator.stop()

        for number in range(1, WEBHOOK_WRITES + 1):
            simulate(run(number), limit=30 * 24 * 3600)

    @pytest.mark.parametrize("first", [0, 1], ids=["even", "odd"])
    def test_the_operator_dies_at_any_of_its_writes(self, first: int) -> None:
        """Even writes took effect, odd ones did not: what follows one write is what comes before the next."""

        async def run(number: int) -> int:
            simulation = MnnvlSimulation()
            operator = simulation.start_operator(crashes(number, after=number % 2 == 0))
            await story(simulation)
            await operator.stop()
            return operator.writes

        number, writes = 2 - first, 2
        while number <= writes:
            writes = simulate(run(number), limit=30 * 24 * 3600)
            number += 2
        assert writes > 50

    @pytest.mark.parametrize("number", range(WEBHOOK_WRITES // 2 + 1, WEBHOOK_WRITES + 1))
    def test_what_is_made_for_a_replica_given_up_meanwhile_goes(self, number: int) -> None:
        """The webhook and the operator die together, before a PodGang came for what was made so far."""

        async def run() -> None:
            simulation = MnnvlSimulation(faults=crashes(number, after=True))
            operator = simulation.start_operator()
            await simulation.people.create(mix())
            await simulation.settle()
            await simulation.people.scale(POD_CLIQUE_SETS, "mix", 2)
            await simulation.until(lambda: simulation.webhooks[0].transport.crashed.is_set())
            operator.crash()
            assert any("/mix-1" in item for item in simulation.devices())
            await simulation.people.scale(POD_CLIQUE_SETS, "mix", 1)
            await simulation.settle()
            simulation.owned(**of_replica(0))
            await simulation.people.scale(POD_CLIQUE_SETS, "mix", 2)
            await simulation.settle()
            simulation.owned(**of_replica(0), **of_replica(1))

        simulate(run(), limit=30 * 24 * 3600)

    @simulated
    async def test_what_is_made_for_a_group_replica_given_up_meanwhile_goes(self) -> None:
        simulation = MnnvlSimulation(faults=crashes(WEBHOOK_WRITES // 2 + 1, after=True))
        operator = simulation.start_operator()
        await simulation.people.create(mix())
        await simulation.settle()
        await simulation.people.scale(SCALING_GROUPS, "mix-0-pool", 3)
        await simulation.until(lambda: simulation.webhooks[0].transport.crashed.is_set())
        operator.crash()
        assert "ComputeDomain/mix-0-pool-2-cd" in simulation.devices()
        await simulation.people.scale(SCALING_GROUPS, "mix-0-pool", 2)
        await simulation.settle()
        simulation.owned(**of_replica(0))

    @simulated
    async def test_what_waits_for_its_gang_stays_while_its_replica_is_asked_for(self) -> None:
        """Only the operator is away: what the webhook has made is found again, not made anew."""
        simulation = MnnvlSimulation()
        operator = simulation.start_operator(crashes(6, after=False))
        await simulation.people.create(mix())
        await simulation.until(lambda: bool(simulation.objects(COMPUTE_DOMAINS)))
        before = uids(simulation.objects(COMPUTE_DOMAINS))
        operator.crash()
        await simulation.settle()
        simulation.owned(**of_replica(0))
        assert before.items() <= uids(simulation.objects(COMPUTE_DOMAINS)).items()
