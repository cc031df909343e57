"""Each fault does what its name says, and nothing a real server never does."""

from __future__ import annotations

import asyncio
import random
from typing import Any

import msgspec
import pytest
from memory_api import CONFIGMAPS, call, config_map, must

from grove.runtime.transport import HttpRequest, TransportError, TransportTimeout
from grove.testing import ApiServer, simulate
from grove.testing.faults import Faults, FaultyTransport, ProcessCrash
from grove.testing.faultywatch import merged
from grove.testing.process import supervise


def _faulty(faults: Faults, server: ApiServer | None = None) -> FaultyTransport:
    return FaultyTransport((server or ApiServer()).transport(), faults, random.Random(1))


def _names(transport: FaultyTransport) -> list[str]:
    return [obj["metadata"]["name"] for obj in transport.inner.server.objects("v1", "ConfigMap")]


@pytest.mark.parametrize(("fault", "code"), [("throttled", 429), ("server_error", 500)])
def test_refusals_come_before_the_write(fault: str, code: int) -> None:
    async def story() -> None:
        transport = _faulty(Faults(**{fault: 1.0}))
        status, _ = await call(transport, "POST", CONFIGMAPS, config_map("a"))
        assert (status, _names(transport)) == (code, [])

    simulate(story())


def test_a_throttled_answer_says_when_to_come_back() -> None:
    async def story() -> None:
        answer = await _faulty(Faults(throttled=1.0)).request(HttpRequest("GET", CONFIGMAPS))
        assert answer.headers["retry-after"] == "1"

    simulate(story())


def test_a_conflict_hits_changes_but_not_creates() -> None:
    async def story() -> None:
        transport = _faulty(Faults(conflict=1.0))
        await must(transport, "POST", CONFIGMAPS, config_map("a"))
        status, answer = await call(transport, "PUT", f"{CONFIGMAPS}/a", config_map("a", x="1"))
        assert (status, answer["reason"]) == (409, "Conflict")

    simulate(story())


def test_a_lost_answer_leaves_the_write_in_place() -> None:
    async def story() -> None:
        transport = _faulty(Faults(timeout_after=1.0))
        with pytest.raises(TransportTimeout):
            await call(transport, "POST", CONFIGMAPS, config_map("a"))
        assert _names(transport) == ["a"]
        transport = _faulty(Faults(timeout_before=1.0))
        with pytest.raises(TransportTimeout):
            await call(transport, "POST", CONFIGMAPS, config_map("a"))
        assert _names(transport) == []

    simulate(story())


@pytest.mark.parametrize(("faults", "left"), [("crash_before_write", ["w1"]), ("crash_after_write", ["w1", "w2"])])
def test_a_program_dies_around_its_write_and_cannot_act_afterwards(faults: str, left: list[str]) -> None:
    async def story() -> None:
        transport = _faulty(Faults(**{faults: frozenset({2})}))
        await must(transport, "POST", CONFIGMAPS, config_map("w1"))
        with pytest.raises(ProcessCrash):
            await call(transport, "POST", CONFIGMAPS, config_map("w2"))
        assert _names(transport) == left
        with pytest.raises(TransportError):
            await call(transport, "POST", CONFIGMAPS, config_map("w3"))
        await must(transport.restarted(), "POST", CONFIGMAPS, config_map("w4"))
        assert _names(transport) == [*left, "w4"]

    simulate(story())


def test_a_supervised_program_starts_again_after_a_crash() -> None:
    async def story() -> None:
        server = ApiServer()
        lives: list[int] = []

        async def program(transport: FaultyTransport) -> None:
            lives.append(len(lives))
            await must(transport, "POST", CONFIGMAPS, config_map(f"life-{len(lives)}"))
            await asyncio.sleep(1000)

        task = asyncio.create_task(supervise(program, _faulty(Faults(crash_after_write=frozenset({1, 2})), server)))
        await asyncio.sleep(60)
        assert len(lives) == 3
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)

    simulate(story())


def test_a_program_that_ends_by_itself_is_a_failure() -> None:
    async def story() -> None:
        async def program(transport: FaultyTransport) -> None:
            raise ValueError("a bug")

        with pytest.raises(ValueError, match="a bug"):
            await supervise(program, _faulty(Faults()))

    simulate(story())


def test_a_stale_list_only_goes_to_who_accepts_one() -> None:
    async def story() -> None:
        server = ApiServer()
        for index in range(20):
            await must(server.transport(), "POST", CONFIGMAPS, config_map(f"c{index}"))
        transport = _faulty(Faults(stale_list=1.0), server)
        fresh = await must(transport, "GET", CONFIGMAPS)
        stale = await must(transport, "GET", CONFIGMAPS, resourceVersion="0")
        assert len(fresh["items"]) == 20
        assert len(stale["items"]) < 20
        assert int(stale["metadata"]["resourceVersion"]) < int(fresh["metadata"]["resourceVersion"])

    simulate(story())


async def _watched(faults: Faults, count: int) -> list[dict[str, Any]]:
    """Events of `count` changes of one object, up to where the stream breaks or the last one came."""
    server = ApiServer()
    start = str(server.storage.version)
    transport = _faulty(faults, server)
    await must(server.transport(), "POST", CONFIGMAPS, config_map("a", n="0"))
    for number in range(1, count):
        await must(server.transport(), "PATCH", f"{CONFIGMAPS}/a", {"data": {"n": str(number)}})
    text = b""
    request = HttpRequest("GET", CONFIGMAPS, (("watch", "1"), ("resourceVersion", start), ("timeoutSeconds", "30")))
    async with transport.stream(request) as stream:
        try:
            async for chunk in stream.chunks():
                text += chunk
        except TransportError:
            pass
    return [msgspec.json.decode(line) for line in text.split(b"\n") if line.endswith(b"}")]


def test_a_calm_watch_delivers_everything_in_order() -> None:
    events = simulate(_watched(Faults(), 10))
    assert [event["object"]["data"]["n"] for event in events] == [str(number) for number in range(10)]


def test_a_dropped_watch_ends_early_with_a_prefix() -> None:
    events = simulate(_watched(Faults(watch_drop=0.3), 30))
    numbers = [event["object"]["data"]["n"] for event in events]
    assert len(numbers) < 30
    assert numbers == [str(number) for number in range(len(numbers))]


def test_duplicates_are_repeated_at_once() -> None:
    events = simulate(_watched(Faults(watch_duplicate=1.0), 3))
    assert [event["object"]["data"]["n"] for event in events] == ["0", "0", "1", "1", "2", "2"]


def test_merged_events_keep_the_last_state_of_each_object() -> None:
    events = simulate(_watched(Faults(watch_merge=1.0), 10))
    assert [(event["type"], event["object"]["data"]["n"]) for event in events] == [("ADDED", "9")]


def test_merging_never_joins_two_lives_of_a_name() -> None:
    def line(kind: str, uid: str, version: int) -> bytes:
        meta = {"name": "a", "uid": uid, "resourceVersion": str(version)}
        return msgspec.json.encode({"type": kind, "object": {"metadata": meta}}) + b"\n"

    lines = [line("ADDED", "u1", 1), line("MODIFIED", "u1", 2), line("DELETED", "u1", 3), line("ADDED", "u2", 4)]
    events = [msgspec.json.decode(text) for text in merged(lines)]
    assert [(event["type"], event["object"]["metadata"]["uid"]) for event in events] == [
        ("DELETED", "u1"),
        ("ADDED", "u2"),
    ]


def test_a_resumed_watch_may_find_its_version_gone() -> None:
    (event,) = simulate(_watched(Faults(watch_gone=1.0), 2))
    assert (event["type"], event["object"]["code"]) == ("ERROR", 410)


def test_lag_delays_delivery() -> None:
    async def story() -> float:
        await _watched(Faults(watch_lag=(3.0, 3.0)), 2)
        return asyncio.get_running_loop().time()

    assert simulate(story()) >= 3.0


def test_calm_switches_everything_off() -> None:
    faults = Faults.drawn(random.Random(5), strength=1.0)
    faults.calm()
    assert faults == Faults()
