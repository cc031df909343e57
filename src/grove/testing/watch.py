"""Watches: what happened to a kind since a version, as lines of JSON, until the client or the server ends it."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass

import msgspec

from grove.testing import failures
from grove.testing.kinds import Resource
from grove.testing.objects import JsonObject
from grove.testing.selectors import Predicate
from grove.testing.storage import Change, Stored, Table

INITIAL_EVENTS_END = "k8s.io/initial-events-end"
Present = Callable[[Stored], bytes]


@dataclass(frozen=True, slots=True)
class WatchOptions:
    """What a watch is to deliver. `start` is None for "the present state first"."""

    resource: Resource
    namespace: str
    selects: Predicate
    start: int | None
    bookmarks: bool
    mark_initial_end: bool
    initial: tuple[Stored, ...] = ()
    initial_version: int = 0


class Watch:
    """One open watch. Events are queued as they are stored and become text when the client reads them."""

    def __init__(self, table: Table, options: WatchOptions, present: Present) -> None:
        self._table = table
        self._options = options
        self._present = present
        self._pending: deque[bytes | tuple[str, Stored]] = deque()
        self._wake: asyncio.Future[None] | None = None
        self._timers: list[asyncio.TimerHandle] = []
        self._closed = False
        self._begin()

    def _begin(self) -> None:
        options = self._options
        if options.start is not None and options.start < self._table.compacted:
            message = f"too old resource version: {options.start} ({self._table.compacted})"
            self._pending.append(_line("ERROR", msgspec.json.encode(failures.expired(message).status())))
            self._closed = True
            return
        since = options.start
        if since is None:
            self._pending.extend(("ADDED", stored) for stored in options.initial)
            since = options.initial_version
            if options.mark_initial_end:
                self._bookmark(since, initial_end=True)
        for change in self._table.since(since):
            self._on_change(change)
        self._table.listeners[self._on_change] = None

    def keep_bookmarks(self, interval: float, current: Callable[[], int]) -> None:
        """Sends a bookmark every `interval` seconds, as long as the watch is open."""
        if self._closed or not self._options.bookmarks:
            return

        def tick() -> None:
            self._bookmark(current())
            self.keep_bookmarks(interval, current)

        self._timers = [timer for timer in self._timers if not timer.cancelled()]
        self._timers.append(asyncio.get_running_loop().call_later(interval, tick))

    def end_after(self, seconds: float) -> None:
        if not self._closed:
            self._timers.append(asyncio.get_running_loop().call_later(seconds, self.close))

    def close(self) -> None:
        self._closed = True
        self._table.listeners.pop(self._on_change, None)
        for timer in self._timers:
            timer.cancel()
        self._wake_reader()

    async def chunks(self) -> AsyncIterator[bytes]:
        while True:
            if self._pending:
                yield self._drain()
            elif self._closed:
                return
            else:
                self._wake = asyncio.get_running_loop().create_future()
                await self._wake

    def _drain(self) -> bytes:
        lines = [item if isinstance(item, bytes) else _line(item[0], self._present(item[1])) for item in self._pending]
        self._pending.clear()
        return b"".join(lines)

    def _on_change(self, change: Change) -> None:
        options = self._options
        stored = change.stored
        if options.namespace and stored.obj["metadata"].get("namespace") != options.namespace:
            return
        before = change.previous is not None and options.selects(change.previous.obj)
        after = change.kind != "DELETED" and options.selects(stored.obj)
        if after:
            self._pending.append(("MODIFIED" if before else "ADDED", stored))
        elif before:
            self._pending.append(("DELETED", _as_it_left(change)))
        else:
            return
        self._wake_reader()

    def _bookmark(self, version: int, *, initial_end: bool = False) -> None:
        resource = self._options.resource
        meta: JsonObject = {"resourceVersion": str(version), "creationTimestamp": None}
        if initial_end:
            meta["annotations"] = {INITIAL_EVENTS_END: "true"}
        bookmark = {"kind": resource.kind, "apiVersion": resource.api_version, "metadata": meta}
        self._pending.append(_line("BOOKMARK", msgspec.json.encode(bookmark)))
        self._wake_reader()

    def _wake_reader(self) -> None:
        if self._wake is not None and not self._wake.done():
            self._wake.set_result(None)


def _as_it_left(change: Change) -> Stored:
    """An object that stops matching is reported gone in its last matching state, at the version it left."""
    if change.kind == "DELETED" or change.previous is None:
        return change.stored
    last = change.previous.obj
    obj = {**last, "metadata": {**last["metadata"], "resourceVersion": str(change.version)}}
    return Stored(obj, change.previous.ownership, change.version)


def _line(kind: str, encoded: bytes) -> bytes:
    return b'{"type":"%s","object":%s}\n' % (kind.encode(), encoded)
