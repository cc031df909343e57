"""Deleting: preconditions, grace periods, finalizers, and what becomes of dependents.

An object without finalizers and grace goes at once. Otherwise it is marked, and goes with its last finalizer; the
propagation policy is one of those finalizers, worked off by the garbage collector.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any

from grove.testing import failures
from grove.testing.admission import Attempt
from grove.testing.objects import JsonObject, finalizers, is_deleting, metadata, with_metadata
from grove.testing.requests import ApiRequest
from grove.testing.storage import Stored, Table
from grove.testing.writes import is_ready_to_go

if TYPE_CHECKING:
    from grove.testing.state import State

FOREGROUND = "foregroundDeletion"
ORPHAN = "orphan"
_POLICIES = ("Foreground", "Background", "Orphan")


@dataclass(frozen=True, slots=True)
class DeleteOptions:
    """What the caller of a delete may say about it."""

    policy: str | None = None
    grace: int | None = None
    uid: str | None = None
    version: str | None = None


@dataclass(frozen=True, slots=True)
class Deleted:
    """The last version of the object, and whether it is gone or only marked."""

    stored: Stored
    gone: bool


def options_of(request: ApiRequest) -> DeleteOptions:
    """DeleteOptions from the body, or from the query where the body is silent."""
    body: JsonObject = request.body if isinstance(request.body, dict) else {}
    said: dict[str, Any] = {**request.query, **body}
    conditions = body.get("preconditions") or {}
    grace, policy = said.get("gracePeriodSeconds"), said.get("propagationPolicy")
    if policy is not None and policy not in _POLICIES:
        raise failures.invalid(
            failures.Subject("", "meta.k8s.io", "", "DeleteOptions"),
            [failures.Cause("FieldValueNotSupported", "propagationPolicy", f'Unsupported value: "{policy}"')],
        )
    return DeleteOptions(
        policy=policy,
        grace=int(grace) if grace is not None else None,
        uid=conditions.get("uid"),
        version=conditions.get("resourceVersion"),
    )


class Deletions:
    """The delete path over one state."""

    def __init__(self, state: State) -> None:
        self._state = state

    async def delete(self, request: ApiRequest, options: DeleteOptions) -> Deleted:
        stored = self._state.find(request.target)
        table = self._state.storage.table(request.target.resource.group_resource)
        check_delete_preconditions(request, stored, options)
        if self._state.admission.concerns("DELETE", request):
            attempt = Attempt("DELETE", request, None, stored.obj, {"kind": "DeleteOptions"})
            await self._state.admission.mutate(attempt)
            await self._state.admission.validate(attempt)
            stored = self._state.find(request.target)
            check_delete_preconditions(request, stored, options)
        if request.dry_run:
            return Deleted(stored, gone=True)
        return self.delete_stored(table, stored, options)

    def delete_stored(self, table: Table, stored: Stored, options: DeleteOptions) -> Deleted:
        """Marks or removes an object, without asking anybody."""
        old = stored.obj
        if old["kind"] == "Namespace":
            return self._delete_namespace(table, stored)
        marked = self._marked(old, options)
        if is_ready_to_go(marked):
            return Deleted(self._state.storage.remove(table, stored), gone=True)
        if marked == old:
            return Deleted(stored, gone=False)
        return Deleted(self._state.storage.put(table, marked, stored.ownership), gone=False)

    def _marked(self, old: JsonObject, options: DeleteOptions) -> JsonObject:
        """The object with its deletion noted: time, grace and the finalizer of the propagation policy."""
        grace = self._grace(old, options.grace)
        changes: JsonObject = {"finalizers": _finalizers_for(old, options.policy) or None}
        if changes["finalizers"] is None and "finalizers" not in metadata(old):
            del changes["finalizers"]
        if not is_deleting(old):
            changes["deletionTimestamp"] = self._moment(grace or 0)
            changes["deletionGracePeriodSeconds"] = grace or 0
            if metadata(old).get("generation"):
                changes["generation"] = metadata(old)["generation"] + 1
        else:
            changes.update(self._shortened(old, options.grace))
        return with_metadata(old, **changes)

    def _grace(self, old: JsonObject, requested: int | None) -> int | None:
        resource = self._state.registry.of_kind(old["apiVersion"], old["kind"])
        if resource is None:
            return None
        return self._state.strategy(resource).grace_period(old, requested)

    def _shortened(self, old: JsonObject, requested: int | None) -> JsonObject:
        """A second delete may shorten the grace period, never lengthen it."""
        running = metadata(old).get("deletionGracePeriodSeconds") or 0
        if requested is None or requested >= running:
            return {}
        return {"deletionTimestamp": self._moment(requested), "deletionGracePeriodSeconds": requested}

    def _delete_namespace(self, table: Table, stored: Stored) -> Deleted:
        if is_deleting(stored.obj):
            return Deleted(stored, gone=False)
        marked = with_metadata(stored.obj, deletionTimestamp=self._moment(0))
        marked["status"] = {**(marked.get("status") or {}), "phase": "Terminating"}
        return Deleted(self._state.storage.put(table, marked, stored.ownership), gone=False)

    def _moment(self, grace: int) -> str:
        from grove.testing.state import format_time

        moment: datetime = self._state.clock.now() + timedelta(seconds=grace)
        return format_time(moment)


def _finalizers_for(obj: JsonObject, policy: str | None) -> list[str]:
    present = finalizers(obj)
    if policy is None:
        return present
    kept = [name for name in present if name not in (FOREGROUND, ORPHAN)]
    match policy:
        case "Foreground":
            return [*kept, FOREGROUND]
        case "Orphan":
            return [*kept, ORPHAN]
        case _:
            return kept


def check_delete_preconditions(request: ApiRequest, stored: Stored, options: DeleteOptions) -> None:
    meta = metadata(stored.obj)
    resource = request.target.resource
    subject = failures.Subject(resource.kind, resource.group, request.target.name)
    if options.uid is not None and options.uid != meta["uid"]:
        why = (
            f"the UID in the precondition ({options.uid}) does not match the UID in record ({meta['uid']}). "
            "The object might have been deleted and then recreated"
        )
        raise failures.conflict(subject, why)
    if options.version is not None and options.version != meta["resourceVersion"]:
        why = (
            f"the ResourceVersion in the precondition ({options.version}) does not match the ResourceVersion in record "
            f"({meta['resourceVersion']}). The object might have been modified"
        )
        raise failures.conflict(subject, why)
