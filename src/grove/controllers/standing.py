"""Whether an owner still stands, when the caches cannot be right: each kind has a watch of its own, and one may lag.

Two mistakes would follow. What is made for an owner that is gone is collected at once, made again, collected again, a
thousand times a minute. And what belongs to a set that this process has not heard of yet looks like a leftover. So the
API server itself is asked before a pass when
- something of the same name has gone away for the second time within a short while, and its owner stands in the cache;
- there are leftovers of a set that the cache does not hold.
The answer is laid over the cache, and the pass goes on from there. While sets are not served at all, nothing counts as
left over.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any

from grove.api import labels
from grove.api.kinds import POD_CLIQUE_SETS, POD_CLIQUES, SCALING_GROUPS
from grove.controllers.keys import Key
from grove.controllers.observe import REPLICA_RESOURCES, SET_RESOURCES
from grove.controllers.stores import BY_REPLICA, Stores, replica_key, set_key
from grove.runtime import errors, requests
from grove.runtime.client import Client
from grove.runtime.objects import HasMetadata, namespaced_name
from grove.runtime.queue import WorkQueue
from grove.runtime.resource import Resource
from grove.runtime.worker import DONE, Result

AGAIN = 30.0
_REMEMBERED = 4096
_OWNERS: dict[str, Resource[Any]] = {r.kind: r for r in (POD_CLIQUE_SETS, SCALING_GROUPS, POD_CLIQUES)}
_Owner = tuple[str, str, str]  # kind, name, uid


class Standing:
    """Goes before a reconcile and asks about owners in doubt."""

    def __init__(
        self, client: Client, stores: Stores, queue: WorkQueue[Key], reconcile: Callable[[Key], Awaitable[Result]]
    ) -> None:
        self._client = client
        self._stores = stores
        self._queue = queue
        self._reconcile = reconcile
        self._departures: dict[tuple[str, str], float] = {}
        self._doubts: dict[Key, set[_Owner]] = {}
        self._gone: dict[Key, float] = {}
        self._turned_away: set[Key] = set()
        for resource in (*REPLICA_RESOURCES, *SET_RESOURCES):
            stores[resource].subscribe(partial(self._changed, resource))
        stores[POD_CLIQUE_SETS].when_served(self._served_again)

    async def reconcile(self, key: Key) -> Result:
        """The reconcile behind, on caches that have been put right."""
        await self._settle(key)
        if self._stores[POD_CLIQUE_SETS].get(set_key(key.namespace, key.name)) is None and self._leftovers(key):
            if not self._stores[POD_CLIQUE_SETS].served:
                self._turned_away.add(key)
                return DONE
            await self._find_set(key)
        return await self._reconcile(key)

    # Children that keep going away.

    def _changed(self, resource: Resource[Any], old: HasMetadata | None, new: HasMetadata | None) -> None:
        if old is None or new is not None:
            return
        now = asyncio.get_running_loop().time()
        name = (resource.plural, namespaced_name(old))
        before = self._departures.pop(name, None)
        self._departures[name] = now
        if len(self._departures) > _REMEMBERED:
            del self._departures[next(iter(self._departures))]
        owner = old.metadata.controller
        key = _key_of(old)
        if key and owner and owner.kind in _OWNERS and before is not None and now - before < AGAIN:
            self._doubts.setdefault(key, set()).add((owner.kind, owner.name, owner.uid))

    async def _settle(self, key: Key) -> None:
        """Asks about the owners in doubt. When the server cannot be asked, the doubts stay and the key comes again."""
        for kind, name, uid in sorted(self._doubts.get(key, ())):
            store = self._stores[_OWNERS[kind]]
            held = store.get(f"{key.namespace}/{name}")
            if held is None or held.metadata.uid != uid:
                continue  # the cache knows by now
            seen = await self._look(_OWNERS[kind], key.namespace, name)
            if seen is None:
                store.overlay_deleted(held)
            else:
                store.overlay(seen)
        self._doubts.pop(key, None)

    # Leftovers of a set that is not there.

    def _leftovers(self, key: Key) -> bool:
        """Whether anything is left that would be removed as belonging to nobody."""
        if key.index is None:
            return False
        place = replica_key(key.namespace, key.name, key.index)
        found = (item for resource in REPLICA_RESOURCES for item in self._stores[resource].by_index(BY_REPLICA, place))
        return any(item.metadata.controller and not item.metadata.terminating for item in found)

    async def _find_set(self, key: Key) -> None:
        now = asyncio.get_running_loop().time()
        self._gone = {owner: since for owner, since in self._gone.items() if now - since < AGAIN}
        if key.owner in self._gone:
            return
        seen = await self._look(POD_CLIQUE_SETS, key.namespace, key.name)
        if seen is None:
            self._gone[key.owner] = now
            return
        store = self._stores[POD_CLIQUE_SETS]
        store.overlay(seen)
        if store.get(set_key(key.namespace, key.name)) is None:
            raise errors.Conflict(f"{key.owner} is there, and the cache does not hold it yet")

    def _served_again(self) -> None:
        for key in self._turned_away:
            self._queue.add(key)
        self._turned_away.clear()

    async def _look(self, resource: Resource[Any], namespace: str, name: str) -> Any | None:
        """The object as the server has it; None when it is not there. Raises when the whole kind is not served."""
        try:
            return await self._client.send(requests.get(resource, namespace, name))
        except errors.NotFound:
            await self._client.send(requests.list_(resource, namespace, limit=1))
            return None


def _key_of(item: HasMetadata) -> Key | None:
    """The key that would make this object again."""
    found = item.metadata.labels
    owner, index = found.get(labels.PART_OF), found.get(labels.REPLICA_INDEX)
    if not owner:
        return None
    if index is None:
        return Key(item.metadata.namespace, owner)
    return Key(item.metadata.namespace, owner, int(index)) if index.isdigit() else None
