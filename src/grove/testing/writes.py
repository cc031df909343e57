"""Create, update, patch and apply: the path every write takes from a request to a stored version.

Prepare (identity, defaults, what may not change) → own (field managers) → admit → check → store. A write that changes
nothing stores nothing. While admission runs, others may write; a patch then starts over from the newer version, an
update that named a version is refused.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from grove.testing import failures, ownership
from grove.testing.admission import Attempt
from grove.testing.failures import ApiError, Cause
from grove.testing.kinds import Resource
from grove.testing.objects import JsonObject, finalizers, is_deleting, metadata, name_of
from grove.testing.ownership import Ownership, Writer
from grove.testing.requests import ApiRequest
from grove.testing.storage import Storage, Stored, Table
from grove.testing.strategies import Strategy, refuse

if TYPE_CHECKING:
    from grove.testing.state import State

_SERVER_FIELDS = (
    "uid",
    "creationTimestamp",
    "deletionTimestamp",
    "deletionGracePeriodSeconds",
    "generation",
    "selfLink",
)
_GENERATED_ATTEMPTS = 8


@dataclass(frozen=True, slots=True)
class Outcome:
    """What a write left behind: the version to answer with, and whether the object is new."""

    stored: Stored
    created: bool = False


@dataclass(frozen=True, slots=True)
class Proposal:
    """The next version of an object as a transformation sees it, with its owners if it already knows them."""

    obj: JsonObject
    ownership: Ownership | None = None


Transformation = Callable[[Stored], Proposal]


class Writes:
    """The write path over one state."""

    def __init__(self, state: State) -> None:
        self._state = state
        self._storage: Storage = state.storage

    async def create(self, request: ApiRequest, body: JsonObject, *, apply_writer: Writer | None = None) -> Outcome:
        resource = request.target.resource
        for attempt in range(_GENERATED_ATTEMPTS):
            try:
                return await self._create_once(request, self._identified(request, body), apply_writer)
            except ApiError as failure:
                generated = not metadata(body).get("name") and bool(metadata(body).get("generateName"))
                if failure.reason != "AlreadyExists" or not generated or attempt == _GENERATED_ATTEMPTS - 1:
                    raise
        raise failures.already_exists(resource.subject(name_of(body)))

    async def _create_once(self, request: ApiRequest, obj: JsonObject, apply_writer: Writer | None) -> Outcome:
        state, resource = self._state, request.target.resource
        strategy = state.strategy(resource)
        state.require_open_namespace(request.target)
        as_sent = obj
        obj = strategy.prepared_for_create(obj)
        writer = apply_writer or writer_of(request, "Update")
        owned = as_sent if apply_writer else obj
        owners = ownership.of_new(writer, owned, resource.merge_type, state.timestamp())
        if state.admission.concerns("CREATE", request):
            obj = await self._admitted_new(request, obj, strategy)
        refuse(resource, obj, [*strategy.name_violations(obj), *strategy.violations(obj)])
        table = self._storage.table(resource.group_resource)
        if (request.target.namespace, name_of(obj)) in table.objects:
            raise failures.already_exists(resource.subject(name_of(obj)))
        if request.dry_run:
            return Outcome(Stored(obj, owners, 0), created=True)
        return Outcome(self._storage.put(table, _as_stored(obj, resource), owners), created=True)

    async def _admitted_new(self, request: ApiRequest, obj: JsonObject, strategy: Strategy) -> JsonObject:
        request = replace(request, target=replace(request.target, name=name_of(obj)))
        admission = self._state.admission
        options = {"kind": "CreateOptions", "apiVersion": "meta.k8s.io/v1"}
        mutated = await admission.mutate(Attempt("CREATE", request, obj, None, options))
        obj = strategy.defaulted(strategy.cleaned(mutated or obj))
        await admission.validate(Attempt("CREATE", request, obj, None, options))
        self._state.require_open_namespace(request.target)
        return obj

    def _identified(self, request: ApiRequest, body: JsonObject) -> JsonObject:
        """The new object under its final name with the metadata the server gives it."""
        state, target = self._state, request.target
        resource = target.resource
        meta = {field: value for field, value in metadata(body).items() if field not in _SERVER_FIELDS}
        meta.pop("managedFields", None)
        if meta.pop("resourceVersion", ""):
            raise failures.ApiError(500, "", "resourceVersion should not be set on objects to be created")
        if not meta.get("name") and meta.get("generateName"):
            meta["name"] = state.identifiers.generated_name(meta["generateName"])
        meta["uid"] = state.identifiers.uid()
        meta["creationTimestamp"] = state.timestamp()
        if resource.namespaced:
            meta["namespace"] = target.namespace
        if resource.counts_generation:
            meta["generation"] = 1
        obj = {**body, "metadata": meta}
        if resource.has_status:
            obj.pop("status", None)
        return obj

    async def update(self, request: ApiRequest, transform: Transformation) -> Outcome:
        """Stores what `transform` makes of the current version."""
        table = self._storage.table(request.target.resource.group_resource)
        while True:
            stored = self._state.find(request.target)
            proposal = transform(stored)
            check_preconditions(request, stored, proposal.obj)
            new, owners = self._next_version(request, stored, proposal)
            concerned = self._state.admission.concerns("UPDATE", request)
            if concerned:
                new = await self._admitted(request, stored, new)
            self._check_update(request, stored.obj, new)
            if concerned and table.objects.get(stored.key) is not stored:
                continue
            return Outcome(self._commit(request, table, stored, (new, owners)))

    def _next_version(self, request: ApiRequest, stored: Stored, proposal: Proposal) -> tuple[JsonObject, Ownership]:
        state, resource = self._state, request.target.resource
        strategy = state.strategy(resource)
        new = _kept_apart(request, stored.obj, proposal.obj)
        if request.target.subresource != "binding":
            new = strategy.defaulted(strategy.cleaned(new))
        new = _as_stored(_settled_metadata(strategy, stored.obj, new, request), resource)
        if proposal.ownership is not None:
            return new, proposal.ownership
        if new == stored.obj:
            return stored.obj, stored.ownership
        change = (stored.obj, new)
        writer = writer_of(request, "Update")
        return new, stored.ownership.after_update(writer, change, resource.merge_type, state.timestamp())

    async def _admitted(self, request: ApiRequest, stored: Stored, new: JsonObject) -> JsonObject:
        strategy = self._state.strategy(request.target.resource)
        options = {"kind": "UpdateOptions", "apiVersion": "meta.k8s.io/v1"}
        mutated = await self._state.admission.mutate(Attempt("UPDATE", request, new, stored.obj, options))
        if mutated is not None and mutated is not new:
            new = _kept_apart(request, stored.obj, mutated)
            new = _settled_metadata(strategy, stored.obj, strategy.defaulted(strategy.cleaned(new)), request)
        await self._state.admission.validate(Attempt("UPDATE", request, new, stored.obj, options))
        return new

    def _check_update(self, request: ApiRequest, old: JsonObject, new: JsonObject) -> None:
        if new is old:
            return
        resource = request.target.resource
        strategy = self._state.strategy(resource)
        causes = _metadata_violations(old, new)
        if request.target.subresource != "binding":
            causes += strategy.update_violations(old, new)
        refuse(resource, new, causes)

    def _commit(
        self, request: ApiRequest, table: Table, stored: Stored, proposed: tuple[JsonObject, Ownership]
    ) -> Stored:
        new, owners = proposed
        if new == stored.obj and owners is stored.ownership:
            return stored
        if request.dry_run:
            return Stored(new, owners, stored.version)
        if new is stored.obj:
            new = {**new, "metadata": dict(new["metadata"])}
        if is_ready_to_go(new):
            self._storage.remove(table, stored)
            return Stored(new, owners, stored.version)
        return self._storage.put(table, new, owners)


def is_ready_to_go(obj: JsonObject) -> bool:
    """A deleted object goes when its last finalizer does and no grace period runs."""
    if not is_deleting(obj) or finalizers(obj):
        return False
    if obj["kind"] == "Namespace" and (obj.get("spec") or {}).get("finalizers"):
        return False
    return not metadata(obj).get("deletionGracePeriodSeconds")


def writer_of(request: ApiRequest, operation: str) -> Writer:
    target = request.target
    return Writer(request.manager, operation, target.subresource, target.resource.api_version)


def check_preconditions(request: ApiRequest, stored: Stored, new: JsonObject) -> None:
    """A version or UID in the written object must be the current one."""
    subject = request.target.subject()
    uid, version = metadata(new).get("uid"), metadata(new).get("resourceVersion")
    current = metadata(stored.obj)
    if uid and uid != current["uid"]:
        if request.verb == "update":
            raise failures.precondition_failed(subject, "UID", uid, current["uid"])
        raise failures.invalid(subject, [_immutable("metadata.uid", uid)])
    deletion = metadata(new).get("deletionTimestamp")
    if deletion and deletion != current.get("deletionTimestamp"):
        raise failures.invalid(subject, [_immutable("metadata.deletionTimestamp", deletion)])
    if version and version != current["resourceVersion"]:
        raise failures.modified(subject)
    if not version and request.verb == "update" and request.target.resource.needs_version_on_update:
        message = "Invalid value: 0: must be specified for an update"
        raise failures.invalid(subject, [Cause("FieldValueInvalid", "metadata.resourceVersion", message)])


def _immutable(field: str, value: str) -> Cause:
    return Cause("FieldValueInvalid", field, f'Invalid value: "{value}": field is immutable')


def _kept_apart(request: ApiRequest, old: JsonObject, new: JsonObject) -> JsonObject:
    """A write of the status leaves everything else as it is; any other write leaves the status as it is."""
    match request.target.subresource:
        case "status":
            kept = {**old}
            if "status" in new:
                kept["status"] = new["status"]
            else:
                kept.pop("status", None)
            return kept
        case "":
            if not request.target.resource.has_status:
                return new
            if old.get("status") is new.get("status"):
                return new
            kept = {name: value for name, value in new.items() if name != "status"}
            return {**kept, "status": old["status"]} if "status" in old else kept
        case _:
            return new


def _settled_metadata(strategy: Strategy, old: JsonObject, new: JsonObject, request: ApiRequest) -> JsonObject:
    before = metadata(old)
    if new.get("metadata") is before and request.target.subresource == "status":
        return {**new, "metadata": dict(before)}
    meta = {field: value for field, value in metadata(new).items() if field != "managedFields"}
    for field in _SERVER_FIELDS:
        if field in before:
            meta[field] = before[field]
        else:
            meta.pop(field, None)
    meta["name"], meta["resourceVersion"] = before["name"], before["resourceVersion"]
    if "namespace" in before:
        meta["namespace"] = before["namespace"]
    for field in ("labels", "annotations", "finalizers", "ownerReferences"):
        if field in meta and not meta[field]:
            del meta[field]
    if strategy.resource.counts_generation and strategy.spec_changed(old, new):
        meta["generation"] = before.get("generation", 0) + 1
    return {**new, "metadata": meta}


def _as_stored(obj: JsonObject, resource: Resource) -> JsonObject:
    """Objects are kept under the storage version of their kind."""
    if not resource.custom or resource.version == resource.storage_version:
        return obj
    return {**obj, "apiVersion": f"{resource.group}/{resource.storage_version}"}


def _metadata_violations(old: JsonObject, new: JsonObject) -> list[Cause]:
    if not is_deleting(old):
        return []
    added: Any = sorted(set(finalizers(new)) - set(finalizers(old)))
    if not added:
        return []
    message = (
        "Forbidden: no new finalizers can be added if the object is being deleted, found new finalizers "
        f"[]string{{{', '.join(repr(name) for name in added)}}}"
    )
    return [Cause("FieldValueForbidden", "metadata.finalizers", message)]
