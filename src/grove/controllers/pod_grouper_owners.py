"""The owners above a pod, read from caches that are opened per kind when a pod first leads to that kind.

Every step checks the UID, since an object of that name may be another by now. A kind we may not list, or that is not
served, ends the climb at the last readable owner. What the cache does not have yet is asked for once, live.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import msgspec
import structlog

from grove.api.core import Pod
from grove.api.kinds import PODS
from grove.api.meta import Model, ObjectMeta, OwnerReference
from grove.api.reasons import Reason
from grove.plan.actions import Why
from grove.podgrouper.grouping import Owner
from grove.podgrouper.owners.table import READ_IN_FULL
from grove.podgrouper.subject import first_owner, next_owner, pod_as_owner
from grove.runtime import errors, requests
from grove.runtime.client import Client
from grove.runtime.reflector import Reflector
from grove.runtime.requests import Request
from grove.runtime.resource import Resource
from grove.runtime.store import Store

_LOOK_AGAIN = 60.0  # seconds for which a kind counts as unreadable
_SYNC_SECONDS = 30.0
_HIGHEST = 16  # a chain longer than this is a circle
_log = structlog.get_logger(__name__)


class OwnerObject(Model):
    """Any object that may own pods."""

    metadata: ObjectMeta


class FullOwnerObject(OwnerObject):
    """An owner that says in its spec how many pods belong together."""

    spec: dict[str, Any] = {}


class _ServedResource(msgspec.Struct):
    name: str
    kind: str
    namespaced: bool = False


class _ServedResources(msgspec.Struct):
    resources: list[_ServedResource] = []


@dataclass(slots=True)
class _Kind:
    """The cache of one kind; no store means that it cannot be read, at least until `again`."""

    store: Store[Any] | None
    again: float = 0.0


class Owners:
    """Climbs from pods to their top owners. `changed` is told the UID of an owner that says something new.

    Pods that own others are found in `pods`, whose changes are told elsewhere; opening a cache of all pods of the
    cluster for them would cost more than everything else here.
    """

    def __init__(self, client: Client, pods: Store[Pod], changed: Callable[[str], None]) -> None:
        self._client = client
        self._pods = pods
        self._changed = changed
        self._kinds: dict[tuple[str, str], _Kind] = {}
        self._opening: dict[tuple[str, str], asyncio.Task[_Kind]] = {}
        self._watching: set[asyncio.Task[None]] = set()

    async def above(self, pod: Pod) -> tuple[Owner, ...] | Why:
        """All readable owners, nearest first."""
        found: list[Owner] = []
        reference = first_owner(pod)
        while reference is not None and len(found) < _HIGHEST:
            owner = await self._read(reference, pod.metadata.namespace)
            if owner is None or isinstance(owner, Why):
                return owner or tuple(found)
            found.append(owner)
            step = next_owner(owner.metadata.owner_references, f"{owner.kind} {owner.name}")
            if isinstance(step, Why):
                return step
            reference = step
        return tuple(found)

    async def close(self) -> None:
        """Ends all watches."""
        tasks = (*self._watching, *self._opening.values())
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _read(self, reference: OwnerReference, namespace: str) -> Owner | Why | None:
        """The owner, None when its kind cannot be read, or why it cannot be this one."""
        if (reference.api_version, reference.kind) == (PODS.api_version, PODS.kind):
            pod = await self._pod(reference, namespace)
            return _gone(reference) if pod is None else pod_as_owner(pod)
        kind = self._kinds.get((reference.api_version, reference.kind))
        if kind is None or (kind.store is None and asyncio.get_running_loop().time() >= kind.again):
            kind = await self._open(reference.api_version, reference.kind)
        store = kind.store
        if store is None:
            return None
        resource = store.resource
        key = f"{namespace}/{reference.name}" if resource.namespaced else reference.name
        held = store.get(key)
        if held is None or held.metadata.uid != reference.uid:
            held = await self._ask(resource, namespace, reference)
            if held is not None:
                store.overlay(held)
        if held is None or held.metadata.uid != reference.uid:
            return _gone(reference)
        return Owner(reference.api_version, reference.kind, held.metadata, getattr(held, "spec", {}))

    async def _pod(self, reference: OwnerReference, namespace: str) -> Pod | None:
        held = self._pods.get(f"{namespace}/{reference.name}")
        if held is None or held.metadata.uid != reference.uid:
            # Of another scheduler, and so in no cache; or the cache is behind.
            held = await self._ask(PODS, namespace, reference)
        return held if held is not None and held.metadata.uid == reference.uid else None

    async def _ask(self, resource: Resource[Any], namespace: str, reference: OwnerReference) -> Any:
        """The watch may be behind the pod's: look once at the server itself."""
        try:
            return await self._client.send(requests.get(resource, namespace, reference.name))
        except errors.NotFound:
            return None

    async def _open(self, api_version: str, kind: str) -> _Kind:
        """Opens the cache of a kind; all who need it meanwhile wait for the same opening."""
        key = (api_version, kind)
        task = self._opening.get(key)
        if task is None:
            task = self._opening[key] = asyncio.create_task(self._opened(api_version, kind))
        try:
            self._kinds[key] = await asyncio.shield(task)
        finally:
            if task.done():
                self._opening.pop(key, None)
        return self._kinds[key]

    async def _opened(self, api_version: str, kind: str) -> _Kind:
        resource = await self._resource(api_version, kind)
        if resource is None or not await self._may_list(resource):
            _log.info("owners of this kind cannot be read", api_version=api_version, kind=kind)
            return _Kind(None, asyncio.get_running_loop().time() + _LOOK_AGAIN)
        store: Store[Any] = Store(resource)
        watching = asyncio.create_task(Reflector(self._client, store).run(), name=f"owners-{resource}")
        self._watching.add(watching)
        watching.add_done_callback(self._watching.discard)
        async with asyncio.timeout(_SYNC_SECONDS):
            await store.wait_synced()
        store.subscribe(self._owner_changed)
        return _Kind(store)

    async def _resource(self, api_version: str, kind: str) -> Resource[Any] | None:
        """Where objects of this kind are served, if they are."""
        group, _, version = api_version.rpartition("/")
        about: Resource[Any] = Resource(group, version, "", kind, _ServedResources, namespaced=False)
        try:
            served: _ServedResources = await self._client.send(
                Request("get", about, _ServedResources, about.root, repeatable=True)
            )
        except (errors.NotFound, errors.Forbidden):
            return None
        found = next((each for each in served.resources if each.kind == kind and "/" not in each.name), None)
        if found is None:
            return None
        model = FullOwnerObject if (group, kind) in READ_IN_FULL else OwnerObject
        return Resource(group, version, found.name, kind, model, namespaced=found.namespaced)

    async def _may_list(self, resource: Resource[Any]) -> bool:
        try:
            await self._client.send(requests.list_(resource, limit=1))
        except (errors.Forbidden, errors.NotFound):
            return False
        return True

    def _owner_changed(self, old: Any, new: Any) -> None:
        if old is not None and new is not None and not _same_word(old, new):
            self._changed(new.metadata.uid)


def _gone(reference: OwnerReference) -> Why:
    return Why(Reason.OWNER_GONE, f"{reference.kind} {reference.name} with uid {reference.uid} does not exist")


def _same_word(old: OwnerObject, new: OwnerObject) -> bool:
    """Whether the owner says the same about its pods as before; its status does not matter."""
    before, after = old.metadata, new.metadata
    return (
        before.labels == after.labels
        and before.annotations == after.annotations
        and before.owner_references == after.owner_references
        and getattr(old, "spec", None) == getattr(new, "spec", None)
    )
