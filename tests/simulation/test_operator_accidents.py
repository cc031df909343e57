"""Refusals, lost nodes, pods that do not end, taken names, deletion: each is told truthfully and ends by itself."""

from __future__ import annotations

import asyncio

from operator_harness import NAMESPACE, Json, Simulation, clique, gates, group, is_leaving, simulated, workload

from grove.api.kinds import CONTROLLER_REVISIONS, POD_CLIQUE_SETS, POD_CLIQUES, POD_GANGS, SERVICES
from grove.runtime.resource import Resource
from grove.testing.admission import Webhook
from grove.testing.kubelet import PodBehaviour

NAMESPACES = Resource("", "v1", "namespaces", "Namespace", dict, namespaced=False)


def _quota(sim: Simulation, limit: int) -> None:
    """No more than `limit` pods are admitted."""

    async def judge(request: Json) -> Json:
        if len(sim.pods()) < limit:
            return {"allowed": True}
        return {"allowed": False, "status": {"code": 403, "reason": "Forbidden", "message": "exceeded quota: pods"}}

    sim.add_pod_webhook(judge)


@simulated
async def test_a_gang_that_quota_cuts_in_two_is_not_started_and_says_why() -> None:
    sim = Simulation()
    sim.start_operator()
    _quota(sim, 2)
    await sim.people.create(workload("w", 1, [clique("a", 3)]))
    await asyncio.sleep(300)
    assert all(gates(pod) == ["grove.io/podgang-pending-creation"] for pod in sim.pods().values())
    assert len(sim.pods()) == 2
    stalled = sim.condition(POD_CLIQUE_SETS, "w", "Stalled")
    assert (stalled["status"], stalled["reason"]) == ("True", "WriteRefused")
    assert "exceeded quota" in stalled["message"]
    assert "exceeded quota" in sim.status("w")["lastErrors"][0]["description"]
    assert "exceeded quota" in sim.object(POD_CLIQUES, "w-0-a")["status"]["lastErrors"][0]["description"]
    assert sim.condition(POD_CLIQUE_SETS, "w", "Ready")["status"] == "False"
    assert sim.condition(POD_GANGS, "w-0", "Initialized")["status"] == "False"

    sim.server.remove_webhook("pods.example.com")
    await sim.settle(90)
    assert len(sim.ready_pods()) == 3
    assert sim.status("w")["lastErrors"] == []
    assert sim.object(POD_CLIQUES, "w-0-a")["status"]["lastErrors"] == []
    assert sim.condition(POD_CLIQUE_SETS, "w", "Stalled")["status"] == "False"
    assert sim.condition(POD_CLIQUE_SETS, "w", "Ready")["status"] == "True"


@simulated
async def test_a_set_whose_history_cannot_be_kept_says_so() -> None:
    sim = Simulation()
    sim.start_operator()

    async def refuse(request: Json) -> Json:
        return {"allowed": False, "status": {"code": 403, "message": "exceeded quota: revisions"}}

    rules = [{"apiGroups": ["apps"], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["*"]}]
    sim.server.add_webhook(Webhook("revisions.example.com", refuse, False, rules))
    await sim.people.create(workload("w", 1, [clique("a", 1)]))
    await asyncio.sleep(60)
    assert "exceeded quota" in sim.condition(POD_CLIQUE_SETS, "w", "Stalled")["message"]
    assert "exceeded quota" in sim.status("w")["lastErrors"][0]["description"]
    sim.server.remove_webhook("revisions.example.com")
    await sim.settle(90)
    assert sim.condition(POD_CLIQUE_SETS, "w", "Stalled")["status"] == "False"
    assert sim.status("w")["lastErrors"] == []
    assert len(sim.ready_pods()) == 1


@simulated
async def test_a_refusal_in_one_replica_stops_no_other() -> None:
    sim = Simulation()
    sim.start_operator()

    async def judge(request: Json) -> Json:
        refused = request["object"]["metadata"]["name"].startswith("w-1-")
        return {"allowed": not refused, "status": {"code": 403, "message": "not here"}}

    sim.add_pod_webhook(judge)
    await sim.people.create(workload("w", 3, [clique("a", 2)]))
    await asyncio.sleep(120)
    assert sim.ready_pods() == {"w-0-a-0", "w-0-a-1", "w-2-a-0", "w-2-a-1"}
    assert sim.status("w")["availableReplicas"] == 2


@simulated
async def test_a_lasting_refusal_is_told_once_and_not_again_and_again() -> None:
    sim = Simulation()
    sim.start_operator()
    _quota(sim, 0)
    await sim.people.create(workload("w", 1, [clique("a", 1)]))
    await asyncio.sleep(300)
    sim.server.log.clear()
    observed = sim.status("w")["lastErrors"]
    await asyncio.sleep(3600)
    assert sim.writes() == []
    assert sim.status("w")["lastErrors"] == observed


@simulated
async def test_pods_of_a_lost_node_come_back_elsewhere_once_they_are_gone() -> None:
    sim = Simulation(nodes=2)
    sim.start_operator()
    await sim.people.create(workload("w", 1, [clique("a", 2)]))
    await sim.settle()
    lost = sim.pods()["w-0-a-0"]["spec"]["nodeName"]
    sim.cluster.lose_node(lost)
    await asyncio.sleep(400)
    assert any(is_leaving(pod) for pod in sim.pods().values()), "nobody on the lost node reports the end of its pods"
    breached = sim.condition(POD_CLIQUES, "w-0-a", "MinAvailableBreached")
    assert breached["status"] == "True"
    assert sim.object(POD_CLIQUES, "w-0-a")["status"]["readyReplicas"] == len(sim.ready_pods())
    sim.cluster.remove_node(lost)
    await sim.settle(90)
    assert len(sim.ready_pods()) == 2
    assert {pod["spec"]["nodeName"] for pod in sim.pods().values()}.isdisjoint({lost})
    assert sim.condition(POD_CLIQUES, "w-0-a", "MinAvailableBreached")["status"] == "False"


@simulated
async def test_a_pod_that_does_not_end_keeps_its_index() -> None:
    sim = Simulation()
    sim.start_operator()
    await sim.people.create(workload("w", 1, [clique("a", 2, 1)]))
    await sim.settle()
    sim.cluster.behave = lambda pod: PodBehaviour(never_ends=pod["metadata"]["name"] == "w-0-a-0")
    await sim.people.delete_pod("w-0-a-0")
    await asyncio.sleep(3600)
    assert set(sim.pods()) == {"w-0-a-0", "w-0-a-1"}
    assert sim.status("w")["availableReplicas"] == 1
    sim.cluster.kill_pod(NAMESPACE, "w-0-a-0")
    await sim.settle()
    assert sim.ready_pods() == {"w-0-a-0", "w-0-a-1"}


@simulated
async def test_a_service_of_somebody_else_is_not_taken_over_and_its_end_lets_us_go_on() -> None:
    sim = Simulation()
    sim.start_operator()
    theirs = {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"name": "w-0", "namespace": NAMESPACE},
        "spec": {"selector": {"app": "theirs"}, "ports": [{"port": 80}]},
    }
    await sim.people.create(theirs)
    await sim.people.create(workload("w", 1, [clique("a", 1)]))
    await asyncio.sleep(120)
    assert sim.object(SERVICES, "w-0")["spec"]["selector"] == {"app": "theirs"}
    assert "ownerReferences" not in sim.object(SERVICES, "w-0")["metadata"]
    assert "w-0" in sim.status("w")["lastErrors"][0]["description"]
    await sim.people.delete(SERVICES, "w-0")
    await sim.settle(90)
    assert sim.object(SERVICES, "w-0")["spec"]["clusterIP"] == "None"
    assert sim.status("w")["lastErrors"] == []


@simulated
async def test_a_pod_of_somebody_else_blocks_its_index_and_is_named() -> None:
    sim = Simulation()
    sim.start_operator()
    pod = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "w-0-a-0", "namespace": NAMESPACE},
        "spec": {"containers": [{"name": "c", "image": "theirs:1"}]},
    }
    await sim.people.create(pod)
    await sim.people.create(workload("w", 1, [clique("a", 2)]))
    await asyncio.sleep(120)
    assert sim.images()["w-0-a-0"] == "theirs:1"
    assert "w-0-a-0" in sim.status("w")["lastErrors"][0]["description"]
    assert all(gates(pod) for name, pod in sim.pods().items() if name != "w-0-a-0")
    await sim.people.delete_pod("w-0-a-0")
    await sim.settle(90)
    assert sim.images() == {"w-0-a-0": "app:1", "w-0-a-1": "app:1"}
    assert sim.status("w")["lastErrors"] == []


@simulated
async def test_an_object_under_another_controller_is_left_alone_and_named() -> None:
    sim = Simulation(webhooks=False)
    sim.start_operator()
    await sim.people.create(workload("other", 0, [clique("a", 1, 1)]))
    owner = sim.object(POD_CLIQUE_SETS, "other")["metadata"]
    reference = {
        "apiVersion": "grove.io/v1alpha1",
        "kind": "PodCliqueSet",
        "name": "other",
        "uid": owner["uid"],
        "controller": True,
    }
    theirs = {
        "apiVersion": "scheduler.grove.io/v1alpha1",
        "kind": "PodGang",
        "metadata": {
            "name": "w-0",
            "namespace": NAMESPACE,
            "ownerReferences": [reference],
            "labels": {"app.kubernetes.io/part-of": "w", "grove.io/podcliqueset-replica-index": "0"},
        },
        "spec": {"podgroups": []},
    }
    await sim.people.create(theirs)
    await sim.people.create(workload("w", 1, [clique("a", 1, 1)]))
    await asyncio.sleep(120)
    assert sim.object(POD_GANGS, "w-0")["spec"] == {"podgroups": []}
    assert sim.pods() == {}
    assert "PodGang w-0 belongs to PodCliqueSet other" in sim.condition(POD_CLIQUE_SETS, "w", "Ready")["message"]
    await sim.people.delete(POD_GANGS, "w-0")
    await sim.settle(90)
    assert len(sim.ready_pods()) == 1
    assert sim.status("w")["lastErrors"] == []


@simulated
async def test_deleting_a_set_leaves_nothing() -> None:
    sim = Simulation()
    sim.start_operator()
    cliques = [clique("a", 2, autoscaling={"maxReplicas": 3}), clique("b", 1)]
    await sim.people.create(
        workload("w", 2, cliques, [group("g", ["b"], 2, 1)], cliqueStartupType="CliqueStartupTypeInOrder")
    )
    await sim.settle()
    await sim.people.delete(POD_CLIQUE_SETS, "w")
    await sim.settle()
    assert sim.managed("w") == set()


@simulated
async def test_deleting_a_set_needs_no_operator() -> None:
    sim = Simulation()
    operator = sim.start_operator()
    await sim.people.create(workload("w", 2, [clique("a", 2), clique("b", 1)], [group("g", ["b"], 2, 1)]))
    await sim.settle()
    await operator.stop()
    sim.operators.clear()
    await sim.people.delete(POD_CLIQUE_SETS, "w")
    await sim.settle()
    assert sim.managed("w") == set()


@simulated
async def test_a_set_deleted_while_it_starts_leaves_nothing() -> None:
    for writes in range(1, 30, 3):
        sim = Simulation(seed=writes)
        sim.start_operator()
        await sim.people.create(workload("w", 2, [clique("a", 2), clique("b", 1)], [group("g", ["b"], 2, 1)]))
        await sim.until(lambda sim=sim, writes=writes: len(sim.writes()) >= writes)  # type: ignore[misc]
        await sim.people.delete(POD_CLIQUE_SETS, "w")
        await sim.settle()
        assert sim.managed("w") == set(), writes


@simulated
async def test_a_set_made_anew_under_its_name_at_once_gets_objects_of_its_own() -> None:
    sim = Simulation()
    sim.start_operator()
    document = workload("w", 2, [clique("a", 2), clique("b", 1)], [group("g", ["b"], 2, 1)])
    await sim.people.create(document)
    await sim.settle()
    everything = sim.managed("w")
    old = {item["metadata"]["uid"] for item in sim.pods().values()}
    await sim.people.delete(POD_CLIQUE_SETS, "w")
    await sim.people.create(document)
    await sim.settle(90)
    assert sim.managed("w") == everything
    assert old.isdisjoint({item["metadata"]["uid"] for item in sim.pods().values()})
    assert sim.status("w")["availableReplicas"] == 2
    assert sim.status("w")["lastErrors"] == []
    owner = sim.object(POD_CLIQUE_SETS, "w")["metadata"]["uid"]
    for resource in (POD_GANGS, SERVICES, CONTROLLER_REVISIONS):
        for name, item in sim.objects(resource).items():
            assert [o["uid"] for o in item["metadata"]["ownerReferences"]] == [owner], name


@simulated
async def test_a_deleted_namespace_goes_and_the_operator_is_quiet_afterwards() -> None:
    sim = Simulation()
    sim.start_operator()
    await sim.people.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "team"}})
    document = workload("w", 2, [clique("a", 2), clique("b", 1)], [group("g", ["b"], 2, 1)])
    document["metadata"]["namespace"] = "team"
    await sim.people.create(document)
    await sim.settle()
    assert len(sim.pods("team")) == 8
    await sim.people.delete(NAMESPACES, "team", "")
    await sim.settle(90)
    assert sim.managed("w", "team") == set()
    assert sim.server.object("v1", "Namespace", "team") is None
    sim.server.log.clear()
    await asyncio.sleep(600)
    assert [entry for entry in sim.server.log.entries if entry.verb not in ("watch", "list", "get")] == []


@simulated
async def test_a_set_with_a_finalizer_of_somebody_else_waits_without_being_repaired() -> None:
    sim = Simulation()
    sim.start_operator()
    document = workload("w", 1, [clique("a", 1)])
    document["metadata"]["finalizers"] = ["example.com/keep"]
    await sim.people.create(document)
    await sim.settle()
    await sim.people.delete(POD_CLIQUE_SETS, "w")
    await sim.settle()
    await sim.people.delete_pod("w-0-a-0")
    await sim.settle()
    assert sim.pods() == {}
    await sim.people.edit(POD_CLIQUE_SETS, "w", {"op": "remove", "path": "/metadata/finalizers"})
    await sim.settle()
    assert sim.managed("w") == set()
