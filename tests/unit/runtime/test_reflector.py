from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

import pytest
from runtime_fakes import (
    WIDGETS,
    FakeStream,
    ScriptedTransport,
    Widget,
    bookmark,
    error_event,
    event,
    ok,
    status,
    widget,
)

from grove.runtime.client import Client
from grove.runtime.reflector import Reflector
from grove.runtime.store import Store
from grove.runtime.transport import HttpResponse, TransportError
from grove.testing.simloop import simulate

Stream = FakeStream | HttpResponse | Exception
CUT = TransportError("cut")


class Outcome:
    """What a reflector did with a script."""

    def __init__(self, store: Store[Widget], transport: ScriptedTransport, changes: list[Any]) -> None:
        self.store = store
        self.opened = transport.opened
        self.asked = transport.asked
        self.changes = changes
        self.seconds = asyncio.get_running_loop().time()

    @property
    def held(self) -> dict[str, str]:
        return {obj.metadata.name: obj.metadata.resource_version for obj in self.store.all()}


def play(streams: Sequence[Stream], answers: Sequence[HttpResponse | Exception] = ()) -> Outcome:
    """Runs a reflector until the script of streams is used up."""

    async def scenario() -> Outcome:
        transport = ScriptedTransport(list(answers), list(streams))
        store = Store(WIDGETS)
        changes: list[Any] = []
        store.subscribe(lambda old, new: changes.append(((old or new).metadata.name, old is None, new is None)))  # type: ignore[union-attr]
        running = asyncio.create_task(Reflector(Client(transport), store, namespace="ns").run())
        await transport.exhausted.wait()
        await asyncio.sleep(0)
        running.cancel()
        return Outcome(store, transport, changes)

    return simulate(scenario(), limit=600)


def initial(*objects: Widget, version: int = 10) -> list[bytes | Exception | str]:
    return [*(event("ADDED", obj) for obj in objects), bookmark(version, ends=True)]


def test_a_streamed_list_fills_the_store_and_the_watch_goes_on() -> None:
    outcome = play([FakeStream([*initial(widget("a", 1), widget("b", 2)), event("MODIFIED", widget("a", 11))])])
    assert outcome.held == {"a": "11", "b": "2"}
    assert outcome.store.synced
    first, second = outcome.opened
    assert first["sendInitialEvents"] == "true"
    assert first["resourceVersionMatch"] == "NotOlderThan"
    assert second["resourceVersion"] == "11"
    assert "sendInitialEvents" not in second


def test_nothing_is_believed_before_the_list_is_complete() -> None:
    outcome = play([FakeStream([event("ADDED", widget("a", 1)), CUT]), FakeStream(initial(widget("b", 2)))])
    assert outcome.held == {"b": "2"}
    assert "resourceVersion" not in outcome.opened[1]


def test_the_list_may_change_while_it_is_streamed() -> None:
    stream = [
        event("ADDED", widget("a", 1)),
        event("ADDED", widget("b", 2)),
        event("MODIFIED", widget("b", 5)),
        event("DELETED", widget("a", 6)),
        bookmark(7, ends=True),
    ]
    assert play([FakeStream(list(stream))]).held == {"b": "5"}


def test_a_broken_watch_goes_on_where_it_was_and_loses_nothing() -> None:
    half = event("ADDED", widget("c", 13))
    outcome = play(
        [
            FakeStream([*initial(widget("a", 1)), event("ADDED", widget("b", 12)), half[:30], CUT]),
            FakeStream([half]),
        ]
    )
    assert outcome.opened[1]["resourceVersion"] == "12"
    assert outcome.held == {"a": "1", "b": "12", "c": "13"}
    assert [change[0] for change in outcome.changes] == ["a", "b", "c"]


def test_bookmarks_move_the_place_to_resume_from() -> None:
    outcome = play([FakeStream([*initial(), bookmark(40)]), FakeStream([bookmark(41)])])
    assert [query.get("resourceVersion") for query in outcome.opened] == [None, "40", "41"]


@pytest.mark.parametrize("how", ["event", "answer"])
def test_an_expired_version_is_listed_again_and_only_differences_are_told(how: str) -> None:
    expired: Stream = status(410, "Expired") if how == "answer" else FakeStream([error_event(410, "Expired")])
    outcome = play(
        [
            FakeStream(initial(widget("same", 1), widget("gone", 2), widget("changed", 3))),
            expired,
            FakeStream(initial(widget("same", 1), widget("changed", 23), widget("new", 24), version=30)),
        ]
    )
    assert outcome.held == {"same": "1", "changed": "23", "new": "24"}
    assert outcome.changes[3:] == [("changed", False, False), ("new", True, False), ("gone", False, True)]


def test_a_server_that_cannot_stream_lists_is_asked_for_pages() -> None:
    pages = [
        ok({"metadata": {"resourceVersion": "9", "continue": "more"}, "items": [widget("a", 1)]}),
        ok({"metadata": {"resourceVersion": "9"}, "items": [widget("b", 2)]}),
    ]
    outcome = play([status(422, "Invalid"), FakeStream([event("ADDED", widget("c", 12))])], pages)
    assert outcome.held == {"a": "1", "b": "2", "c": "12"}
    assert outcome.opened[1]["resourceVersion"] == "9"


def test_a_page_list_that_breaks_starts_over() -> None:
    pages: list[HttpResponse | Exception] = [
        ok({"metadata": {"resourceVersion": "9", "continue": "more"}, "items": [widget("a", 1)]}),
        status(410, "Expired"),
        ok({"metadata": {"resourceVersion": "15"}, "items": [widget("b", 12)]}),
    ]
    outcome = play([status(400, "BadRequest"), FakeStream([bookmark(16)])], pages)
    assert outcome.held == {"b": "12"}
    assert outcome.opened[1]["resourceVersion"] == "15"


def test_a_stream_that_never_ends_its_list_is_given_up_for_pages() -> None:
    pages = [ok({"metadata": {"resourceVersion": "9"}, "items": [widget("a", 1)]})]
    silent: list[Stream] = [FakeStream([event("ADDED", widget("a", 1)), "wait"]) for _ in range(3)]
    outcome = play([*silent, FakeStream([bookmark(10)])], pages)
    assert outcome.held == {"a": "1"}


def test_html_garbage_silence_and_refusals_are_waited_out() -> None:
    outcome = play(
        [
            HttpResponse(200, {"content-type": "text/html"}, b"<html>\nlog in\n</html>\n"),
            HttpResponse(502, {"content-type": "text/html"}, b"<html>bad gateway</html>"),
            TransportError("refused"),
            status(403, "Forbidden"),
            FakeStream([*initial(widget("a", 1)), "wait"]),
            FakeStream([event("ADDED", widget("b", 12))]),
        ],
        [TransportError("down")] * 6,
    )
    assert outcome.held == {"a": "1", "b": "12"}
    assert outcome.opened[-2]["resourceVersion"] == "10"


def test_a_server_that_hangs_up_at_once_is_not_asked_in_a_circle() -> None:
    outcome = play([FakeStream(initial()), *(FakeStream([]) for _ in range(8))])
    assert outcome.seconds > 5


def test_a_quiet_resource_is_watched_without_growing_pauses() -> None:
    quiet: list[Stream] = [FakeStream(["wait"]) for _ in range(4)]
    outcome = play([FakeStream([*initial(widget("a", 1)), "wait"]), *quiet])
    assert outcome.seconds == pytest.approx(5 * 90)
    assert [query.get("resourceVersion") for query in outcome.opened[1:]] == ["10"] * 5


def test_an_unreadable_object_is_passed_over() -> None:
    bad = b'{"type":"MODIFIED","object":{"metadata":{"name":"a","namespace":"ns","resourceVersion":"12"},"spec":7}}\n'
    outcome = play([FakeStream([*initial(widget("a", 1)), bad, event("ADDED", widget("b", 13))])])
    assert outcome.held == {"a": "1", "b": "13"}


def test_an_unserved_resource_is_known_to_be_empty_and_picked_up_when_poked() -> None:
    async def scenario() -> tuple[bool, bool, float, bool, int]:
        missing = HttpResponse(404, {"content-type": "text/plain"}, b"404 page not found")
        transport = ScriptedTransport(streams=[missing] * 30)
        store = Store(WIDGETS)
        reflector = Reflector(Client(transport), store)
        running = asyncio.create_task(reflector.run())
        await store.wait_synced()
        first = (store.synced, store.served)
        await asyncio.sleep(100)
        transport.streams = [FakeStream([*initial(widget("a", 1)), "wait"])]
        before = asyncio.get_running_loop().time()
        arrived = asyncio.Event()
        store.subscribe(lambda old, new: arrived.set())
        reflector.poke()
        await arrived.wait()
        took = asyncio.get_running_loop().time() - before
        running.cancel()
        return (*first, took, store.served, len(store))

    synced, served, took, served_after, held = simulate(scenario(), limit=600)
    assert synced
    assert not served
    assert took < 1
    assert served_after
    assert held == 1


def test_a_passing_404_does_not_empty_the_cache_but_a_lasting_one_does() -> None:
    missing = HttpResponse(404, {"content-type": "text/plain"}, b"404 page not found")
    full = FakeStream(initial(widget("a", 1)))
    passing = play([full, missing, missing, FakeStream([*initial(widget("a", 1))])])
    assert passing.changes == [("a", True, False)]
    lasting = play([FakeStream(initial(widget("a", 1))), missing, missing, missing])
    assert lasting.changes == [("a", True, False), ("a", False, True)]
    assert not lasting.store.served


def test_our_writes_survive_a_list_that_is_older() -> None:
    async def scenario() -> set[str]:
        transport = ScriptedTransport(
            streams=[
                FakeStream([*initial(widget("a", 1)), CUT]),
                status(410, "Expired"),
                FakeStream(initial(version=20)),
            ]
        )
        store = Store(WIDGETS)
        running = asyncio.create_task(Reflector(Client(transport), store).run())
        await store.wait_synced()
        store.overlay(widget("mine", 50))
        await transport.exhausted.wait()
        running.cancel()
        return {obj.metadata.name for obj in store.all()}

    assert simulate(scenario(), limit=600) == {"mine"}
