"""Lists and watches: pages, selectors, versions, bookmarks, initial events, and what happens to old versions."""

from __future__ import annotations

import asyncio
from typing import Any

from conformance_api import Api, config_map, pod


async def _fill(api: Api, count: int) -> list[str]:
    names = [f"c{index}" for index in range(count)]
    for index, name in enumerate(names):
        body = config_map(name)
        body["metadata"]["labels"] = {"parity": ("even", "odd")[index % 2], "index": str(index)}
        await api.post(api.configmaps, body)
    return names


def _names(items: list[dict[str, Any]]) -> list[str]:
    return [item["metadata"]["name"] for item in items if item["metadata"]["name"].startswith("c")]


async def test_a_list_has_a_kind_a_version_and_items_in_order(api: Api) -> None:
    names = await _fill(api, 3)
    listed = (await api.get(api.configmaps)).body
    assert (listed["kind"], listed["apiVersion"]) == ("ConfigMapList", "v1")
    assert int(listed["metadata"]["resourceVersion"]) > 0
    assert [name for name in _names(listed["items"]) if name in names] == names


async def test_pages_show_one_consistent_state(api: Api) -> None:
    await _fill(api, 5)
    query = {"limit": "2", "labelSelector": "parity"}
    first = await api.get(api.configmaps, **query)
    await api.delete(f"{api.configmaps}/c4")
    await api.post(api.configmaps, config_map("c9"))
    second = await api.get(api.configmaps, **query, **{"continue": first.body["metadata"]["continue"]})
    third = await api.get(api.configmaps, **query, **{"continue": second.body["metadata"]["continue"]})
    pages = [_names(reply.body["items"]) for reply in (first, second, third)]
    assert pages == [["c0", "c1"], ["c2", "c3"], ["c4"]]
    assert first.version == second.version == third.version
    assert "continue" not in third.body["metadata"]


async def test_label_selectors(api: Api) -> None:
    await _fill(api, 4)
    expected = {
        "parity=odd": ["c1", "c3"],
        "parity!=odd,parity": ["c0", "c2"],
        "index in (1, 2),parity=odd": ["c1"],
        "index notin (1,2),parity": ["c0", "c3"],
        "parity,!index": [],
        "parity==even": ["c0", "c2"],
    }
    found = {text: _names((await api.get(api.configmaps, labelSelector=text)).body["items"]) for text in expected}
    assert found == expected


async def test_field_selectors(api: Api) -> None:
    await api.post(api.pods, pod("c0"))
    nowhere = f"nowhere-{api.namespace}"
    await api.post(api.pods, pod("c1", nodeName=nowhere))
    await api.post(api.pods, pod("c2", schedulerName="another"))
    expected = {
        "metadata.name=c1": ["c1"],
        f"spec.nodeName={nowhere}": ["c1"],
        "spec.nodeName=": ["c0", "c2"],
        "spec.schedulerName=another": ["c2"],
        "status.phase=Pending,metadata.name!=c1": ["c0", "c2"],
    }
    found = {text: _names((await api.get(api.pods, fieldSelector=text)).body["items"]) for text in expected}
    assert found == expected


async def test_a_malformed_selector_is_a_bad_request(api: Api) -> None:
    assert (await api.get(api.configmaps, labelSelector="a in (b")).code == 400
    assert (await api.get(api.configmaps, fieldSelector="metadata.name")).code == 400


async def test_listing_all_namespaces(api: Api) -> None:
    await _fill(api, 2)
    items = (await api.get("/api/v1/configmaps", labelSelector="parity")).body["items"]
    mine = [item["metadata"]["name"] for item in items if item["metadata"]["namespace"] == api.namespace]
    assert mine == ["c0", "c1"]


async def test_a_watch_from_a_version_replays_what_followed(api: Api) -> None:
    start = (await api.get(api.configmaps)).version
    await api.post(api.configmaps, config_map("a", x="1"))
    await api.patch(f"{api.configmaps}/a", {"data": {"x": "2"}})
    await api.delete(f"{api.configmaps}/a")
    seen = []
    query = {"resourceVersion": start, "fieldSelector": "metadata.name=a"}
    async with api.watch(api.configmaps, **query) as events:
        async for event in events:
            seen.append((event["type"], event["object"]["data"]["x"], event["object"]["metadata"]["resourceVersion"]))
            if event["type"] == "DELETED":
                break
    assert [(kind, value) for kind, value, _ in seen] == [("ADDED", "1"), ("MODIFIED", "2"), ("DELETED", "2")]
    versions = [int(version) for _, _, version in seen]
    assert versions == sorted(set(versions))


async def test_a_watch_without_a_version_starts_with_the_present(api: Api) -> None:
    await _fill(api, 2)
    async with api.watch(api.configmaps, labelSelector="parity") as events:
        first = [await anext(events), await anext(events)]
        await api.delete(f"{api.configmaps}/c0")
        last = await anext(events)
    assert sorted((event["type"], event["object"]["metadata"]["name"]) for event in first) == [
        ("ADDED", "c0"),
        ("ADDED", "c1"),
    ]
    assert (last["type"], last["object"]["metadata"]["name"]) == ("DELETED", "c0")


async def test_an_object_that_enters_or_leaves_a_selector_is_added_or_deleted(api: Api) -> None:
    start = (await api.get(api.configmaps)).version
    body = config_map("a")
    body["metadata"]["labels"] = {"team": "red"}
    await api.post(api.configmaps, body)
    for team in ("blue", "green", "blue"):
        await api.patch(f"{api.configmaps}/a", {"metadata": {"labels": {"team": team}}})
    last = await api.patch(f"{api.configmaps}/a", {"data": {"x": "1"}})
    seen = []
    async with api.watch(api.configmaps, resourceVersion=start, labelSelector="team=blue") as events:
        async for event in events:
            seen.append((event["type"], event["object"]["metadata"]["labels"]["team"]))
            if event["object"]["metadata"]["resourceVersion"] == last.version:
                break
    assert seen == [("ADDED", "blue"), ("DELETED", "blue"), ("ADDED", "blue"), ("MODIFIED", "blue")]


async def test_a_streaming_list_ends_with_a_marked_bookmark(api: Api) -> None:
    await _fill(api, 3)
    query = {
        "sendInitialEvents": "true",
        "resourceVersionMatch": "NotOlderThan",
        "allowWatchBookmarks": "true",
        "labelSelector": "parity",
    }
    seen: list[tuple[str, str]] = []
    async with api.watch(api.configmaps, **query) as events:
        async for event in events:
            if event["type"] == "BOOKMARK":
                bookmark = event["object"]
                break
            seen.append((event["type"], event["object"]["metadata"]["name"]))
        await api.post(api.configmaps, {**config_map("c9"), "metadata": {"name": "c9", "labels": {"parity": "odd"}}})
        async for event in events:
            if event["type"] != "BOOKMARK":
                break
    assert sorted(seen) == [("ADDED", "c0"), ("ADDED", "c1"), ("ADDED", "c2")]
    assert bookmark["kind"] == "ConfigMap"
    assert bookmark["metadata"]["annotations"] == {"k8s.io/initial-events-end": "true"}
    assert int(bookmark["metadata"]["resourceVersion"]) > 0
    assert (event["type"], event["object"]["metadata"]["name"]) == ("ADDED", "c9")


async def test_a_streaming_list_must_say_how_versions_match(api: Api) -> None:
    reply = await api.get(api.configmaps, watch="true", sendInitialEvents="true")
    assert (reply.code, reply.reason) == (422, "Invalid")
    assert reply.causes == {("FieldValueForbidden", "resourceVersionMatch")}


async def test_a_watch_ends_after_its_timeout(api: Api) -> None:
    start = (await api.get(api.configmaps)).version
    async with asyncio.timeout(20):
        async with api.watch(
            api.configmaps, resourceVersion=start, timeoutSeconds="1", fieldSelector="metadata.name=none"
        ) as events:
            assert [event async for event in events] == []


async def test_a_watch_from_a_forgotten_version_is_gone(api: Api) -> None:
    """Version 1 lies before the definition of the widgets, and so before everything the server remembers of them."""
    async with api.watch(api.widgets, resourceVersion="1") as events:
        event = await anext(events)
    assert event["type"] == "ERROR"
    assert (event["object"]["code"], event["object"]["reason"]) == (410, "Expired")
    assert event["object"]["kind"] == "Status"


async def test_a_broken_continue_token_is_refused(api: Api) -> None:
    reply = await api.get(api.configmaps, limit="1", **{"continue": "bm9uc2Vuc2U"})
    assert reply.code == 400


async def test_reading_a_version_of_the_future_asks_to_wait(api: Api) -> None:
    """The real server waits three seconds for the version before it gives up."""
    future = str(int((await api.get(api.configmaps)).version) + 1_000_000)
    reply = await api.get(api.configmaps, resourceVersion=future, resourceVersionMatch="NotOlderThan")
    assert (reply.code, reply.reason) == (504, "Timeout")
    assert ("ResourceVersionTooLarge", "") in reply.causes
