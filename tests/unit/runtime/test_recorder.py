from __future__ import annotations

import asyncio
from typing import Any

import msgspec
from runtime_fakes import WIDGETS, TinyApi, status, widget

from grove.runtime.client import Client
from grove.runtime.objects import ObjectReference
from grove.runtime.recorder import Recorder, reference
from grove.runtime.transport import TransportError
from grove.testing.simloop import SimClock, simulate

ABOUT = reference(WIDGETS, widget("a", 1))


def recorder(api: TinyApi) -> Recorder:
    return Recorder(Client(api), controller="grove.io/operator", instance="pod-1", clock=SimClock())


def bodies(api: TinyApi, method: str) -> list[dict[str, Any]]:
    return [msgspec.json.decode(write.body or b"") for write in api.writes if write.method == method]


def test_an_event_says_what_happened_to_what() -> None:
    async def scenario() -> dict[str, Any]:
        api = TinyApi()
        events = recorder(api)
        events.event(ABOUT, "Created", "made it", type_="Warning", action="Create")
        await events.flush()
        (body,) = bodies(api, "POST")
        return body

    body = simulate(scenario())
    assert body["metadata"]["namespace"] == "ns"
    assert body["metadata"]["name"].startswith("a.")
    assert body["regarding"] == {
        "apiVersion": "example.com/v1",
        "kind": "Widget",
        "namespace": "ns",
        "name": "a",
        "uid": "uid-a",
        "resourceVersion": "1",
    }
    assert (body["reason"], body["note"], body["type"], body["action"]) == ("Created", "made it", "Warning", "Create")
    assert body["eventTime"] == "2026-01-01T00:00:00.000000Z"
    assert body["reportingInstance"] == "pod-1"


def test_repeats_become_a_series_that_is_written_seldom() -> None:
    async def scenario() -> tuple[int, list[dict[str, Any]]]:
        api = TinyApi()
        events = recorder(api)
        running = asyncio.create_task(events.run())
        for _ in range(100):
            events.event(ABOUT, "Waiting", "for capacity")
            await asyncio.sleep(1)
        running.cancel()
        return len(bodies(api, "POST")), bodies(api, "PATCH")

    created, patches = simulate(scenario())
    assert created == 1
    assert 2 <= len(patches) <= 4
    assert patches[-1]["series"]["count"] > 60


def test_a_repeat_after_a_long_silence_is_a_new_event() -> None:
    async def scenario() -> int:
        api = TinyApi()
        events = recorder(api)
        running = asyncio.create_task(events.run())
        for _ in range(2):
            events.event(ABOUT, "Waiting", "for capacity")
            await asyncio.sleep(3600)
        running.cancel()
        return len(bodies(api, "POST"))

    assert simulate(scenario()) == 2


def test_one_object_cannot_flood_and_others_are_still_heard() -> None:
    async def scenario() -> tuple[int, int, int]:
        api = TinyApi()
        events = recorder(api)
        for n in range(200):
            events.event(ABOUT, "Noise", f"number {n}")
        events.event(ObjectReference(kind="Widget", namespace="ns", name="b", uid="b"), "Quiet", "hello")
        await events.flush()
        posted = bodies(api, "POST")
        return len(posted), sum(body["reason"] == "Quiet" for body in posted), events.dropped

    written, quiet, dropped = simulate(scenario())
    assert written <= 30
    assert quiet == 1
    assert dropped >= 170


def test_failures_are_swallowed() -> None:
    async def scenario() -> tuple[int, int]:
        api = TinyApi()
        api.fault = lambda _: TransportError("down")
        events = recorder(api)
        events.event(ABOUT, "Created", "one")
        await events.flush()
        api.fault = lambda _: status(403, "Forbidden")
        events.event(ABOUT, "Created", "two")
        await events.flush()
        return events.dropped, len(api.writes)

    assert simulate(scenario()) == (2, 0)


def test_an_event_that_expired_on_the_server_is_begun_anew() -> None:
    async def scenario() -> int:
        api = TinyApi()
        events = recorder(api)
        running = asyncio.create_task(events.run())
        events.event(ABOUT, "Waiting", "for capacity")
        await asyncio.sleep(60)
        api.objects.clear()
        events.event(ABOUT, "Waiting", "for capacity")
        await asyncio.sleep(1)
        running.cancel()
        return len(bodies(api, "POST"))

    assert simulate(scenario()) == 2


def test_long_notes_are_cut_to_what_the_server_takes() -> None:
    async def scenario() -> str:
        api = TinyApi()
        events = recorder(api)
        events.event(ABOUT, "Long", "ä" * 2000)
        await events.flush()
        return str(bodies(api, "POST")[0]["note"])

    note = simulate(scenario())
    assert len(note.encode()) <= 1024
    assert note.endswith("…")
