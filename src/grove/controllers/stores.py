"""The caches of one process, by resource, with the indexes that make an observation cost what it looks at."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, TypeVar

from grove.api import labels
from grove.runtime.client import Client
from grove.runtime.objects import HasMetadata
from grove.runtime.reflector import Reflector
from grove.runtime.resource import Resource
from grove.runtime.store import Store

T = TypeVar("T", bound=HasMetadata)

BY_SET = "set"
BY_REPLICA = "replica"
MANAGED_SELECTOR = f"{labels.MANAGED_BY}={labels.MANAGER}"


def set_key(namespace: str, name: str) -> str:
    return f"{namespace}/{name}"


def replica_key(namespace: str, name: str, index: int | str) -> str:
    return f"{namespace}/{name}/{index}"


def _by_set(item: HasMetadata) -> Iterable[str]:
    owner = item.metadata.labels.get(labels.PART_OF)
    return (set_key(item.metadata.namespace, owner),) if owner else ()


def _by_replica(item: HasMetadata) -> Iterable[str]:
    found = item.metadata.labels
    owner, index = found.get(labels.PART_OF), found.get(labels.REPLICA_INDEX)
    return (replica_key(item.metadata.namespace, owner, index),) if owner and index is not None else ()


class Stores:
    """One store per resource. Resources are added before the reflectors run; `shared` ones are filled elsewhere."""

    def __init__(self, *shared: Store[Any]) -> None:
        self._stores: dict[Resource[Any], Store[Any]] = {store.resource: store for store in shared}
        self._selectors: dict[Resource[Any], str] = {}

    def add(self, resource: Resource[T], *, managed_only: bool = False, indexed: bool = False) -> Store[T]:
        """A store for this resource; `managed_only` keeps objects of other programs out of memory."""
        if resource in self._stores:
            return self._stores[resource]
        store: Store[Any] = Store(resource)
        if indexed:
            store.add_index(BY_SET, _by_set)
            store.add_index(BY_REPLICA, _by_replica)
        self._stores[resource] = store
        self._selectors[resource] = MANAGED_SELECTOR if managed_only else ""
        return store

    def __getitem__(self, resource: Resource[T]) -> Store[T]:
        return self._stores[resource]

    def __contains__(self, resource: Resource[Any]) -> bool:
        return resource in self._stores

    def __iter__(self) -> Iterator[Store[Any]]:
        return iter(self._stores.values())

    def reflectors(self, client: Client, **options: Any) -> list[Reflector[Any]]:
        """What fills the stores."""
        return [
            Reflector(client, self._stores[resource], label_selector=selector, **options)
            for resource, selector in self._selectors.items()
        ]

    async def wait_synced(self) -> None:
        for store in list(self._stores.values()):
            await store.wait_synced()
