"""Whatever people and other programs do to what the operator made, it is brought back, and nothing more than that."""

from __future__ import annotations

import asyncio
import base64
from typing import Any

import msgspec
import pytest
from operator_harness import NAMESPACE, Json, Simulation, clique, gates, group, simulated, workload

from grove.api.kinds import (
    AUTOSCALERS,
    CONTROLLER_REVISIONS,
    POD_CLIQUE_SETS,
    POD_CLIQUES,
    POD_GANGS,
    PODS,
    ROLE_BINDINGS,
    ROLES,
    SCALING_GROUPS,
    SERVICE_ACCOUNTS,
    SERVICES,
)
from grove.runtime.resource import Resource

CHILDREN: list[tuple[Resource[Any], str]] = [
    (SERVICES, "w-0"),
    (POD_CLIQUES, "w-0-a"),
    (POD_CLIQUES, "w-0-g-0-b"),
    (POD_CLIQUES, "w-0-g-1-b"),
    (SCALING_GROUPS, "w-0-g"),
    (POD_GANGS, "w-0"),
    (POD_GANGS, "w-0-g-1"),
    (AUTOSCALERS, "w-0-a"),
    (SERVICE_ACCOUNTS, "w"),
    (ROLES, "grove.io:pcs:w"),
    (ROLE_BINDINGS, "grove.io:pcs:w"),
    (CONTROLLER_REVISIONS, ""),
    (PODS, "w-0-a-1"),
]
EDITS: list[tuple[Resource[Any], str, Json]] = [
    (SERVICES, "w-0", {"spec": {"selector": {"app": "other"}, "publishNotReadyAddresses": False}}),
    (POD_CLIQUES, "w-0-a", {"spec": {"podSpec": {"containers": [{"name": "main", "image": "odd:1"}]}}}),
    (POD_CLIQUES, "w-0-a", {"metadata": {"labels": {"grove.io/pod-template-hash": "odd"}}}),
    (SCALING_GROUPS, "w-0-g", {"metadata": {"labels": {"app.kubernetes.io/name": "odd"}}}),
    (POD_GANGS, "w-0", {"spec": {"podgroups": []}}),
    (POD_GANGS, "w-0", {"metadata": {"labels": {"grove.io/scheduler-name": "odd"}}}),
    (AUTOSCALERS, "w-0-a", {"spec": {"maxReplicas": 9}}),
    (ROLES, "grove.io:pcs:w", {"rules": []}),
    (ROLE_BINDINGS, "grove.io:pcs:w", {"subjects": []}),
    (SERVICE_ACCOUNTS, "w", {"metadata": {"labels": {"app.kubernetes.io/name": "odd"}}}),
]


async def _running() -> Simulation:
    sim = Simulation()
    sim.start_operator()
    cliques = [clique("a", 2, autoscaling={"maxReplicas": 4}), clique("b", 1)]
    document = workload(
        "w", 1, cliques, [group("g", ["b"], 2, 1)], cliqueStartupType="CliqueStartupTypeInOrder", terminationDelay="1h"
    )
    await sim.people.create(document)
    await sim.settle()
    return sim


def _content(item: Json) -> Json:
    """An object without what the server counts and what tells the time."""
    meta = {k: item["metadata"].get(k) or None for k in ("name", "labels", "annotations")}
    return {"metadata": meta, "spec": item.get("spec"), "rules": item.get("rules"), "subjects": item.get("subjects")}


@pytest.mark.parametrize(("resource", "name"), CHILDREN, ids=[f"{r.kind}-{n}" for r, n in CHILDREN])
@simulated
async def test_a_deleted_child_comes_back(resource: Resource[Any], name: str) -> None:
    sim = await _running()
    name = name or next(iter(sim.objects(resource)))
    before = sim.object(resource, name)
    everything = sim.managed("w")
    await sim.people.delete(resource, name)
    await sim.settle()
    assert sim.managed("w") == everything
    after = sim.object(resource, name)
    assert after["metadata"]["uid"] != before["metadata"]["uid"]
    if resource is not PODS:
        assert _content(after) == _content(before)
    assert len(sim.ready_pods()) == 4
    assert sim.status("w")["availableReplicas"] == 1


@pytest.mark.parametrize(
    ("resource", "name", "edit"), EDITS, ids=[f"{r.kind}-{i}" for i, (r, _, _) in enumerate(EDITS)]
)
@simulated
async def test_an_edited_child_is_corrected(resource: Resource[Any], name: str, edit: Json) -> None:
    sim = await _running()
    before = sim.object(resource, name)
    pods = {n: p["metadata"]["uid"] for n, p in sim.pods().items()}
    await sim.people.patch(resource, name, edit)
    await sim.settle()
    after = sim.object(resource, name)
    assert after["metadata"]["uid"] == before["metadata"]["uid"]
    assert _content(after) == _content(before)
    assert {n: p["metadata"]["uid"] for n, p in sim.pods().items()} == pods


@simulated
async def test_a_second_owner_and_foreign_marks_are_left_alone() -> None:
    sim = await _running()
    node = sim.server.objects("v1", "Node")[0]["metadata"]
    second = {"apiVersion": "v1", "kind": "Node", "name": node["name"], "uid": node["uid"]}
    touched: list[tuple[Resource[Any], str]]
    touched = [(POD_CLIQUES, "w-0-a"), (POD_GANGS, "w-0"), (PODS, "w-0-a-0"), (SERVICES, "w-0")]
    for resource, name in touched:
        await sim.people.edit(resource, name, {"op": "add", "path": "/metadata/ownerReferences/-", "value": second})
        await sim.people.patch(resource, name, {"metadata": {"annotations": {"example.com/note": "mine"}}})
    await sim.settle()
    for resource, name in touched:
        meta = sim.object(resource, name)["metadata"]
        assert len(meta["ownerReferences"]) == 2, name
        assert meta["annotations"]["example.com/note"] == "mine", name
    sim.server.log.clear()
    await asyncio.sleep(300)
    assert sim.writes() == []
    assert len(sim.ready_pods()) == 4


@simulated
async def test_a_gate_of_another_controller_is_waited_for() -> None:
    """A webhook of another program adds a gate in front of ours; only that program may take it away."""
    sim = Simulation()
    sim.start_operator()

    async def add_gate(request: Json) -> Json:
        there = request["object"]["spec"].get("schedulingGates", [])
        added = [{"name": "example.com/quota"}, *there]
        patch = msgspec.json.encode([{"op": "add", "path": "/spec/schedulingGates", "value": added}])
        return {"allowed": True, "patchType": "JSONPatch", "patch": base64.b64encode(patch).decode()}

    sim.add_pod_webhook(add_gate, mutating=True)
    await sim.people.create(workload("w", 1, [clique("a", 2)]))
    await sim.settle()
    assert [gates(pod) for pod in sim.pods().values()] == [["example.com/quota"]] * 2
    assert sim.object(POD_CLIQUES, "w-0-a")["status"]["scheduledReplicas"] == 0
    for name in sim.pods():
        await sim.people.edit(PODS, name, {"op": "remove", "path": "/spec/schedulingGates/0"})
    await sim.settle()
    assert len(sim.ready_pods()) == 2


@simulated
async def test_a_pod_whose_labels_were_taken_away_is_replaced_when_it_is_gone() -> None:
    sim = await _running()
    await sim.people.patch(PODS, "w-0-a-0", {"metadata": {"labels": {"app.kubernetes.io/managed-by": None}}})
    await sim.settle()
    assert sim.status("w")["lastErrors"], "the name is taken by a pod the operator no longer sees"
    await sim.people.delete_pod("w-0-a-0")
    await sim.settle()
    assert len(sim.ready_pods()) == 4
    assert sim.status("w")["lastErrors"] == []


@simulated
async def test_a_failed_pod_is_replaced() -> None:
    sim = await _running()
    before = sim.pods()["w-0-a-0"]["metadata"]["uid"]
    sim.cluster.fail_pod(NAMESPACE, "w-0-a-0", "Evicted")
    await sim.settle()
    assert sim.pods()["w-0-a-0"]["metadata"]["uid"] != before
    assert len(sim.ready_pods()) == 4


@simulated
async def test_a_crashing_container_replaces_no_pod() -> None:
    sim = await _running()
    before = {n: p["metadata"]["uid"] for n, p in sim.pods().items()}
    sim.cluster.crash_pod(NAMESPACE, "w-0-a-0")
    await sim.settle()
    assert {n: p["metadata"]["uid"] for n, p in sim.pods().items()} == before
    assert len(sim.ready_pods()) == 4
    assert sim.condition(POD_CLIQUE_SETS, "w", "Ready")["status"] == "True"
