"""Server-side apply: who owns what, what a change of the applied fields does, and how lists merge."""

from __future__ import annotations

from typing import Any

from conformance_api import Api, config_map, pod, widget


def _owners(obj: dict[str, Any]) -> dict[tuple[str, str, str], Any]:
    return {
        (entry["manager"], entry["operation"], entry.get("subresource", "")): entry["fieldsV1"]
        for entry in obj["metadata"]["managedFields"]
    }


async def test_apply_creates_and_then_updates(api: Api) -> None:
    path = f"{api.configmaps}/a"
    created = await api.apply(path, config_map("a", x="1"))
    updated = await api.apply(path, config_map("a", x="2"))
    assert (created.code, updated.code) == (201, 200)
    assert updated.body["data"] == {"x": "2"}


async def test_applying_the_same_again_keeps_the_version(api: Api) -> None:
    path = f"{api.widgets}/a"
    body = widget("a", parts=[{"name": "p", "colour": "red"}], tags=["t"], nested={})
    first = await api.apply(path, body)
    again = await api.apply(path, body)
    assert again.version == first.version
    await api.patch(f"{path}/status", {"status": {"phase": "Fine"}})
    reported = await api.get(path)
    assert (await api.apply(path, body)).version == reported.version


async def test_apply_needs_a_field_manager(api: Api) -> None:
    reply = await api.patch(f"{api.configmaps}/a", config_map("a"), "application/apply-patch+yaml")
    assert (reply.code, reply.reason) == (422, "Invalid")
    assert reply.causes == {("FieldValueRequired", "fieldManager")}


async def test_apply_needs_the_right_version_and_name(api: Api) -> None:
    path = f"{api.configmaps}/a"
    assert (await api.apply(path, {**config_map("a"), "apiVersion": "v2"})).code == 400
    assert (await api.apply(path, config_map("b"))).code == 400


async def test_a_field_no_longer_applied_is_removed(api: Api) -> None:
    path = f"{api.configmaps}/a"
    await api.apply(path, config_map("a", x="1", y="2"))
    after = await api.apply(path, config_map("a", y="2"))
    assert after.body["data"] == {"y": "2"}


async def test_a_field_another_manager_also_applied_stays(api: Api) -> None:
    path = f"{api.configmaps}/a"
    await api.apply(path, config_map("a", x="1", y="2"), manager="one")
    await api.apply(path, config_map("a", y="2"), manager="two")
    after = await api.apply(path, config_map("a", x="1"), manager="one")
    assert after.body["data"] == {"x": "1", "y": "2"}
    last = await api.apply(path, config_map("a"), manager="two")
    assert last.body["data"] == {"x": "1"}


async def test_changing_a_field_of_another_manager_conflicts_unless_forced(api: Api) -> None:
    path = f"{api.configmaps}/a"
    await api.apply(path, config_map("a", x="1", y="1"), manager="one")
    refused = await api.apply(path, config_map("a", x="2"), manager="two")
    assert (refused.code, refused.reason) == (409, "Conflict")
    assert refused.causes == {("FieldManagerConflict", ".data.x")}
    assert refused.body["message"] == 'Apply failed with 1 conflict: conflict with "one": .data.x'
    forced = await api.apply(path, config_map("a", x="2"), manager="two", force="true")
    assert forced.body["data"] == {"x": "2", "y": "1"}
    owners = _owners(forced.body)
    assert "f:x" not in owners["one", "Apply", ""]["f:data"]
    assert "f:x" in owners["two", "Apply", ""]["f:data"]


async def test_setting_the_same_value_shares_the_field(api: Api) -> None:
    path = f"{api.configmaps}/a"
    await api.apply(path, config_map("a", x="1"), manager="one")
    shared = await api.apply(path, config_map("a", x="1"), manager="two")
    assert shared.code == 200
    assert {name for name, _, _ in _owners(shared.body)} == {"one", "two"}


async def test_several_conflicts_are_listed(api: Api) -> None:
    path = f"{api.configmaps}/a"
    await api.apply(path, config_map("a", x="1", y="1"), manager="one")
    refused = await api.apply(path, config_map("a", x="2", y="2"), manager="two")
    assert refused.causes == {("FieldManagerConflict", ".data.x"), ("FieldManagerConflict", ".data.y")}
    assert refused.body["message"].startswith('Apply failed with 2 conflicts: conflicts with "one":\n- .data.')


async def test_a_patch_takes_over_what_it_changes(api: Api) -> None:
    path = f"{api.configmaps}/a"
    await api.apply(path, config_map("a", x="1", y="1"), manager="one")
    await api.patch(path, {"data": {"x": "2"}}, fieldManager="two")
    owners = _owners((await api.get(path)).body)
    assert owners["one", "Apply", ""] == {"f:data": {"f:y": {}}}
    assert owners["two", "Update", ""] == {"f:data": {"f:x": {}}}
    refused = await api.apply(path, config_map("a", x="1", y="1"), manager="one")
    assert refused.causes == {("FieldManagerConflict", ".data.x")}
    assert 'conflict with "two" using v1' in refused.body["message"]


async def test_giving_up_a_field_somebody_else_changed_leaves_it(api: Api) -> None:
    path = f"{api.configmaps}/a"
    await api.apply(path, config_map("a", x="1", y="1"))
    await api.patch(path, {"data": {"x": "2"}}, fieldManager="two")
    after = await api.apply(path, config_map("a", y="1"))
    assert after.body["data"] == {"x": "2", "y": "1"}


async def test_a_created_object_belongs_to_its_creator(api: Api) -> None:
    await api.post(api.configmaps, config_map("a", x="1"), fieldManager="maker")
    owners = _owners((await api.get(f"{api.configmaps}/a")).body)
    assert owners == {("maker", "Update", ""): {"f:data": {".": {}, "f:x": {}}}}


async def test_status_is_applied_and_owned_apart(api: Api) -> None:
    path = f"{api.widgets}/a"
    await api.apply(path, widget("a"), manager="one")
    body = {**widget("a", size="large"), "status": {"phase": "Fine"}}
    reported = await api.apply(f"{path}/status", body, manager="one")
    assert reported.body["status"] == {"phase": "Fine"}
    assert reported.body["spec"]["size"] == "small"
    owners = _owners(reported.body)
    assert owners["one", "Apply", "status"] == {"f:status": {"f:phase": {}}}
    assert owners["one", "Apply", ""] == {"f:spec": {"f:size": {}}}


async def test_applying_the_status_of_nothing_is_not_found(api: Api) -> None:
    assert (await api.apply(f"{api.widgets}/a/status", widget("a"))).code == 404


async def test_keyed_lists_merge_by_key(api: Api) -> None:
    path = f"{api.widgets}/a"
    await api.apply(path, widget("a", parts=[{"name": "p", "colour": "red"}, {"name": "q"}]), manager="one")
    merged = await api.apply(
        path, widget("a", parts=[{"name": "r"}, {"name": "p", "weight": 7}]), manager="two", force="true"
    )
    assert {part["name"]: part for part in merged.body["spec"]["parts"]} == {
        "p": {"name": "p", "colour": "red", "weight": 7},
        "q": {"name": "q", "weight": 5},
        "r": {"name": "r", "weight": 5},
    }
    after = await api.apply(path, widget("a", parts=[{"name": "q"}]), manager="one")
    assert {part["name"]: part for part in after.body["spec"]["parts"]} == {
        "p": {"name": "p", "weight": 7},
        "q": {"name": "q", "weight": 5},
        "r": {"name": "r", "weight": 5},
    }


async def test_keyed_lists_keep_the_applied_order(api: Api) -> None:
    path = f"{api.widgets}/a"

    async def order(*names: str, manager: str) -> str:
        reply = await api.apply(path, widget("a", parts=[{"name": name} for name in names]), manager=manager)
        return "".join(part["name"] for part in reply.body["spec"]["parts"])

    assert await order("a", "b", "c", manager="one") == "abc"
    assert await order("x", "b", manager="two") == "axbc"
    assert await order("c", "a", manager="one") == await order("c", "a", manager="one")


async def test_sets_merge_by_value(api: Api) -> None:
    path = f"{api.widgets}/a"
    await api.apply(path, widget("a", tags=["x", "y"]), manager="one")
    merged = await api.apply(path, widget("a", tags=["y", "z"]), manager="two")
    assert sorted(merged.body["spec"]["tags"]) == ["x", "y", "z"]
    after = await api.apply(path, widget("a", tags=["y"]), manager="one")
    assert sorted(after.body["spec"]["tags"]) == ["y", "z"]


async def test_plain_lists_and_atomic_maps_are_replaced_whole(api: Api) -> None:
    path = f"{api.widgets}/a"
    await api.apply(path, widget("a", numbers=[1, 2], whole={"a": "1"}), manager="one")
    refused = await api.apply(path, widget("a", numbers=[3], whole={"b": "2"}), manager="two")
    assert refused.causes == {
        ("FieldManagerConflict", ".spec.numbers"),
        ("FieldManagerConflict", ".spec.whole"),
    }
    forced = await api.apply(path, widget("a", numbers=[3], whole={"b": "2"}), manager="two", force="true")
    assert (forced.body["spec"]["numbers"], forced.body["spec"]["whole"]) == ([3], {"b": "2"})


async def test_giving_up_the_last_field_of_a_map(api: Api) -> None:
    path = f"{api.widgets}/a"
    await api.apply(path, widget("a", labels={"x": "1"}, settings={"one": "1"}, tags=["t"], parts=[{"name": "p"}]))
    after = await api.apply(path, widget("a"))
    assert after.code == 200
    assert {name: value for name, value in after.body["spec"].items() if value} == {"size": "small", "replicas": 1}
    map_data = f"{api.configmaps}/a"
    await api.apply(map_data, config_map("a", x="1"))
    assert "data" not in (await api.apply(map_data, config_map("a"))).body


async def test_labels_and_finalizers_are_owned_one_by_one(api: Api) -> None:
    path = f"{api.configmaps}/a"

    def body(labels: dict[str, str], finalizers: list[str]) -> dict[str, Any]:
        return {
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": {"name": "a", "labels": labels, "finalizers": finalizers},
        }

    await api.apply(path, body({"x": "1"}, ["example.com/one"]), manager="one")
    both = await api.apply(path, body({"y": "2"}, ["example.com/two"]), manager="two")
    assert both.body["metadata"]["labels"] == {"x": "1", "y": "2"}
    assert sorted(both.body["metadata"]["finalizers"]) == ["example.com/one", "example.com/two"]
    after = await api.apply(path, body({}, []), manager="one")
    assert after.body["metadata"]["labels"] == {"y": "2"}
    assert after.body["metadata"]["finalizers"] == ["example.com/two"]
    await api.apply(path, body({}, []), manager="two")


async def test_containers_env_and_ports_of_pods_merge(api: Api) -> None:
    path = f"{api.pods}/a"
    main = {"name": "main", "image": "registry.example/main:1", "env": [{"name": "A", "value": "1"}]}
    await api.apply(path, pod("a", containers=[main], schedulingGates=[{"name": "example.com/one"}]), manager="one")
    gates = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "a", "labels": {"x": "y"}},
        "spec": {"containers": [{"name": "main", "image": "registry.example/main:2"}]},
    }
    refused = await api.apply(path, gates, manager="two")
    assert refused.causes == {("FieldManagerConflict", '.spec.containers[name="main"].image')}
    forced = await api.apply(path, gates, manager="two", force="true")
    container = forced.body["spec"]["containers"][0]
    assert (container["image"], container["env"]) == ("registry.example/main:2", [{"name": "A", "value": "1"}])


async def test_a_gate_no_longer_applied_is_removed(api: Api) -> None:
    path = f"{api.pods}/a"
    await api.apply(path, pod("a", schedulingGates=[{"name": "example.com/one"}, {"name": "example.com/two"}]))
    after = await api.apply(path, pod("a", schedulingGates=[{"name": "example.com/two"}]))
    assert after.body["spec"]["schedulingGates"] == [{"name": "example.com/two"}]
    free = await api.apply(path, pod("a"))
    assert "schedulingGates" not in free.body["spec"]


async def test_owner_references_merge_by_uid(api: Api) -> None:
    path = f"{api.configmaps}/a"
    owners = [(await api.post(api.widgets, widget(f"w{index}"))).body for index in range(2)]

    def body(owner: dict[str, Any]) -> dict[str, Any]:
        reference = {
            "apiVersion": owner["apiVersion"],
            "kind": "Widget",
            "name": owner["metadata"]["name"],
            "uid": owner["metadata"]["uid"],
        }
        metadata = {"name": "a", "ownerReferences": [reference]}
        return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata}

    await api.apply(path, body(owners[0]), manager="one")
    both = await api.apply(path, body(owners[1]), manager="two")
    assert len(both.body["metadata"]["ownerReferences"]) == 2


async def test_an_applied_version_or_uid_is_a_precondition(api: Api) -> None:
    path = f"{api.configmaps}/a"
    first = await api.apply(path, config_map("a", x="1"))
    await api.apply(path, config_map("a", x="2"))
    body = config_map("a", x="3")
    body["metadata"]["resourceVersion"] = first.version
    assert (await api.apply(path, body)).code == 409
    absent = config_map("b")
    absent["metadata"]["uid"] = first.body["metadata"]["uid"]
    assert (await api.apply(f"{api.configmaps}/b", absent)).code == 409


async def test_dry_run_apply_answers_but_stores_nothing(api: Api) -> None:
    path = f"{api.configmaps}/a"
    assert (await api.apply(path, config_map("a", x="1"), dryRun="All")).code == 201
    assert (await api.get(path)).code == 404
    first = await api.apply(path, config_map("a", x="1"))
    tried = await api.apply(path, config_map("a", x="2"), dryRun="All")
    assert tried.body["data"] == {"x": "2"}
    assert (await api.get(path)).version == first.version
