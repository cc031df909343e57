"""What schedulers and kubelets do to stored objects directly, without going through requests."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable
from typing import TYPE_CHECKING

from grove.testing import podactions
from grove.testing.capacity import NODES, PODS
from grove.testing.deletion import DeleteOptions, Deletions
from grove.testing.objects import JsonObject, Key, metadata, uid_of
from grove.testing.ownership import Writer
from grove.testing.storage import Stored, Table

if TYPE_CHECKING:
    from grove.testing.state import State

Span = tuple[float, float]
"""Seconds: at least, at most."""


class Hands:
    """Writes of the cluster's own components, and their timers."""

    def __init__(self, state: State, seed: int) -> None:
        self.state = state
        self.random = random.Random(seed)
        self._deletions = Deletions(state)
        self._types = {
            PODS: state.registry.of_kind("v1", "Pod"),
            NODES: state.registry.of_kind("v1", "Node"),
        }

    @property
    def pods(self) -> Table:
        return self.state.storage.table(PODS)

    @property
    def nodes(self) -> Table:
        return self.state.storage.table(NODES)

    def now(self) -> str:
        return self.state.timestamp()

    def pod(self, key: Key, uid: str = "") -> Stored | None:
        """The pod in its current version; None when it is gone or another one has its name."""
        stored = self.pods.objects.get(key)
        return stored if stored is not None and uid in ("", uid_of(stored.obj)) else None

    def later(self, span: Span, action: Callable[[], None]) -> asyncio.TimerHandle:
        """Runs `action` after a time drawn from `span`."""
        return asyncio.get_running_loop().call_later(self.random.uniform(*span), action)

    def write(self, table: Table, stored: Stored, new: JsonObject, manager: str) -> Stored:
        if new == stored.obj:
            return stored
        new = {**new, "metadata": dict(metadata(new))}
        resource = self._types[table.group_resource]
        owners = stored.ownership
        if resource is not None:
            writer = Writer(manager, "Update", "status", resource.api_version)
            owners = owners.after_update(writer, (stored.obj, new), resource.merge_type, self.now())
        return self.state.storage.put(table, new, owners)

    def bind(self, stored: Stored, node: str) -> None:
        placed = podactions.bound(stored.obj, {"target": {"name": node}}, self.now())
        self.write(self.pods, stored, placed, "kube-scheduler")

    def delete_pod(self, stored: Stored, grace: int | None = None) -> None:
        self._deletions.delete_stored(self.pods, stored, DeleteOptions(grace=grace))
