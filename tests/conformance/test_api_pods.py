"""Pods: gates, immutable fields, binding, eviction, graceful deletion."""

from __future__ import annotations

from typing import Any

from conformance_api import Api, pod

GATE = {"name": "example.com/gate"}
OTHER_GATE = {"name": "example.com/other"}


def _nowhere(api: Api) -> str:
    """A node that does not exist, for this test alone: the pods of one missing for 40 s are collected."""
    return f"nowhere-{api.namespace}"


def _binding(name: str, node: str) -> dict[str, Any]:
    return {
        "apiVersion": "v1",
        "kind": "Binding",
        "metadata": {"name": name},
        "target": {"apiVersion": "v1", "kind": "Node", "name": node},
    }


def _eviction(name: str, **options: Any) -> dict[str, Any]:
    return {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": name}, "deleteOptions": options}


def _condition(obj: dict[str, Any], kind: str) -> dict[str, Any]:
    return next((c for c in obj["status"].get("conditions", ()) if c["type"] == kind), {})


async def test_defaults_of_a_pod(api: Api) -> None:
    body = pod("a")
    del body["spec"]["schedulerName"]
    body["spec"]["schedulingGates"] = [GATE]
    created = (await api.post(api.pods, body)).body
    spec = created["spec"]
    expected = {
        "restartPolicy": "Always",
        "terminationGracePeriodSeconds": 30,
        "dnsPolicy": "ClusterFirst",
        "schedulerName": "default-scheduler",
        "enableServiceLinks": True,
        "priority": 0,
        "preemptionPolicy": "PreemptLowerPriority",
        "serviceAccountName": "default",
        "securityContext": {},
        "tolerations": [
            {"key": key, "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 300}
            for key in ("node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable")
        ],
    }
    assert {name: spec.get(name) for name in expected} == expected
    container = spec["containers"][0]
    assert container["terminationMessagePath"] == "/dev/termination-log"
    assert container["imagePullPolicy"] == "IfNotPresent"
    assert created["status"]["phase"] == "Pending"
    assert created["status"]["qosClass"] == "BestEffort"
    assert created["metadata"]["generation"] == 1


async def test_a_pod_needs_containers_with_name_and_image(api: Api) -> None:
    assert (await api.post(api.pods, pod("a", containers=[]))).causes == {("FieldValueRequired", "spec.containers")}
    refused = await api.post(api.pods, pod("a", containers=[{"name": "main"}]))
    assert refused.causes == {("FieldValueRequired", "spec.containers[0].image")}


async def test_a_gated_pod_says_so(api: Api) -> None:
    gated = (await api.post(api.pods, pod("a", schedulingGates=[GATE]))).body
    condition = _condition(gated, "PodScheduled")
    assert (condition["status"], condition["reason"]) == ("False", "SchedulingGated")
    free = (await api.post(api.pods, pod("b"))).body
    assert _condition(free, "PodScheduled") == {}


async def test_a_gated_pod_may_not_name_a_node(api: Api) -> None:
    refused = await api.post(api.pods, pod("a", schedulingGates=[GATE], nodeName="nowhere"))
    assert ("FieldValueForbidden", "spec.nodeName") in refused.causes


async def test_gates_may_only_be_removed(api: Api) -> None:
    path = f"{api.pods}/a"
    await api.post(api.pods, pod("a", schedulingGates=[GATE]))
    refused = await api.patch(path, {"spec": {"schedulingGates": [GATE, OTHER_GATE]}})
    assert (refused.code, refused.reason) == (422, "Invalid")
    assert refused.causes == {("FieldValueForbidden", "spec.schedulingGates[1].name")}
    freed = await api.patch(path, {"spec": {"schedulingGates": None}})
    assert freed.code == 200
    assert "schedulingGates" not in freed.body["spec"]
    assert freed.body["metadata"]["generation"] == 2
    late = await api.patch(path, {"spec": {"schedulingGates": [GATE]}})
    assert late.causes == {("FieldValueForbidden", "spec.schedulingGates[0].name")}


async def test_most_of_a_pod_is_immutable(api: Api) -> None:
    path = f"{api.pods}/a"
    await api.post(api.pods, pod("a"))
    for change in ({"nodeSelector": {"a": "b"}}, {"hostname": "other"}, {"priority": 5}):
        refused = await api.patch(path, {"spec": change})
        assert (refused.code, refused.reason) == (422, "Invalid"), change
    image = [{"op": "replace", "path": "/spec/containers/0/image", "value": "registry.example/main:2"}]
    changed = await api.patch(path, image, "application/json-patch+json")
    assert changed.body["spec"]["containers"][0]["image"] == "registry.example/main:2"


async def test_a_gated_pod_may_still_be_narrowed_to_nodes(api: Api) -> None:
    await api.post(api.pods, pod("a", schedulingGates=[GATE]))
    changed = await api.patch(f"{api.pods}/a", {"spec": {"nodeSelector": {"rack": "r1"}}})
    assert changed.body["spec"]["nodeSelector"] == {"rack": "r1"}


async def test_binding_sets_the_node_and_the_condition(api: Api) -> None:
    path = f"{api.pods}/a"
    await api.post(api.pods, pod("a"))
    reply = await api.post(f"{path}/binding", _binding("a", _nowhere(api)))
    assert (reply.code, reply.body["status"]) == (201, "Success")
    bound = (await api.get(path)).body
    assert bound["spec"]["nodeName"] == _nowhere(api)
    assert _condition(bound, "PodScheduled")["status"] == "True"
    assert (await api.post(f"{path}/binding", _binding("a", _nowhere(api)))).code == 409


async def test_a_gated_pod_cannot_be_bound(api: Api) -> None:
    await api.post(api.pods, pod("a", schedulingGates=[GATE]))
    refused = await api.post(f"{api.pods}/a/binding", _binding("a", _nowhere(api)))
    assert (refused.code, refused.reason) == (409, "Conflict")


async def test_an_unscheduled_pod_goes_at_once(api: Api) -> None:
    await api.post(api.pods, pod("a"))
    deleted = await api.delete(f"{api.pods}/a")
    assert (deleted.code, deleted.body["kind"]) == (200, "Pod")
    assert (await api.get(f"{api.pods}/a")).code == 404


async def test_a_bound_pod_ends_gracefully(api: Api) -> None:
    path = f"{api.pods}/a"
    await api.post(api.pods, pod("a", terminationGracePeriodSeconds=25))
    await api.post(f"{path}/binding", _binding("a", _nowhere(api)))
    marked = await api.delete(path)
    meta = marked.body["metadata"]
    assert meta["deletionGracePeriodSeconds"] == 25
    assert meta["deletionTimestamp"] > meta["creationTimestamp"]
    again = await api.delete(path)
    assert again.version == marked.version
    shorter = await api.delete(path, {"gracePeriodSeconds": 5})
    assert shorter.body["metadata"]["deletionGracePeriodSeconds"] == 5
    assert (await api.delete(path, {"gracePeriodSeconds": 0})).code == 200
    assert (await api.get(path)).code == 404


async def test_a_finished_pod_goes_at_once(api: Api) -> None:
    path = f"{api.pods}/a"
    await api.post(api.pods, pod("a"))
    await api.post(f"{path}/binding", _binding("a", _nowhere(api)))
    await api.patch(f"{path}/status", {"status": {"phase": "Succeeded"}})
    await api.delete(path)
    assert (await api.get(path)).code == 404


async def test_eviction_deletes_the_pod(api: Api) -> None:
    await api.post(api.pods, pod("a"))
    refused = await api.post(f"{api.pods}/a/eviction", _eviction("a", preconditions={"uid": "another"}))
    assert refused.code == 409
    reply = await api.post(f"{api.pods}/a/eviction", _eviction("a"))
    assert (reply.code, reply.body["status"]) == (201, "Success")
    assert (await api.get(f"{api.pods}/a")).code == 404
    assert (await api.post(f"{api.pods}/a/eviction", _eviction("a"))).code == 404


async def test_eviction_respects_a_budget_without_headroom(api: Api) -> None:
    path = f"{api.pods}/a"
    body = pod("a")
    body["metadata"]["labels"] = {"app": "guarded"}
    await api.post(api.pods, body)
    await api.post(f"{path}/binding", _binding("a", _nowhere(api)))
    await api.patch(f"{path}/status", {"status": {"phase": "Running"}})
    budgets = f"/apis/policy/v1/namespaces/{api.namespace}/poddisruptionbudgets"
    budget = {
        "apiVersion": "policy/v1",
        "kind": "PodDisruptionBudget",
        "metadata": {"name": "guard"},
        "spec": {"minAvailable": 1, "selector": {"matchLabels": {"app": "guarded"}}},
    }
    await api.post(budgets, budget)
    refused = await api.post(f"{path}/eviction", _eviction("a"))
    assert (refused.code, refused.reason) == (429, "TooManyRequests")
    assert {reason for reason, _ in refused.causes} == {"DisruptionBudget"}
    assert "deletionTimestamp" not in (await api.get(path)).body["metadata"]


async def test_status_of_a_pod_is_written_apart(api: Api) -> None:
    path = f"{api.pods}/a"
    await api.post(api.pods, pod("a"))
    ignored = await api.patch(path, {"status": {"phase": "Running"}})
    assert ignored.body["status"]["phase"] == "Pending"
    condition = {"type": "example.com/Ready", "status": "True"}
    reported = await api.patch(f"{path}/status", {"status": {"conditions": [condition]}})
    assert _condition(reported.body, "example.com/Ready")["status"] == "True"
    assert reported.body["metadata"]["generation"] == 1
