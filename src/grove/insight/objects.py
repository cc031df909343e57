"""Objects in memory with the API server's part: identities, versions, terminating pods, owners taking theirs along.

It carries out the actions of a Plan as the API server would, as far as plans can tell the difference. A pod that has a
node terminates and is gone only when somebody says so; everything else is gone at once, and what it owned follows.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime
from typing import Any, TypeVar

import msgspec

from grove.api import kinds
from grove.api.core import Pod
from grove.api.kinds import PODS
from grove.plan.actions import Action, Apply, Create, Delete, Patch, StatusWrite
from grove.plan.conditions import timestamp
from grove.runtime.objects import HasMetadata, ObjectMeta
from grove.runtime.resource import Resource

T = TypeVar("T", bound=HasMetadata)

_BY_MODEL: dict[type[Any], Resource[Any]] = {
    resource.model: resource for resource in vars(kinds).values() if isinstance(resource, Resource)
}


class Objects:
    """Everything that exists, by kind and name. The owner at the top is not in here; it is named by its UID."""

    def __init__(self, root_uid: str) -> None:
        self._root = root_uid
        self._held: dict[str, dict[str, Any]] = {}
        self._serial = 0

    def of(self, resource: Resource[T]) -> dict[str, T]:
        """The objects of one kind by name."""
        return self._held.setdefault(resource.kind, {})

    def get(self, resource: Resource[T], name: str) -> T | None:
        return self.of(resource).get(name)

    def add(self, item: HasMetadata) -> None:
        """Takes in an object that was observed somewhere."""
        self._held.setdefault(_BY_MODEL[type(item)].kind, {})[item.metadata.name] = item

    def carry_out(self, action: Action, now: datetime) -> bool:
        """Does what the action says; False when that changes nothing."""
        if isinstance(action, Create):
            return self._create(action.resource, action.body, now)
        if isinstance(action, Apply):
            return self._apply(action, now)
        if isinstance(action, Patch):
            return self._patch(action)
        if isinstance(action, Delete):
            return self.delete(action.resource, action.name, now, uid=action.uid)
        return self._write_status(action)

    def replace(self, resource: Resource[T], item: T) -> None:
        """Puts a changed object in the place of the one of its name."""
        self.of(resource)[item.metadata.name] = item

    def delete(self, resource: Resource[Any], name: str, now: datetime, uid: str | None = None) -> bool:
        """A pod on a node begins to terminate; anything else goes at once with what it owns."""
        item = self.of(resource).get(name)
        if item is None or item.metadata.terminating or (uid and item.metadata.uid != uid):
            return False
        if isinstance(item, Pod) and item.spec.node_name:
            meta = msgspec.structs.replace(item.metadata, deletion_timestamp=timestamp(now))
            self.replace(PODS, msgspec.structs.replace(item, metadata=meta))
        else:
            self.gone(resource, name, now)
        return True

    def gone(self, resource: Resource[Any], name: str, now: datetime) -> None:
        """The object exists no more; what belonged to it alone is deleted."""
        self.of(resource).pop(name, None)
        for orphan_resource, orphan in list(self._orphans()):
            self.delete(orphan_resource, orphan, now)

    def _orphans(self) -> Iterator[tuple[Resource[Any], str]]:
        standing = {self._root, *(item.metadata.uid for items in self._held.values() for item in items.values())}
        for items in self._held.values():
            for name, item in items.items():
                owner = item.metadata.controller
                if owner is not None and owner.uid not in standing and not item.metadata.terminating:
                    yield _BY_MODEL[type(item)], name

    def _create(self, resource: Resource[Any], body: Any, now: datetime) -> bool:
        item = msgspec.convert(body, resource.model)
        if item.metadata.name in self.of(resource):
            return False
        self._serial += 1
        meta = msgspec.structs.replace(
            item.metadata,
            uid=f"made-{self._serial}",
            generation=1,
            resource_version=str(self._serial),
            creation_timestamp=timestamp(now),
        )
        self.replace(resource, msgspec.structs.replace(item, metadata=meta))
        return True

    def _apply(self, action: Apply, now: datetime) -> bool:
        resource = action.resource
        wanted = msgspec.convert(action.body, resource.model)
        seen = self.of(resource).get(wanted.metadata.name)
        if seen is None:
            return self._create(resource, action.body, now)
        if action.resource_version and action.resource_version != seen.metadata.resource_version:
            return False
        spec_changed = getattr(wanted, "spec", None) != getattr(seen, "spec", None)
        meta = self._renewed(seen.metadata, wanted.metadata, spec_changed)
        status = {"status": seen.status} if hasattr(seen, "status") else {}
        self.replace(resource, msgspec.structs.replace(wanted, metadata=meta, **status))
        return True

    def _renewed(self, seen: ObjectMeta, wanted: ObjectMeta, spec_changed: bool) -> ObjectMeta:
        self._serial += 1
        return msgspec.structs.replace(
            seen,
            labels=wanted.labels,
            annotations=wanted.annotations,
            owner_references=wanted.owner_references,
            generation=seen.generation + spec_changed,
            resource_version=str(self._serial),
        )

    def _patch(self, action: Patch) -> bool:
        seen = self.of(action.resource).get(action.name)
        if seen is None:
            return False
        tree = msgspec.to_builtins(seen)
        for operation in action.operations:
            _patch(tree, operation)
        self.replace(action.resource, msgspec.convert(tree, action.resource.model))
        return True

    def _write_status(self, write: StatusWrite) -> bool:
        seen = self.of(write.resource).get(write.name)
        if seen is None or seen.status == write.status:
            return False
        self.replace(write.resource, msgspec.structs.replace(seen, status=write.status))
        return True


def _patch(tree: Any, operation: Any) -> None:
    """One operation of a JSON patch; plans use test, remove and replace."""
    *path, last = operation["path"].strip("/").split("/")
    for part in path:
        tree = tree[int(part)] if isinstance(tree, list) else tree[part]
    key: Any = int(last) if isinstance(tree, list) else last
    if operation["op"] == "test":
        if tree[key] != operation["value"]:
            raise ValueError(f"{operation['path']} is not {operation['value']!r}")
    elif operation["op"] == "remove":
        del tree[key]
    else:
        tree[key] = operation["value"]
