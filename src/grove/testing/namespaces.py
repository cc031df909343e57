"""The namespace controller: a deleted namespace is emptied, and goes when nothing is left in it."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from grove.testing.deletion import DeleteOptions, Deletions
from grove.testing.objects import is_deleting, name_of, namespace_of
from grove.testing.storage import Change, Table

if TYPE_CHECKING:
    from grove.testing.state import State

_NAMESPACES = ("", "namespaces")
_BACKGROUND = DeleteOptions(policy="Background")


class NamespaceController:
    """Visits a terminating namespace after it was deleted and after each object in it has gone."""

    def __init__(self, state: State, deletions: Deletions, delay: float) -> None:
        self._state = state
        self._deletions = deletions
        self._delay = delay
        self._due: set[str] = set()
        state.storage.listeners.append(self._on_change)

    def _on_change(self, table: Table, change: Change) -> None:
        if table.group_resource == _NAMESPACES:
            if change.kind != "DELETED" and is_deleting(change.stored.obj):
                self._visit_later(name_of(change.stored.obj))
        elif change.kind == "DELETED":
            namespace = self._state.namespace(namespace_of(change.stored.obj))
            if namespace is not None and is_deleting(namespace.obj):
                self._visit_later(name_of(namespace.obj))

    def _visit_later(self, name: str) -> None:
        if name not in self._due:
            self._due.add(name)
            asyncio.get_running_loop().call_later(self._delay, self._visit, name)

    def _visit(self, name: str) -> None:
        self._due.discard(name)
        namespace = self._state.namespace(name)
        if namespace is None:
            return
        left = False
        for table in self._state.storage.tables():
            for stored in table.sorted(name):
                left = True
                if not is_deleting(stored.obj):
                    self._deletions.delete_stored(table, stored, _BACKGROUND)
        if not left:
            self._state.storage.remove(self._state.storage.table(_NAMESPACES), namespace)
