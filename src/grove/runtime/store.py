"""A cache of one kind that includes our own writes at once: what the watch said, with what we did laid over it.

Rules, all by comparing versions of the same object:
- an object never goes back: an event, a list or an answer older than what is held changes nothing and tells nobody;
- an answer to our write is laid over the cache until the watch has passed its version; then the watch alone decides;
- what we deleted stays deleted until its DELETED event arrives, whatever older news of it comes;
- a list replaces what is not newer than itself.
At rest (the watch has caught up) nothing is remembered beside the objects and a few recent departures.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Iterable
from typing import Generic, cast

import structlog

from grove.runtime.index import Index
from grove.runtime.objects import HasMetadata, ObjectT, namespaced_name, version_of
from grove.runtime.overlay import Overlays
from grove.runtime.resource import Resource

Handler = Callable[[ObjectT | None, ObjectT | None], None]

_log = structlog.get_logger(__name__)


class Store(Generic[ObjectT]):
    """The objects of one resource, by `namespace/name`."""

    def __init__(self, resource: Resource[ObjectT]) -> None:
        self.resource = resource
        self.served = True
        self._objects: dict[str, ObjectT] = {}
        self._indexes: dict[str, Index[ObjectT]] = {}
        self._handlers: list[Handler[ObjectT]] = []
        self._appearance_handlers: list[Callable[[], None]] = []
        self._overlays = Overlays()
        self._version = 0
        self._synced = asyncio.Event()
        self.on_lag: Callable[[float], None] | None = None  # told how long each of our writes took to come back

    # Reading

    def get(self, key: str) -> ObjectT | None:
        return self._objects.get(key)

    def all(self) -> Collection[ObjectT]:
        return list(self._objects.values())

    def by_index(self, name: str, value: str) -> Collection[ObjectT]:
        return self._indexes[name].objects(value)

    def __len__(self) -> int:
        return len(self._objects)

    def __contains__(self, key: str) -> bool:
        return key in self._objects

    @property
    def resource_version(self) -> str:
        """The version up to which the watch has told us everything; empty before the first list."""
        return str(self._version) if self._version else ""

    @property
    def synced(self) -> bool:
        """Whether the content is known: a list was complete, or the resource turned out not to be served."""
        return self._synced.is_set()

    async def wait_synced(self) -> None:
        await self._synced.wait()

    @property
    def pending(self) -> int:
        """How many of our own writes the watch has not confirmed yet."""
        return len(self._overlays)

    # Wiring

    def add_index(self, name: str, values_of: Callable[[ObjectT], Iterable[str]]) -> None:
        """Makes objects findable by the values `values_of` gives them; objects already here are included."""
        index = Index(values_of)
        for key, obj in self._objects.items():
            index.change(key, None, obj)
        self._indexes[name] = index

    def subscribe(self, handler: Handler[ObjectT]) -> None:
        """Calls `handler(old, new)` on every real change, in order, before the change returns."""
        self._handlers.append(handler)

    def when_served(self, handler: Callable[[], None]) -> None:
        """Calls `handler()` when the resource is served after it was not, with the store already filled."""
        self._appearance_handlers.append(handler)

    # Our own writes

    def overlay(self, obj: ObjectT) -> None:
        """Lays the answer to our create, patch or apply over the cache."""
        version = version_of(obj)
        if version <= self._version or self._overlays.departed(obj.metadata.uid, version):
            return  # the watch has already told what became of it
        key = namespaced_name(obj)
        held = self._objects.get(key)
        if held is not None and version_of(held) >= version:
            return
        self._overlays.wrote(version, obj.metadata.uid, key, self._moment())
        self._put(key, held, obj)

    def overlay_deleted(self, obj: ObjectT) -> None:
        """Takes away what we deleted, at once."""
        key = namespaced_name(obj)
        uid = obj.metadata.uid
        held = self._objects.get(key)
        if held is not None and held.metadata.uid == uid:
            self._overlays.deleted(version_of(held), uid, key, seen=not self._overlays.awaits(uid))
            self._drop(key, held)
        elif version_of(obj) > self._version:
            self._overlays.deleted(version_of(obj), uid, key, seen=False)

    # What the reflector tells

    def apply(self, obj: ObjectT) -> None:
        """An ADDED or MODIFIED event."""
        version = version_of(obj)
        self._accept(obj, version)
        self.advance(version)

    def remove(self, obj: HasMetadata) -> None:
        """A DELETED event; only the identity of `obj` is used."""
        key = namespaced_name(obj)
        version = version_of(obj)
        held = self._objects.get(key)
        if held is not None and version >= version_of(held):
            self._drop(key, held)
        self._overlays.gone(obj.metadata.uid, version)
        self.advance(version)

    def advance(self, version: int) -> None:
        """The watch has told everything up to `version`; what it did not echo is not part of what we watch."""
        if version <= self._version:
            return
        self._version = version
        if self._overlays.unconfirmed:
            for stale, key in self._overlays.passed(version):
                held = self._objects.get(key)
                if held is not None and version_of(held) == stale:
                    self._drop(key, held)

    def replace(self, objects: Iterable[ObjectT], version: int) -> None:
        """A complete list at `version`: takes what is newer, drops what it lacks unless that is newer than the list."""
        listed: set[str] = set()
        uids: set[str] = set()
        for obj in objects:
            listed.add(namespaced_name(obj))
            uids.add(obj.metadata.uid)
            self._accept(obj, version_of(obj))
        for key, held in list(self._objects.items()):
            if key not in listed and version_of(held) <= version:
                self._drop(key, held)
        self._overlays.listed(version, uids)
        self._version = version
        appeared, self.served = not self.served, True
        self._synced.set()
        if appeared:
            for handler in self._appearance_handlers:
                handler()

    def clear(self) -> None:
        """The resource is not served (any more): there are no objects, and that is known."""
        for key, held in list(self._objects.items()):
            self._drop(key, held)
        self._overlays = Overlays()
        self._version = 0
        self.mark_unserved()

    def mark_unserved(self) -> None:
        self.served = False
        self._synced.set()

    # Changing

    def _accept(self, obj: ObjectT, version: int) -> None:
        overlays = self._overlays
        if overlays:
            laid = overlays.told(obj.metadata.uid, version)
            if laid is not None and self.on_lag is not None:
                self.on_lag(self._moment() - laid)
            if overlays.departed(obj.metadata.uid, version):
                return
        key = namespaced_name(obj)
        held = self._objects.get(key)
        if held is None or version > version_of(held):
            self._put(key, held, obj)

    def _moment(self) -> float:
        return asyncio.get_running_loop().time() if self.on_lag is not None else 0.0

    def _put(self, key: str, old: ObjectT | None, new: ObjectT) -> None:
        if old is not None and old.metadata.uid != new.metadata.uid:
            self._drop(key, old)
            old = None
        self._objects[key] = new
        for index in self._indexes.values():
            index.change(key, old, new)
        self._tell(old, new)

    def _drop(self, key: str, old: ObjectT) -> None:
        del self._objects[key]
        for index in self._indexes.values():
            index.change(key, old, None)
        self._tell(old, None)

    def _tell(self, old: ObjectT | None, new: ObjectT | None) -> None:
        for handler in self._handlers:
            try:
                handler(old, new)
            except Exception:
                obj = cast("ObjectT", new if new is not None else old)
                _log.exception("a store handler failed", resource=str(self.resource), key=namespaced_name(obj))
