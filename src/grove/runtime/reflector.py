"""Keeps a store equal to what the API server holds: a streamed list, then the changes, for ever.

- Lists come as a stream of initial events that a marked bookmark ends; a server that cannot stream is asked for pages.
- A broken, ended or silent watch goes on from the last version told; only a complete list sets the first one.
- 410 means our version is too old: list again, and let the store work out what changed meanwhile.
- 404 means the resource is not served: wait, look again (at once when poked), and go on when it is.
Invariant: whatever breaks, `run` neither ends nor loses an event; it only gets later.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable
from contextlib import aclosing
from typing import Generic, TypedDict, Unpack

import structlog

from grove.runtime import errors
from grove.runtime.client import IDLE_WATCH, Client, Selection
from grove.runtime.objects import ObjectT, namespaced_name, version_of
from grove.runtime.store import Store
from grove.runtime.watch import Added, Bookmark, Deleted, Event, Modified, Unreadable, WatchOptions

_FIRST_PAUSE = 0.2
_LONGEST_PAUSE = 30.0
_UNSERVED_PROOFS = 3  # a restarting server may answer 404 for a moment; only then is a full cache thrown away
_PAGE_INSTEAD = 3  # streamed lists that were not completed, before pages are tried once
_HEALTHY = 10.0  # seconds after which a session that breaks is the first failure of its kind
_WATCH_SECONDS = 300
_log = structlog.get_logger(__name__)


class ReflectorOptions(TypedDict, total=False):
    """`idle`: seconds of silence after which a watch counts as broken; `on_event`: told of each event, for metrics."""

    idle: float
    rng: random.Random
    on_event: Callable[[], None]


class Reflector(Generic[ObjectT]):
    """Fills one store from one resource."""

    def __init__(
        self,
        client: Client,
        store: Store[ObjectT],
        *,
        namespace: str | None = None,
        label_selector: str = "",
        field_selector: str = "",
        **options: Unpack[ReflectorOptions],
    ) -> None:
        self.store = store
        self._client = client
        self._selection: Selection = {
            "namespace": namespace,
            "label_selector": label_selector,
            "field_selector": field_selector,
        }
        self._idle = options.get("idle", IDLE_WATCH)
        self._rng = options.get("rng") or random.Random()
        self._on_event = options.get("on_event")
        self._streaming = True  # until the server says it cannot stream lists
        self._resume = ""
        self._failures = 0
        self._unserved = 0
        self._incomplete = 0
        self._poked = asyncio.Event()

    def poke(self) -> None:
        """Look again now, for instance because a CustomResourceDefinition appeared."""
        self._poked.set()

    async def run(self) -> None:
        """Lists and watches until cancelled."""
        loop = asyncio.get_running_loop()
        while True:
            started = loop.time()
            try:
                await self._session()
            except errors.Gone:
                await self._expired()
            except errors.NotFound:
                await self._not_served()
            except (errors.BadRequest, errors.Invalid) as refusal:
                await self._refused(refusal)
            except errors.ApiError as error:
                if loop.time() - started >= _HEALTHY:
                    self._failures = 0
                _log.warning("the watch broke", **self._facts(), error=str(error), failures=self._failures)
                await self._pause()

    async def _session(self) -> None:
        """One list if needed, and one watch to its end."""
        if self._resume:
            await self._watch({"resource_version": self._resume})
        elif self._streaming and self._incomplete < _PAGE_INSTEAD:
            self._incomplete += 1
            await self._stream_list()
        else:
            self._incomplete = 0
            await self._page_list()
            await self._watch({"resource_version": self._resume})

    async def _watch(self, origin: WatchOptions) -> None:
        told = 0
        loop = asyncio.get_running_loop()
        started = loop.time()
        async with aclosing(self._client.watch(self.store.resource, **self._options(origin))) as events:
            async for event in events:
                told += 1
                self._take(event)
        if told or loop.time() - started >= 1:
            self._failures = 0
        else:
            await self._pause()  # a server that hangs up at once must not be asked in a circle

    async def _stream_list(self) -> None:
        """The initial events, then the changes, in one stream."""
        listed: dict[str, ObjectT] = {}
        options = self._options({"send_initial_events": True})
        async with aclosing(self._client.watch(self.store.resource, **options)) as events:
            async for event in events:
                if self._resume:
                    self._take(event)
                elif not isinstance(event, Bookmark):
                    self._collect(listed, event)
                elif event.ends_initial_events:
                    self._listed(listed, event.resource_version)
                    listed = {}
        if not self._resume:
            raise errors.Unreachable("the stream ended before the list was complete")

    def _collect(self, listed: dict[str, ObjectT], event: Event[ObjectT]) -> None:
        """The list may change while it is being streamed."""
        if isinstance(event, Added | Modified):
            listed[namespaced_name(event.object)] = self._shared(event.object)
        elif isinstance(event, Deleted):
            listed.pop(namespaced_name(event.object), None)
        elif isinstance(event, Unreadable):
            self._report_unreadable(event)

    async def _page_list(self) -> None:
        listed: dict[str, ObjectT] = {}
        version = ""
        async with aclosing(self._client.pages(self.store.resource, **self._selection)) as pages:
            async for page in pages:
                listed.update((namespaced_name(obj), self._shared(obj)) for obj in page.items)
                version = page.metadata.resource_version
        self._listed(listed, version)

    def _listed(self, objects: dict[str, ObjectT], version: str) -> None:
        if not version:
            raise errors.Unreachable("the list carries no version to watch from")
        self._resume = version
        self._unserved = 0
        self._incomplete = 0
        self.store.replace(objects.values(), int(version))

    def _shared(self, obj: ObjectT) -> ObjectT:
        """The held object when it is the same version, so that listing again does not hold everything twice."""
        held = self.store.get(namespaced_name(obj))
        return held if held is not None and version_of(held) == version_of(obj) else obj

    def _take(self, event: Event[ObjectT]) -> None:
        self._failures = 0
        if isinstance(event, Added | Modified):
            self.store.apply(event.object)
        elif isinstance(event, Deleted):
            self.store.remove(event.object)
        else:
            if isinstance(event, Unreadable):
                self._report_unreadable(event)
            self.store.advance(version_of(event.object))
        self._resume = event.object.metadata.resource_version
        if self._on_event is not None:
            self._on_event()

    def _options(self, origin: WatchOptions) -> WatchOptions:
        seconds = _WATCH_SECONDS + int(self._rng.random() * _WATCH_SECONDS)
        common: WatchOptions = {"timeout": seconds, "idle": self._idle, "bookmarks": True}
        return {**common, **self._selection, **origin}

    async def _expired(self) -> None:
        """Our version, or the list we were reading, is too old. Only the first time in a row is free of delay."""
        _log.info("the watched version expired, listing again", **self._facts(), version=self._resume)
        self._resume = ""
        if self._failures:
            await self._pause()
        self._failures += 1

    async def _refused(self, refusal: errors.ApiError) -> None:
        """A server without streamed lists refuses their parameters; anything else is a fault to wait out."""
        if self._streaming and not self._resume:
            self._streaming = False
            _log.info("lists are not streamed by this server, paging instead", **self._facts())
            return
        self._resume = ""
        _log.warning("the server refused the watch", **self._facts(), error=str(refusal))
        await self._pause()

    async def _not_served(self) -> None:
        store = self.store
        self._resume = ""
        self._incomplete = 0
        self._unserved += 1
        if self._unserved == 1:
            _log.info("the resource is not served, waiting for it", **self._facts())
        if not len(store) or self._unserved >= _UNSERVED_PROOFS:
            store.clear()
        else:
            store.served = False
        await self._pause()

    async def _pause(self) -> None:
        self._failures += 1
        seconds = min(_LONGEST_PAUSE, _FIRST_PAUSE * 2.0 ** min(self._failures - 1, 16)) * (1 - self._rng.random() / 2)
        try:
            async with asyncio.timeout(seconds):
                await self._poked.wait()
        except TimeoutError:
            return
        self._poked.clear()
        self._failures = 0

    def _report_unreadable(self, event: Unreadable) -> None:
        _log.error("unreadable object", **self._facts(), key=namespaced_name(event.object), problem=event.problem)

    def _facts(self) -> dict[str, str]:
        return {"resource": str(self.store.resource)}
