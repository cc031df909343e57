"""The only interpreter of a Plan: actions become requests, answers are laid over the caches, failures become facts.

Stages run one after the other, the actions of a stage at once. What a stage could not write ends the plan; everything
else of that stage is written all the same. A write whose answer was lost counts as failed: the next pass looks first.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import msgspec
import structlog

from grove.api import labels
from grove.api.meta import Model
from grove.controllers.stores import Stores
from grove.plan.actions import Action, Apply, Create, Delete, Patch, Plan, StatusWrite
from grove.runtime import errors, requests
from grove.runtime.client import Client
from grove.runtime.objects import HasMetadata
from grove.runtime.resource import Resource

_TAKEN = "FieldManagerConflict"  # an object of this name exists, and its fields belong to somebody else
_log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class Failure:
    """A write that did not succeed, and for which part of the workload."""

    subject: str
    error: errors.ApiError

    @property
    def stale(self) -> bool:
        """Whether the cache was merely behind: the next look will tell better."""
        if self.error.has_cause(_TAKEN):
            return False
        return isinstance(self.error, errors.Conflict | errors.NotFound | errors.Unreachable | errors.Fenced)

    def __str__(self) -> str:
        return f"{self.subject}: {self.error}"


class Applier:
    """Writes plans."""

    def __init__(self, client: Client, stores: Stores) -> None:
        self._client = client
        self._stores = stores

    async def run(self, plan: Plan) -> list[Failure]:
        """Writes the plan's stages; returns what failed in the stage that ended it."""
        for stage in plan.stages:
            failures = await self.write(stage)
            if failures:
                return failures
        return []

    async def write(self, actions: Sequence[Action]) -> list[Failure]:
        """Writes these actions at once."""
        if len(actions) == 1:
            outcome = await self._attempt(actions[0])
            return [outcome] if outcome else []
        outcomes = await asyncio.gather(*(self._attempt(action) for action in actions))
        return [outcome for outcome in outcomes if outcome]

    async def _attempt(self, action: Action) -> Failure | None:
        try:
            await self._execute(action)
        except errors.ApiError as error:
            failure = Failure(_subject(action), error)
            _log.info("write failed", action=type(action).__name__, subject=failure.subject, error=str(error))
            return failure
        return None

    async def _execute(self, action: Action) -> None:
        if isinstance(action, Create):
            self._seen(action.resource, await self._client.send(requests.create(action.resource, action.body)))
        elif isinstance(action, Apply):
            self._seen(action.resource, await self._client.send(_apply_request(action)))
        elif isinstance(action, Patch):
            request = requests.json_patch(action.resource, action.namespace, action.name, list(action.operations))
            self._seen(action.resource, await self._client.send(request))
        elif isinstance(action, Delete):
            await self._delete(action)
        else:
            self._seen(action.resource, await self._client.send(self._status_request(action)))

    def _status_request(self, write: StatusWrite) -> requests.Request[Any]:
        """A status holds facts that exist nowhere else, so one worked out from an older version must not replace it."""
        meta = {"name": write.name, **({"namespace": write.namespace} if write.namespace else {})}
        held = self._stores[write.resource].get(f"{write.namespace}/{write.name}" if write.namespace else write.name)
        if held is not None:
            meta["resourceVersion"] = held.metadata.resource_version
        body = {
            "apiVersion": write.resource.api_version,
            "kind": write.resource.kind,
            "metadata": meta,
            "status": without_nulls(msgspec.to_builtins(write.status)),
        }
        return requests.apply(write.resource, body, subresource="status")

    async def _delete(self, action: Delete) -> None:
        try:
            left = await self._client.delete(action.resource, action.namespace, action.name, uid=action.uid)
        except errors.NotFound:
            left = None
        key = f"{action.namespace}/{action.name}" if action.resource.namespaced else action.name
        held = self._stores[action.resource].get(key)
        if left is not None:
            self._seen(action.resource, left)
        elif held is not None and held.metadata.uid == action.uid:
            self._stores[action.resource].overlay_deleted(held)

    def _seen(self, resource: Resource[Any], answer: HasMetadata) -> None:
        if resource in self._stores:
            self._stores[resource].overlay(answer)


def _apply_request(action: Apply) -> requests.Request[Any]:
    body = action.body
    if action.resource_version:
        body = {**body, "metadata": {**body["metadata"], "resourceVersion": action.resource_version}}
    return requests.apply(action.resource, body, force=action.force)


def without_nulls(value: Any) -> Any:
    """The value without fields that are null: an absent field is how a status says nothing."""
    if isinstance(value, dict):
        return {key: without_nulls(inner) for key, inner in value.items() if inner is not None}
    if isinstance(value, list):
        return [without_nulls(inner) for inner in value]
    return value


def _subject(action: Action) -> str:
    """The clique for a pod, else the object itself."""
    if isinstance(action, Create | Apply):
        meta = action.body["metadata"]
        return str(meta.get("labels", {}).get(labels.POD_CLIQUE) or meta["name"])
    return action.name


def same_status(wanted: Model, seen: Model | None) -> bool:
    """Whether the stored status already says this. Conditions others wrote are not ours to compare."""
    if seen is None:
        return False
    ours = {c.type: c for c in getattr(wanted, "conditions", ())}
    theirs = {c.type: c for c in getattr(seen, "conditions", ()) if c.type in ours}
    if ours != theirs:
        return False
    skipped = {"conditions", "placement_score"}
    return all(getattr(wanted, f) == getattr(seen, f) for f in wanted.__struct_fields__ if f not in skipped)
