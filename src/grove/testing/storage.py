"""The server's memory: every object in its current version, the history of changes, and who wants to hear of them.

One counter numbers all changes of all kinds. A change is kept in the history of its table so that watches can start in
the past; `compact` forgets the past, after which such a start is refused.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator
from operator import attrgetter
from typing import Any

import msgspec

from grove.testing.kinds import GroupResource
from grove.testing.objects import JsonObject, Key, name_of, namespace_of, owner_references, uid_of
from grove.testing.ownership import Ownership

_encode = msgspec.json.Encoder().encode


class Stored:
    """One version of one object. The JSON text is made when first asked for and then kept."""

    __slots__ = ("_encoded", "obj", "ownership", "version")

    def __init__(self, obj: JsonObject, ownership: Ownership, version: int) -> None:
        self.obj = obj
        self.ownership = ownership
        self.version = version
        self._encoded: bytes | None = None

    @property
    def key(self) -> Key:
        return (namespace_of(self.obj), name_of(self.obj))

    def encoded(self) -> bytes:
        if self._encoded is None:
            self._encoded = _encode(self.obj)
        return self._encoded


class Change:
    """One event of the history: `stored` is the object after it (before it, for a deletion, with the new version)."""

    __slots__ = ("kind", "previous", "stored", "version")

    def __init__(self, kind: str, stored: Stored, previous: Stored | None) -> None:
        self.kind = kind
        self.stored = stored
        self.previous = previous
        self.version = stored.version


_version = attrgetter("version")
ChangeListener = Callable[["Table", Change], None]


class Table:
    """The objects of one kind, with their history."""

    def __init__(self, group_resource: GroupResource) -> None:
        self.group_resource = group_resource
        self.objects: dict[Key, Stored] = {}
        self.history: list[Change] = []
        self.compacted = 0
        # A dictionary, so that watches hear of a change in the order they were opened: runs repeat exactly.
        self.listeners: dict[Callable[[Change], None], None] = {}

    def sorted(self, namespace: str = "") -> list[Stored]:
        objects = self.objects
        if namespace:
            return [objects[key] for key in sorted(key for key in objects if key[0] == namespace)]
        return [objects[key] for key in sorted(objects)]

    def since(self, version: int) -> list[Change]:
        return self.history[bisect_right(self.history, version, key=_version) :]

    def sorted_as_of(self, version: int, namespace: str = "") -> list[Stored]:
        """The objects as they were at an earlier version, as far back as the history goes."""
        objects = dict(self.objects)
        for change in reversed(self.since(version)):
            if change.previous is None:
                objects.pop(change.stored.key, None)
            else:
                objects[change.stored.key] = change.previous
        return [objects[key] for key in sorted(objects) if not namespace or key[0] == namespace]


class Storage:
    """All tables under one version counter, with indexes by UID and by owner."""

    def __init__(self) -> None:
        self.version = 1
        self._compacted = 0
        self.listeners: list[ChangeListener] = []
        self._tables: dict[GroupResource, Table] = {}
        self._by_uid: dict[str, tuple[Table, Key]] = {}
        self._dependents: dict[str, dict[tuple[GroupResource, Key], None]] = {}

    def table(self, group_resource: GroupResource) -> Table:
        table = self._tables.get(group_resource)
        if table is None:
            table = self._tables[group_resource] = Table(group_resource)
            table.compacted = self._compacted
        return table

    def tables(self) -> Iterable[Table]:
        return list(self._tables.values())

    def by_uid(self, uid: str) -> tuple[Table, Stored] | None:
        found = self._by_uid.get(uid)
        return (found[0], found[0].objects[found[1]]) if found is not None else None

    def dependents(self, uid: str) -> Iterator[tuple[Table, Stored]]:
        for group_resource, key in list(self._dependents.get(uid, ())):
            table = self._tables[group_resource]
            yield table, table.objects[key]

    def put(self, table: Table, obj: JsonObject, ownership: Ownership) -> Stored:
        """Stores the next version of an object; `obj` is taken over and its resourceVersion set."""
        self.version += 1
        obj["metadata"]["resourceVersion"] = str(self.version)
        stored = Stored(obj, ownership, self.version)
        key = stored.key
        previous = table.objects.get(key)
        table.objects[key] = stored
        if previous is None:
            self._by_uid[uid_of(obj)] = (table, key)
        self._index_owners(table, key, previous.obj if previous else None, obj)
        self._publish(table, Change("MODIFIED" if previous else "ADDED", stored, previous))
        return stored

    def remove(self, table: Table, stored: Stored) -> Stored:
        self.version += 1
        gone: dict[str, Any] = {
            **stored.obj,
            "metadata": {**stored.obj["metadata"], "resourceVersion": str(self.version)},
        }
        last = Stored(gone, stored.ownership, self.version)
        del table.objects[stored.key]
        del self._by_uid[uid_of(gone)]
        self._index_owners(table, stored.key, stored.obj, None)
        self._publish(table, Change("DELETED", last, stored))
        return last

    def compact(self, before: int | None = None) -> None:
        """Forgets the history up to `before` (all of it unless told otherwise)."""
        limit = self._compacted = max(self._compacted, self.version if before is None else before)
        for table in self._tables.values():
            table.history = table.since(limit)
            table.compacted = limit

    def _publish(self, table: Table, change: Change) -> None:
        table.history.append(change)
        for listener in list(table.listeners):
            listener(change)
        for observer in self.listeners:
            observer(table, change)

    def _index_owners(self, table: Table, key: Key, old: JsonObject | None, new: JsonObject | None) -> None:
        before = owner_references(old) if old is not None else ()
        after = owner_references(new) if new is not None else ()
        if before is after or (not before and not after):
            return
        entry = (table.group_resource, key)
        for reference in before:
            dependents = self._dependents.get(reference.get("uid", ""))
            if dependents is not None:
                dependents.pop(entry, None)
                if not dependents:
                    del self._dependents[reference["uid"]]
        for reference in after:
            self._dependents.setdefault(reference.get("uid", ""), {})[entry] = None
