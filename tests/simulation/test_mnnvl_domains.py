"""Multi-node NVLink in simulated time: domains and claims come, move, stay and go with their PodGangs."""

from __future__ import annotations

import asyncio

import pytest
from mnnvl_harness import MnnvlSimulation, asks, gpu_clique, mix, of_replica, uids
from operator_harness import (
    NAMESPACE,
    Json,
    clique,
    group,
    simulated,
    workload,
)

from grove.api import labels
from grove.api.devices import COMPUTE_DOMAINS, RESOURCE_CLAIM_TEMPLATES, RESOURCE_CLAIMS
from grove.api.kinds import POD_CLIQUE_SETS, POD_CLIQUES, POD_GANGS, PODS, SCALING_GROUPS
from grove.runtime import errors, requests
from grove.runtime.resource import Resource
from grove.testing.faults import Faults
from grove.testing.kubelet import PodBehaviour
from grove.testing.storage import Change, Table

DEFINITIONS = Resource(
    "apiextensions.k8s.io", "v1", "customresourcedefinitions", "CustomResourceDefinition", dict, False
)


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
    async def test_a_driver_that_is_installed_anew_finds_its_domains_again(self) -> None:
        simulation = MnnvlSimulation()
        simulation.start_operator()
        await simulation.people.create(mix())
        await simulation.settle()
        await simulation.people.client.delete(DEFINITIONS, None, "computedomains.resource.nvidia.com")
        await asyncio.sleep(600)
        assert all("ComputeDomain" not in item for item in simulation.devices())
        simulation.violations.clear()
        simulation.install_driver()
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
