"""Webhooks in process, access rules, and the log of requests."""

from __future__ import annotations

import base64
from typing import Any

import msgspec
import pytest
from memory_api import CONFIGMAPS, call, config_map, must

from grove.testing import ApiServer
from grove.testing.admission import Webhook

RULES = [{"operations": ["CREATE", "UPDATE"], "apiGroups": [""], "apiVersions": ["v1"], "resources": ["configmaps"]}]


def _patched(*operations: dict[str, Any]) -> dict[str, Any]:
    encoded = base64.b64encode(msgspec.json.encode(operations)).decode()
    return {"allowed": True, "patchType": "JSONPatch", "patch": encoded}


async def test_a_mutating_webhook_changes_what_is_stored() -> None:
    server = ApiServer()

    async def label(request: dict[str, Any]) -> dict[str, Any]:
        return _patched({"op": "add", "path": "/metadata/labels", "value": {"by": request["userInfo"]["username"]}})

    server.add_webhook(Webhook("label", label, mutating=True, rules=RULES))
    stored = await must(server.transport("someone"), "POST", CONFIGMAPS, config_map("a"))
    assert stored["metadata"]["labels"] == {"by": "someone"}


async def test_a_validating_webhook_sees_old_and_new_and_may_refuse() -> None:
    server = ApiServer()
    seen: list[dict[str, Any]] = []

    async def judge(request: dict[str, Any]) -> dict[str, Any]:
        seen.append(request)
        if request["operation"] == "UPDATE":
            return {"allowed": False, "status": {"code": 403, "reason": "Forbidden", "message": "not like this"}}
        return {"allowed": True}

    server.add_webhook(Webhook("judge", judge, mutating=False, rules=RULES))
    transport = server.transport()
    await must(transport, "POST", CONFIGMAPS, config_map("a", x="1"), dryRun="All")
    await must(transport, "POST", CONFIGMAPS, config_map("a", x="1"))
    status, refusal = await call(transport, "PUT", f"{CONFIGMAPS}/a", config_map("a", x="2"))
    assert (status, refusal["reason"]) == (403, "Forbidden")
    assert refusal["message"] == 'admission webhook "judge" denied the request: not like this'
    assert [request["dryRun"] for request in seen] == [True, False, False]
    assert (seen[2]["oldObject"]["data"], seen[2]["object"]["data"]) == ({"x": "1"}, {"x": "2"})
    assert seen[2]["resource"] == {"group": "", "version": "v1", "resource": "configmaps"}


@pytest.mark.parametrize(("policy", "expected"), [("Fail", 500), ("Ignore", 201)])
async def test_the_failure_policy_decides_when_a_webhook_breaks(policy: str, expected: int) -> None:
    server = ApiServer()

    async def broken(request: dict[str, Any]) -> dict[str, Any]:
        raise ConnectionError("refused")

    server.add_webhook(Webhook("broken", broken, mutating=False, rules=RULES, failure_policy=policy))
    status, _ = await call(server.transport(), "POST", CONFIGMAPS, config_map("a"))
    assert status == expected


async def test_webhooks_of_a_configuration_are_found_by_path_and_selected_by_label() -> None:
    server = ApiServer()
    asked: list[str] = []

    async def allow(request: dict[str, Any]) -> dict[str, Any]:
        asked.append(request["name"])
        return {"allowed": True}

    configuration = {
        "kind": "ValidatingWebhookConfiguration",
        "webhooks": [
            {
                "name": "allow.example.com",
                "clientConfig": {"service": {"path": "/validate"}},
                "rules": RULES,
                "objectSelector": {"matchLabels": {"watched": "yes"}},
            }
        ],
    }
    server.add_webhook_configuration(configuration, {"/validate": allow})
    transport = server.transport()
    watched = config_map("a")
    watched["metadata"]["labels"] = {"watched": "yes"}
    await must(transport, "POST", CONFIGMAPS, watched)
    await must(transport, "POST", CONFIGMAPS, config_map("b"))
    assert asked == ["a"]


async def test_a_patch_starts_over_when_somebody_wrote_during_admission() -> None:
    server = ApiServer()
    transport = server.transport()
    await must(transport, "POST", CONFIGMAPS, config_map("a"))
    calls: list[int] = []

    async def meddle(request: dict[str, Any]) -> dict[str, Any]:
        calls.append(1)
        if len(calls) == 1:
            await must(transport, "PATCH", f"{CONFIGMAPS}/a", {"data": {"other": "1"}})
        return {"allowed": True}

    server.add_webhook(Webhook("meddle", meddle, mutating=False, rules=RULES))
    after = await must(transport, "PATCH", f"{CONFIGMAPS}/a", {"data": {"mine": "1"}})
    assert after["data"] == {"other": "1", "mine": "1"}


async def test_only_what_the_rules_allow_is_answered() -> None:
    server = ApiServer()
    rules = [{"apiGroups": [""], "resources": ["configmaps"], "verbs": ["get", "patch"]}]
    local = {"kube-system": [{"apiGroups": [""], "resources": ["configmaps"], "verbs": ["create"]}]}
    transport = server.transport("system:serviceaccount:grove:operator", rules=rules, namespaced_rules=local)
    status, refusal = await call(transport, "POST", CONFIGMAPS, config_map("a"))
    assert (status, refusal["reason"]) == (403, "Forbidden")
    assert refusal["message"] == (
        'configmaps is forbidden: User "system:serviceaccount:grove:operator" cannot create resource "configmaps" '
        'in API group "" in the namespace "default"'
    )
    apply = "application/apply-patch+yaml"
    status, _ = await call(transport, "PATCH", f"{CONFIGMAPS}/a", config_map("a"), apply, fieldManager="m")
    assert status == 403
    status, _ = await call(transport, "POST", "/api/v1/namespaces/kube-system/configmaps", config_map("a"))
    assert status == 201


async def test_right_to_one_object_allows_a_list_of_it_alone() -> None:
    server = ApiServer()
    rules = [{"apiGroups": [""], "resources": ["configmaps"], "resourceNames": ["a"], "verbs": ["list"]}]
    transport = server.transport("me", rules=rules)
    for selector, status in (("metadata.name=a", 200), ("metadata.name=b", 403), ("", 403)):
        found, _ = await call(transport, "GET", CONFIGMAPS, fieldSelector=selector)
        assert found == status


async def test_the_log_counts_requests_and_writes() -> None:
    server = ApiServer()
    transport = server.transport("me")
    await must(transport, "POST", CONFIGMAPS, config_map("a"))
    await call(transport, "POST", CONFIGMAPS, config_map("a"))
    await must(transport, "POST", CONFIGMAPS, config_map("b"), dryRun="All")
    await must(transport, "GET", f"{CONFIGMAPS}/a")
    assert server.log.counts("me") == {("me", "create", "configmaps", ""): 3, ("me", "get", "configmaps", ""): 1}
    assert [(entry.verb, entry.code) for entry in server.log.writes("me")] == [("create", 201)]
    assert server.log.used("me") == {("", "configmaps"): {"create", "get"}}


async def test_forgotten_history_ends_pages_and_watches() -> None:
    server = ApiServer()
    transport = server.transport()
    for name in "abc":
        await must(transport, "POST", CONFIGMAPS, config_map(name))
    page = await must(transport, "GET", CONFIGMAPS, limit="1")
    server.compact()
    status, gone = await call(transport, "GET", CONFIGMAPS, **{"limit": "1", "continue": page["metadata"]["continue"]})
    assert (status, gone["reason"]) == (410, "Expired")
