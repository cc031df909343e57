"""Who set which field: the `managedFields` of one object, and what server-side apply makes of them.

Most writes never need the answer, so a write only notes what it did; the sets are worked out when an apply, or a reader
who wants to see `managedFields`, asks for them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from grove.testing import failures, fieldsets
from grove.testing.fieldsets import EMPTY, FieldSet
from grove.testing.fieldtypes import FieldType
from grove.testing.objects import JsonObject

_DEFERRED_LIMIT = 8
"""Noted writes are settled after this many, so that old versions of an object are not kept alive for long."""


@dataclass(frozen=True, slots=True)
class Writer:
    """A field manager acting in one way: what a `managedFields` entry belongs to."""

    manager: str
    operation: str
    subresource: str
    api_version: str


@dataclass(frozen=True, slots=True)
class Entry:
    fields: FieldSet
    time: str


Entries = Mapping[Writer, Entry]


class Ownership:
    """The owners of one version of an object. Never changes; each write derives the next one."""

    __slots__ = ("_depth", "_entries", "_settle")

    def __init__(self, settle: Callable[[], Entries], depth: int = 0) -> None:
        self._settle: Callable[[], Entries] | None = settle
        self._depth = depth
        self._entries: Entries = {}
        if depth > _DEFERRED_LIMIT:
            self.entries()

    def entries(self) -> Entries:
        if self._settle is not None:
            self._entries = self._settle()
            self._settle = None
            self._depth = 0
        return self._entries

    def after_update(
        self, writer: Writer, change: tuple[JsonObject, JsonObject], kind: FieldType, time: str
    ) -> Ownership:
        """The writer takes over what it changed; removed fields belong to nobody."""

        def settle() -> Entries:
            difference = fieldsets.compare(*change, kind)
            entries = _taken_over(self.entries(), writer, difference)
            if not (difference.added or difference.modified or difference.removed):
                return entries
            mine = entries.get(writer, Entry(EMPTY, time)).fields
            return _with_entry(entries, writer, Entry((mine - difference.removed) | difference.written(), time))

        return Ownership(settle, self._depth + 1)

    def rendered(self) -> list[JsonObject]:
        return [
            {
                "manager": writer.manager,
                "operation": writer.operation,
                "apiVersion": writer.api_version,
                "time": entry.time,
                "fieldsType": "FieldsV1",
                "fieldsV1": fieldsets.render(entry.fields),
                **({"subresource": writer.subresource} if writer.subresource else {}),
            }
            for writer, entry in self.entries().items()
        ]


def nobody() -> Ownership:
    return Ownership(dict)


def of_new(writer: Writer, obj: JsonObject, kind: FieldType, time: str) -> Ownership:
    """A created (or first applied) object belongs to its creator."""
    fields = fieldsets.fields_of if writer.operation == "Apply" else fieldsets.every_path_of
    return Ownership(lambda: {writer: Entry(fields(obj, kind), time)}, 1)


def _taken_over(entries: Entries, writer: Writer, difference: fieldsets.Difference) -> dict[Writer, Entry]:
    lost = difference.written() | difference.removed
    kept: dict[Writer, Entry] = {}
    for other, entry in entries.items():
        remaining = entry.fields if other == writer else entry.fields - lost
        if remaining:
            kept[other] = entry if len(remaining) == len(entry.fields) else Entry(remaining, entry.time)
    return kept


def _with_entry(entries: Entries, writer: Writer, entry: Entry) -> Entries:
    others = {other: existing for other, existing in entries.items() if other != writer}
    return {**others, writer: entry} if entry.fields else others


@dataclass(frozen=True, slots=True)
class Applied:
    """The outcome of an apply: the merged object and its owners; `unchanged` when neither differs from before."""

    obj: JsonObject
    ownership: Ownership
    unchanged: bool


@dataclass(frozen=True, slots=True)
class Application:
    """A server-side apply: the fields somebody wants, and whether they may be taken from others."""

    config: JsonObject
    writer: Writer
    force: bool
    time: str


def apply(live: JsonObject, owners: Ownership, application: Application, kind: FieldType) -> Applied:
    """Merges the applied fields, drops those the writer gave up and nobody else owns, and settles the owners."""
    entries = owners.entries()
    writer = application.writer
    wanted = fieldsets.fields_of(application.config, kind)
    before = entries.get(writer)
    merged = fieldsets.merge(live, application.config, kind)
    if before is not None:
        held = wanted.union(*(entry.fields for other, entry in entries.items() if other != writer))
        merged = _without_given_up(merged, before.fields - held, held, kind)
    difference = fieldsets.compare(live, merged, kind)
    _refuse_conflicts(entries, application, difference.written())
    settled = _with_entry(_taken_over(entries, writer, difference), writer, Entry(wanted, application.time))
    unchanged = merged == live and before is not None and before.fields == wanted
    return Applied(merged, owners if unchanged else Ownership(lambda: settled), unchanged)


def _without_given_up(merged: JsonObject, given_up: FieldSet, held: FieldSet, kind: FieldType) -> JsonObject:
    if not given_up:
        return merged
    containers = {path[:length] for path in held for length in range(1, len(path))}
    left = fieldsets.without(merged, given_up - containers, kind)
    return left if isinstance(left, dict) else {}


def _refuse_conflicts(entries: Entries, application: Application, written: FieldSet) -> None:
    if application.force:
        return
    causes = [
        failures.Cause("FieldManagerConflict", fieldsets.describe(path), f"conflict with {_introduce(other)}")
        for other, entry in entries.items()
        if other != application.writer
        for path in sorted(entry.fields & written)
    ]
    if causes:
        raise failures.apply_conflict(causes)


def _introduce(writer: Writer) -> str:
    name = f'"{writer.manager}"'
    if writer.subresource:
        name += f' with subresource "{writer.subresource}"'
    return f"{name} using {writer.api_version}" if writer.operation == "Update" else name
