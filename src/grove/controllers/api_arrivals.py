"""Notices when the cluster learns or loses an API, so that caches of kinds that were missing look again at once.

The API server registers an APIService for every group and version it serves, custom ones included. Those objects are
small, unlike the definitions behind them. Without the right to see them, missing kinds are found by looking again.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from grove.runtime.client import Client
from grove.runtime.objects import PartialObject
from grove.runtime.reflector import Reflector
from grove.runtime.resource import Resource
from grove.runtime.store import Store

API_SERVICES = Resource("apiregistration.k8s.io", "v1", "apiservices", "APIService", PartialObject, namespaced=False)


class ApiArrivals:
    """Pokes the reflectors of kinds that are not served whenever an API appears, and tells who asked."""

    def __init__(self, client: Client, reflectors: Sequence[Reflector[Any]]) -> None:
        self._reflectors = reflectors
        self._told: list[Callable[[str], None]] = []
        registered: Store[PartialObject] = Store(API_SERVICES)
        registered.subscribe(self._changed)
        self._watching = Reflector(client, registered)

    def subscribe(self, told: Callable[[str], None]) -> None:
        """Calls `told(group)` when a version of a group appears or goes."""
        self._told.append(told)

    async def run(self) -> None:
        """Watches until cancelled."""
        await self._watching.run()

    def _changed(self, old: PartialObject | None, new: PartialObject | None) -> None:
        if old is not None and new is not None:
            return
        item = new or old
        assert item is not None
        _version, _, group = item.metadata.name.partition(".")
        for told in self._told:
            told(group)
        if new is None:
            return
        for reflector in self._reflectors:
            if not reflector.store.served:
                reflector.poke()
