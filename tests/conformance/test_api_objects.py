"""Creating, reading and changing objects: names, versions, generations, subresources, patches, dry runs."""

from __future__ import annotations

import pytest
from conformance_api import JSON_PATCH, Api, config_map, widget


async def test_created_object_gets_identity_and_version(api: Api) -> None:
    reply = await api.post(api.configmaps, config_map("a", x="1"))
    meta = reply.body["metadata"]
    assert reply.code == 201
    assert meta["namespace"] == api.namespace
    assert len(meta["uid"]) == 36
    assert meta["creationTimestamp"].endswith("Z")
    assert int(meta["resourceVersion"]) > 0
    assert "generation" not in meta


async def test_creating_twice_is_already_exists(api: Api) -> None:
    await api.post(api.configmaps, config_map("a"))
    reply = await api.post(api.configmaps, config_map("a"))
    assert (reply.code, reply.reason) == (409, "AlreadyExists")
    assert reply.body["details"] == {"name": "a", "kind": "configmaps"}
    assert reply.body["message"] == 'configmaps "a" already exists'


async def test_generate_name_appends_a_suffix(api: Api) -> None:
    body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"generateName": "made-"}}
    names = {(await api.post(api.configmaps, body)).body["metadata"]["name"] for _ in range(3)}
    assert len(names) == 3
    assert all(name.startswith("made-") and len(name) == len("made-") + 5 for name in names)


async def test_a_name_is_required(api: Api) -> None:
    reply = await api.post(api.configmaps, {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {}})
    assert (reply.code, reply.reason) == (422, "Invalid")
    assert reply.causes == {("FieldValueRequired", "metadata.name")}


async def test_an_invalid_name_is_refused(api: Api) -> None:
    reply = await api.post(api.configmaps, config_map("Not_Valid"))
    assert (reply.code, reply.reason) == (422, "Invalid")
    assert reply.causes == {("FieldValueInvalid", "metadata.name")}
    assert reply.body["details"]["kind"] == "ConfigMap"


async def test_a_missing_object_is_not_found(api: Api) -> None:
    reply = await api.get(f"{api.widgets}/none")
    assert (reply.code, reply.reason) == (404, "NotFound")
    assert reply.body["details"] == {"name": "none", "group": "conformance.grove.io", "kind": "widgets"}
    assert reply.body["message"] == 'widgets.conformance.grove.io "none" not found'


async def test_an_unknown_resource_is_not_found(api: Api) -> None:
    assert (await api.get(f"/apis/conformance.grove.io/v1/namespaces/{api.namespace}/gadgets")).code == 404


async def test_creating_in_a_missing_namespace_is_not_found(api: Api) -> None:
    reply = await api.post("/api/v1/namespaces/nowhere/configmaps", config_map("a"))
    assert (reply.code, reply.reason) == (404, "NotFound")
    assert reply.body["details"]["kind"] == "namespaces"


async def test_a_body_for_another_namespace_is_refused(api: Api) -> None:
    body = config_map("a")
    body["metadata"]["namespace"] = "default"
    assert (await api.post(api.configmaps, body)).code == 400


async def test_a_resource_version_on_create_is_refused(api: Api) -> None:
    body = config_map("a")
    body["metadata"]["resourceVersion"] = "12"
    reply = await api.post(api.configmaps, body)
    assert reply.code == 500
    assert reply.body["message"] == "resourceVersion should not be set on objects to be created"


async def test_an_update_that_changes_nothing_keeps_the_version(api: Api) -> None:
    first = await api.post(api.configmaps, config_map("a", x="1"))
    again = await api.put(f"{api.configmaps}/a", first.body)
    assert again.version == first.version


async def test_a_patch_that_changes_nothing_keeps_the_version(api: Api) -> None:
    first = await api.post(api.configmaps, config_map("a", x="1"))
    again = await api.patch(f"{api.configmaps}/a", {"data": {"x": "1"}})
    assert (again.code, again.version) == (200, first.version)


async def test_an_update_from_an_old_version_conflicts(api: Api) -> None:
    first = await api.post(api.configmaps, config_map("a", x="1"))
    await api.patch(f"{api.configmaps}/a", {"data": {"x": "2"}})
    reply = await api.put(f"{api.configmaps}/a", {**first.body, "data": {"x": "3"}})
    assert (reply.code, reply.reason) == (409, "Conflict")
    assert "the object has been modified" in reply.body["message"]


async def test_a_core_object_may_be_updated_without_a_version(api: Api) -> None:
    await api.post(api.configmaps, config_map("a", x="1"))
    reply = await api.put(f"{api.configmaps}/a", config_map("a", x="2"))
    assert (reply.code, reply.body["data"]) == (200, {"x": "2"})


async def test_a_custom_object_may_not_be_updated_without_a_version(api: Api) -> None:
    await api.post(api.widgets, widget("a"))
    reply = await api.put(f"{api.widgets}/a", widget("a", size="large"))
    assert (reply.code, reply.reason) == (422, "Invalid")
    assert reply.causes == {("FieldValueInvalid", "metadata.resourceVersion")}


async def test_updating_a_missing_object_is_not_found(api: Api) -> None:
    assert (await api.put(f"{api.configmaps}/a", config_map("a"))).code == 404


async def test_updating_under_another_name_is_refused(api: Api) -> None:
    await api.post(api.configmaps, config_map("a"))
    assert (await api.put(f"{api.configmaps}/a", config_map("b"))).code == 400


async def test_a_patch_with_an_old_version_conflicts(api: Api) -> None:
    first = await api.post(api.configmaps, config_map("a", x="1"))
    await api.patch(f"{api.configmaps}/a", {"data": {"x": "2"}})
    reply = await api.patch(f"{api.configmaps}/a", {"metadata": {"resourceVersion": first.version}, "data": {"x": "3"}})
    assert (reply.code, reply.reason) == (409, "Conflict")


async def test_a_patch_with_another_uid_is_invalid_but_an_update_conflicts(api: Api) -> None:
    await api.post(api.configmaps, config_map("a", x="1"))
    patched = await api.patch(f"{api.configmaps}/a", {"metadata": {"uid": "another"}, "data": {"x": "3"}})
    assert (patched.code, patched.reason) == (422, "Invalid")
    assert patched.causes == {("FieldValueInvalid", "metadata.uid")}
    body = config_map("a", x="3")
    body["metadata"]["uid"] = "another"
    updated = await api.put(f"{api.configmaps}/a", body)
    assert (updated.code, updated.reason) == (409, "Conflict")


async def test_merge_patch_replaces_lists_and_removes_nulls(api: Api) -> None:
    await api.post(api.widgets, widget("a", numbers=[1, 2], title="first", labels={"a": "1", "b": "2"}))
    change = {"spec": {"numbers": [3], "title": None, "labels": {"b": None, "c": "3"}}}
    spec = (await api.patch(f"{api.widgets}/a", change)).body["spec"]
    assert spec == {"size": "small", "replicas": 1, "numbers": [3], "labels": {"a": "1", "c": "3"}}


async def test_json_patch_adds_replaces_tests_and_removes(api: Api) -> None:
    await api.post(api.widgets, widget("a", numbers=[1, 2], title="first"))
    operations = [
        {"op": "test", "path": "/spec/title", "value": "first"},
        {"op": "replace", "path": "/spec/title", "value": "second"},
        {"op": "add", "path": "/spec/numbers/1", "value": 7},
        {"op": "remove", "path": "/spec/numbers/0"},
        {"op": "add", "path": "/metadata/labels", "value": {"a/b": "c"}},
        {"op": "copy", "from": "/spec/title", "path": "/spec/maybe"},
    ]
    reply = await api.patch(f"{api.widgets}/a", operations, JSON_PATCH)
    assert reply.body["spec"] == {
        "size": "small",
        "replicas": 1,
        "numbers": [7, 2],
        "title": "second",
        "maybe": "second",
    }
    assert reply.body["metadata"]["labels"] == {"a/b": "c"}


@pytest.mark.parametrize(
    "operation",
    [
        {"op": "test", "path": "/spec/size", "value": "large"},
        {"op": "remove", "path": "/spec/title"},
        {"op": "replace", "path": "/spec/none/deeper", "value": 1},
    ],
    ids=["failed test", "removing nothing", "missing parent"],
)
async def test_a_json_patch_that_does_not_apply_is_refused(api: Api, operation: dict[str, object]) -> None:
    await api.post(api.widgets, widget("a"))
    reply = await api.patch(f"{api.widgets}/a", [operation], JSON_PATCH)
    assert (reply.code, reply.reason) == (422, "Invalid")


async def test_generation_counts_changes_of_the_spec_only(api: Api) -> None:
    path = f"{api.widgets}/a"
    created = await api.post(api.widgets, widget("a"))
    labelled = await api.patch(path, {"metadata": {"labels": {"x": "y"}}})
    reported = await api.patch(f"{path}/status", {"status": {"phase": "Fine"}})
    changed = await api.patch(path, {"spec": {"size": "large"}})
    generations = [reply.body["metadata"]["generation"] for reply in (created, labelled, reported, changed)]
    assert generations == [1, 1, 1, 2]


async def test_status_is_written_only_through_its_subresource(api: Api) -> None:
    path = f"{api.widgets}/a"
    body = {**widget("a"), "status": {"phase": "Early"}}
    created = await api.post(api.widgets, body)
    assert "status" not in created.body
    ignored = await api.patch(path, {"status": {"phase": "Wrong"}, "spec": {"size": "large"}})
    assert "status" not in ignored.body
    reported = await api.patch(
        f"{path}/status", {"status": {"phase": "Fine"}, "spec": {"size": "small"}, "metadata": {"labels": {"a": "b"}}}
    )
    assert reported.body["status"] == {"phase": "Fine"}
    assert reported.body["spec"]["size"] == "large"
    assert "labels" not in reported.body["metadata"]


async def test_status_may_be_replaced_through_its_subresource(api: Api) -> None:
    path = f"{api.widgets}/a"
    created = await api.post(api.widgets, widget("a"))
    await api.patch(f"{path}/status", {"status": {"phase": "Fine", "replicas": 2}})
    stale = await api.put(f"{path}/status", {**created.body, "status": {"phase": "Late"}})
    assert stale.code == 409
    current = await api.get(path)
    replaced = await api.put(f"{path}/status", {**current.body, "status": {"phase": "New"}})
    assert replaced.body["status"] == {"phase": "New"}


async def test_an_object_without_status_has_no_status_subresource(api: Api) -> None:
    await api.post(api.configmaps, config_map("a"))
    assert (await api.patch(f"{api.configmaps}/a/status", {"status": {}})).code == 404


async def test_identity_fields_cannot_be_changed(api: Api) -> None:
    created = await api.post(api.widgets, widget("a"))
    meta = {"creationTimestamp": "2001-01-01T00:00:00Z", "generation": 9}
    after = await api.patch(f"{api.widgets}/a", {"metadata": meta})
    kept = ("uid", "creationTimestamp", "generation")
    assert {k: after.body["metadata"][k] for k in kept} == {k: created.body["metadata"][k] for k in kept}
    deletion = await api.patch(f"{api.widgets}/a", {"metadata": {"deletionTimestamp": "2001-01-01T00:00:00Z"}})
    assert deletion.causes == {("FieldValueInvalid", "metadata.deletionTimestamp")}


async def test_dry_run_answers_but_stores_nothing(api: Api) -> None:
    reply = await api.post(api.widgets, widget("a"), dryRun="All")
    assert reply.code == 201
    assert reply.body["spec"]["replicas"] == 1
    assert (await api.get(f"{api.widgets}/a")).code == 404
    first = await api.post(api.widgets, widget("a"))
    tried = await api.patch(f"{api.widgets}/a", {"spec": {"size": "large"}}, dryRun="All")
    assert tried.body["spec"]["size"] == "large"
    await api.delete(f"{api.widgets}/a", dryRun="All")
    assert (await api.get(f"{api.widgets}/a")).version == first.version


async def test_scale_is_read_and_written_through_its_paths(api: Api) -> None:
    path = f"{api.widgets}/a"
    await api.post(api.widgets, widget("a", replicas=3))
    await api.patch(f"{path}/status", {"status": {"replicas": 2, "selector": "app=a"}})
    scale = await api.get(f"{path}/scale")
    assert (scale.body["kind"], scale.body["apiVersion"]) == ("Scale", "autoscaling/v1")
    assert scale.body["spec"] == {"replicas": 3}
    assert scale.body["status"] == {"replicas": 2, "selector": "app=a"}
    assert scale.body["metadata"]["name"] == "a"
    raised = await api.patch(f"{path}/scale", {"spec": {"replicas": 5}})
    assert raised.body["spec"] == {"replicas": 5}
    after = await api.get(path)
    assert after.body["spec"]["replicas"] == 5
    assert after.body["metadata"]["generation"] == 2


async def test_scaling_from_an_old_version_conflicts(api: Api) -> None:
    path = f"{api.widgets}/a"
    await api.post(api.widgets, widget("a", replicas=3))
    scale = await api.get(f"{path}/scale")
    await api.patch(path, {"spec": {"size": "large"}})
    scale.body["spec"]["replicas"] = 4
    assert (await api.put(f"{path}/scale", scale.body)).code == 409
    del scale.body["metadata"]["resourceVersion"]
    assert (await api.put(f"{path}/scale", scale.body)).body["spec"] == {"replicas": 4}


async def test_scale_is_validated_like_the_object(api: Api) -> None:
    await api.post(api.widgets, widget("a"))
    reply = await api.patch(f"{api.widgets}/a/scale", {"spec": {"replicas": 101}})
    assert (reply.code, reply.reason) == (422, "Invalid")


async def test_strategic_merge_patch_is_for_core_kinds(api: Api) -> None:
    strategic = "application/strategic-merge-patch+json"
    await api.post(api.configmaps, config_map("a", x="1"))
    merged = await api.patch(f"{api.configmaps}/a", {"data": {"y": "2"}}, strategic)
    assert merged.body["data"] == {"x": "1", "y": "2"}
    await api.post(api.widgets, widget("a"))
    assert (await api.patch(f"{api.widgets}/a", {"spec": {}}, strategic)).code == 415


async def test_discovery_lists_groups_versions_and_resources(api: Api) -> None:
    groups = (await api.get("/apis")).body["groups"]
    mine = next(group for group in groups if group["name"] == "conformance.grove.io")
    assert mine["versions"] == [{"groupVersion": "conformance.grove.io/v1", "version": "v1"}]
    resources = (await api.get("/apis/conformance.grove.io/v1")).body["resources"]
    widgets = next(resource for resource in resources if resource["name"] == "widgets")
    assert (widgets["kind"], widgets["namespaced"]) == ("Widget", True)
    assert {"get", "list", "watch", "create", "patch", "delete"} <= set(widgets["verbs"])
    assert {"widgets/status", "widgets/scale"} <= {resource["name"] for resource in resources}
    core = (await api.get("/api/v1")).body["resources"]
    assert {"pods", "pods/status", "pods/binding", "pods/eviction"} <= {resource["name"] for resource in core}
    assert (await api.get("/apis/none.example.com/v1")).code == 404
