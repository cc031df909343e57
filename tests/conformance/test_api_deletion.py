"""Deleting: preconditions, finalizers, dependents in every propagation mode, and namespaces."""

from __future__ import annotations

from typing import Any

from conformance_api import Api, config_map, owned, widget


def _with_finalizer(obj: dict[str, Any]) -> dict[str, Any]:
    return {**obj, "metadata": {**obj["metadata"], "finalizers": ["example.com/wait"]}}


async def test_deleting_answers_with_success_and_details(api: Api) -> None:
    created = await api.post(api.widgets, widget("a"))
    reply = await api.delete(f"{api.widgets}/a")
    assert (reply.code, reply.body["kind"], reply.body["status"]) == (200, "Status", "Success")
    assert reply.body["details"] == {
        "name": "a",
        "group": "conformance.grove.io",
        "kind": "widgets",
        "uid": created.body["metadata"]["uid"],
    }
    assert (await api.get(f"{api.widgets}/a")).code == 404


async def test_deleting_a_missing_object_is_not_found(api: Api) -> None:
    assert (await api.delete(f"{api.widgets}/a")).code == 404


async def test_a_wrong_uid_precondition_conflicts(api: Api) -> None:
    created = await api.post(api.widgets, widget("a"))
    refused = await api.delete(f"{api.widgets}/a", {"preconditions": {"uid": "another"}})
    assert (refused.code, refused.reason) == (409, "Conflict")
    uid = created.body["metadata"]["uid"]
    assert (await api.delete(f"{api.widgets}/a", {"preconditions": {"uid": uid}})).code == 200


async def test_a_wrong_version_precondition_conflicts(api: Api) -> None:
    created = await api.post(api.widgets, widget("a"))
    changed = await api.patch(f"{api.widgets}/a", {"spec": {"size": "large"}})
    stale = {"preconditions": {"resourceVersion": created.version}}
    assert (await api.delete(f"{api.widgets}/a", stale)).code == 409
    current = {"preconditions": {"resourceVersion": changed.version}}
    assert (await api.delete(f"{api.widgets}/a", current)).code == 200


async def test_a_finalizer_keeps_the_object_until_it_is_removed(api: Api) -> None:
    path = f"{api.widgets}/a"
    await api.post(api.widgets, _with_finalizer(widget("a")))
    marked = await api.delete(path)
    meta = marked.body["metadata"]
    assert marked.code == 200
    assert meta["deletionTimestamp"].endswith("Z")
    assert meta["deletionGracePeriodSeconds"] == 0
    assert meta["generation"] == 2
    again = await api.delete(path)
    assert again.version == marked.version
    assert (await api.post(api.widgets, widget("a"))).code == 409
    freed = await api.patch(path, {"metadata": {"finalizers": None}})
    assert freed.code == 200
    assert (await api.get(path)).code == 404


async def test_no_finalizer_may_be_added_while_deleting(api: Api) -> None:
    path = f"{api.widgets}/a"
    await api.post(api.widgets, _with_finalizer(widget("a")))
    await api.delete(path)
    more = {"metadata": {"finalizers": ["example.com/wait", "example.com/more"]}}
    refused = await api.patch(path, more)
    assert (refused.code, refused.reason) == (422, "Invalid")
    assert refused.causes == {("FieldValueForbidden", "metadata.finalizers")}
    await api.patch(path, {"metadata": {"finalizers": None}})


async def test_an_object_being_deleted_may_still_change(api: Api) -> None:
    path = f"{api.widgets}/a"
    await api.post(api.widgets, _with_finalizer(widget("a")))
    await api.delete(path)
    changed = await api.patch(path, {"spec": {"size": "large"}})
    assert (changed.code, changed.body["spec"]["size"]) == (200, "large")
    await api.patch(path, {"metadata": {"finalizers": None}})


async def test_the_deleted_event_carries_a_new_version(api: Api) -> None:
    created = await api.post(api.widgets, widget("a"))
    await api.delete(f"{api.widgets}/a")
    async with api.watch(api.widgets, resourceVersion=created.version) as events:
        event = await anext(events)
    assert event["type"] == "DELETED"
    assert int(event["object"]["metadata"]["resourceVersion"]) > int(created.version)


async def test_background_deletion_takes_dependents_afterwards(api: Api) -> None:
    owner = (await api.post(api.widgets, widget("owner"))).body
    await api.post(api.configmaps, owned(config_map("child"), owner))
    await api.delete(f"{api.widgets}/owner", {"propagationPolicy": "Background"})
    assert (await api.get(f"{api.widgets}/owner")).code == 404
    await api.gone(f"{api.configmaps}/child")


async def test_deletion_is_in_the_background_by_default(api: Api) -> None:
    owner = (await api.post(api.widgets, widget("owner"))).body
    child = (await api.post(api.widgets, owned(widget("child"), owner))).body
    await api.post(api.configmaps, owned(config_map("grandchild"), child))
    await api.delete(f"{api.widgets}/owner")
    await api.gone(f"{api.widgets}/child")
    await api.gone(f"{api.configmaps}/grandchild")


async def test_foreground_deletion_waits_for_blocking_dependents(api: Api) -> None:
    owner = (await api.post(api.widgets, widget("owner"))).body
    child = _with_finalizer(owned(config_map("child"), owner, blockOwnerDeletion=True))
    start = (await api.post(api.configmaps, child)).version
    marked = await api.delete(f"{api.widgets}/owner", {"propagationPolicy": "Foreground"})
    assert marked.body["metadata"]["finalizers"] == ["foregroundDeletion"]
    async with api.watch(api.configmaps, resourceVersion=start, fieldSelector="metadata.name=child") as events:
        event = await anext(events)
    assert "deletionTimestamp" in event["object"]["metadata"]
    assert (await api.get(f"{api.widgets}/owner")).code == 200
    await api.patch(f"{api.configmaps}/child", {"metadata": {"finalizers": None}})
    await api.gone(f"{api.widgets}/owner")


async def test_foreground_deletion_does_not_wait_for_other_dependents(api: Api) -> None:
    owner = (await api.post(api.widgets, widget("owner"))).body
    await api.post(api.configmaps, _with_finalizer(owned(config_map("child"), owner)))
    await api.delete(f"{api.widgets}/owner", {"propagationPolicy": "Foreground"})
    await api.gone(f"{api.widgets}/owner")
    await api.patch(f"{api.configmaps}/child", {"metadata": {"finalizers": None}})
    await api.gone(f"{api.configmaps}/child")


async def test_orphaning_leaves_dependents_without_the_reference(api: Api) -> None:
    owner = (await api.post(api.widgets, widget("owner"))).body
    await api.post(api.configmaps, owned(config_map("child"), owner))
    await api.delete(f"{api.widgets}/owner", {"propagationPolicy": "Orphan"})
    await api.gone(f"{api.widgets}/owner")
    child = await api.get(f"{api.configmaps}/child")
    assert child.code == 200
    assert "ownerReferences" not in child.body["metadata"]


async def test_an_owner_with_another_uid_counts_as_absent(api: Api) -> None:
    owner = (await api.post(api.widgets, widget("owner"))).body
    stranger = {**owner, "metadata": {**owner["metadata"], "uid": "00000000-0000-4000-8000-000000000001"}}
    await api.post(api.configmaps, owned(config_map("child"), stranger))
    await api.gone(f"{api.configmaps}/child")
    assert (await api.get(f"{api.widgets}/owner")).code == 200


async def test_one_living_owner_keeps_the_dependent(api: Api) -> None:
    first = (await api.post(api.widgets, widget("first"))).body
    second = (await api.post(api.widgets, widget("second"))).body
    child = owned(config_map("child"), first)
    child["metadata"]["ownerReferences"] += owned(config_map("child"), second)["metadata"]["ownerReferences"]
    start = (await api.post(api.configmaps, child)).version
    await api.delete(f"{api.widgets}/first")
    async with api.watch(api.configmaps, resourceVersion=start, fieldSelector="metadata.name=child") as events:
        event = await anext(events)
    assert event["type"] == "MODIFIED"
    assert [r["name"] for r in event["object"]["metadata"]["ownerReferences"]] == ["second"]


async def test_a_collection_is_deleted_by_selector(api: Api) -> None:
    for name, team in (("a", "red"), ("b", "blue"), ("c", "red")):
        body = widget(name)
        body["metadata"]["labels"] = {"team": team}
        await api.post(api.widgets, body)
    assert (await api.delete(api.widgets, labelSelector="team=red")).code == 200
    assert [item["metadata"]["name"] for item in (await api.get(api.widgets)).body["items"]] == ["b"]


async def test_a_namespace_goes_with_its_content_and_takes_no_more(api: Api) -> None:
    name = f"{api.namespace}-more"
    namespace = f"/api/v1/namespaces/{name}"
    created = await api.post("/api/v1/namespaces", {"metadata": {"name": name}})
    assert created.body["spec"]["finalizers"] == ["kubernetes"]
    assert created.body["status"]["phase"] == "Active"
    assert created.body["metadata"]["labels"] == {"kubernetes.io/metadata.name": name}
    held = f"{namespace}/configmaps/held"
    await api.post(f"{namespace}/configmaps", _with_finalizer(config_map("held")))
    deleted = await api.delete(namespace)
    assert deleted.body["status"]["phase"] == "Terminating"
    refused = await api.post(f"{namespace}/configmaps", config_map("late"))
    assert (refused.code, refused.reason) == (403, "Forbidden")
    assert refused.causes == {("NamespaceTerminating", "metadata.namespace")}
    assert (await api.get(namespace)).code == 200
    await api.patch(held, {"metadata": {"finalizers": None}})
    await api.gone(held)
    await api.gone(namespace)
