"""The garbage collector: objects whose owners are gone go too, and deletions wait for or let go of dependents.

It acts a moment after each change, as the real one does, so controllers see the states in between. An owner is known
by UID: a reference to an object of the same name but another UID is a reference to nothing.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from grove.testing.deletion import FOREGROUND, ORPHAN, DeleteOptions, Deletions
from grove.testing.objects import (
    JsonObject,
    finalizers,
    is_deleting,
    name_of,
    namespace_of,
    owner_references,
    uid_of,
    with_metadata,
)
from grove.testing.storage import Change, Stored, Table
from grove.testing.writes import is_ready_to_go

if TYPE_CHECKING:
    from grove.testing.state import State

_BACKGROUND = DeleteOptions(policy="Background")
_FOREGROUND = DeleteOptions(policy="Foreground")


class GarbageCollector:
    """Listens to every change and schedules the visits it causes, `delay` seconds later."""

    def __init__(self, state: State, deletions: Deletions, delay: float) -> None:
        self._state = state
        self._deletions = deletions
        self._delay = delay
        self._due: dict[str, asyncio.TimerHandle] = {}
        state.storage.listeners.append(self._on_change)

    def _on_change(self, table: Table, change: Change) -> None:
        obj = change.stored.obj
        if change.kind == "DELETED":
            for _, dependent in self._state.storage.dependents(uid_of(obj)):
                self._visit_later(uid_of(dependent.obj))
            for reference in owner_references(obj):
                self._visit_later(reference["uid"])
            return
        if is_deleting(obj):
            if FOREGROUND in finalizers(obj) or ORPHAN in finalizers(obj):
                self._visit_later(uid_of(obj))
        elif owner_references(obj) and self._references_changed(change):
            self._visit_later(uid_of(obj))

    @staticmethod
    def _references_changed(change: Change) -> bool:
        return change.previous is None or owner_references(change.previous.obj) != owner_references(change.stored.obj)

    def _visit_later(self, uid: str) -> None:
        if uid not in self._due:
            loop = asyncio.get_running_loop()
            self._due[uid] = loop.call_later(self._delay, self._visit, uid)

    def _visit(self, uid: str) -> None:
        self._due.pop(uid, None)
        found = self._state.storage.by_uid(uid)
        if found is None:
            return
        table, stored = found
        if is_deleting(stored.obj):
            if ORPHAN in finalizers(stored.obj):
                self._let_dependents_go(table, stored)
            elif FOREGROUND in finalizers(stored.obj):
                self._delete_dependents_first(table, stored)
            return
        self._judge(table, stored)

    def _judge(self, table: Table, stored: Stored) -> None:
        """Deletes an object all of whose owners are gone; drops the references to those that are, otherwise."""
        references = list(owner_references(stored.obj))
        absent = [reference for reference in references if self._is_absent(stored.obj, reference)]
        if not absent:
            return
        if len(absent) == len(references):
            self._deletions.delete_stored(table, stored, _BACKGROUND)
            return
        waiting = [r for r in references if r not in absent and self._is_waiting_owner(r)]
        if waiting and len(waiting) + len(absent) == len(references):
            self._deletions.delete_stored(table, stored, _FOREGROUND)
            return
        kept = [reference for reference in references if reference not in absent]
        self._state.storage.put(table, with_metadata(stored.obj, ownerReferences=kept), stored.ownership)

    def _is_absent(self, dependent: JsonObject, reference: JsonObject) -> bool:
        resource = self._state.registry.of_kind(reference["apiVersion"], reference["kind"])
        if resource is None:
            return False
        found = self._state.storage.by_uid(reference["uid"])
        if found is None:
            return True
        table, owner = found
        same_place = not resource.namespaced or namespace_of(owner.obj) == namespace_of(dependent)
        return not (
            same_place and table.group_resource == resource.group_resource and name_of(owner.obj) == reference["name"]
        )

    def _is_waiting_owner(self, reference: JsonObject) -> bool:
        found = self._state.storage.by_uid(reference["uid"])
        return found is not None and is_deleting(found[1].obj) and FOREGROUND in finalizers(found[1].obj)

    def _delete_dependents_first(self, table: Table, owner: Stored) -> None:
        blocked = False
        for dependent_table, dependent in list(self._state.storage.dependents(uid_of(owner.obj))):
            references = owner_references(dependent.obj)
            mine = next(reference for reference in references if reference["uid"] == uid_of(owner.obj))
            blocked = blocked or bool(mine.get("blockOwnerDeletion"))
            if is_deleting(dependent.obj):
                continue
            if all(self._is_waiting_owner(r) or self._is_absent(dependent.obj, r) for r in references):
                has_own = any(True for _ in self._state.storage.dependents(uid_of(dependent.obj)))
                options = _FOREGROUND if has_own else _BACKGROUND
                self._deletions.delete_stored(dependent_table, dependent, options)
        still = any(
            reference.get("blockOwnerDeletion")
            for _, dependent in self._state.storage.dependents(uid_of(owner.obj))
            for reference in owner_references(dependent.obj)
            if reference["uid"] == uid_of(owner.obj)
        )
        if not (blocked and still):
            self._drop_finalizer(table, owner, FOREGROUND)

    def _let_dependents_go(self, table: Table, owner: Stored) -> None:
        for dependent_table, dependent in list(self._state.storage.dependents(uid_of(owner.obj))):
            kept = [r for r in owner_references(dependent.obj) if r["uid"] != uid_of(owner.obj)]
            freed = with_metadata(dependent.obj, ownerReferences=kept or None)
            self._state.storage.put(dependent_table, freed, dependent.ownership)
        self._drop_finalizer(table, owner, ORPHAN)

    def _drop_finalizer(self, table: Table, owner: Stored, finalizer: str) -> None:
        kept = [name for name in finalizers(owner.obj) if name != finalizer]
        freed = with_metadata(owner.obj, finalizers=kept or None)
        if is_ready_to_go(freed):
            self._state.storage.remove(table, owner)
        else:
            self._state.storage.put(table, freed, owner.ownership)
