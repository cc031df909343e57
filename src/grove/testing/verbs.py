"""The verbs of the API on resources, each from a decoded request to an answer."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import msgspec
import yaml

from grove.testing import failures, ownership, patch, podactions, rbac, scale, strategic
from grove.testing.deletion import Deleted, Deletions, check_delete_preconditions, options_of
from grove.testing.kinds import Resource
from grove.testing.objects import JsonObject, metadata, name_of, namespace_of, uid_of
from grove.testing.reads import Reads
from grove.testing.requests import ApiRequest, Target
from grove.testing.state import State
from grove.testing.storage import Stored
from grove.testing.writes import Outcome, Proposal, Writes, check_preconditions, writer_of

JSON_PATCH = "application/json-patch+json"
MERGE_PATCH = "application/merge-patch+json"
STRATEGIC_PATCH = "application/strategic-merge-patch+json"
APPLY_PATCH = ("application/apply-patch+yaml", "application/apply-patch+json")


@dataclass(frozen=True, slots=True)
class Answer:
    """A status code and an encoded body."""

    code: int
    body: bytes


class Verbs:
    """Create, read, update, patch and delete on objects and their subresources."""

    def __init__(self, state: State, reads: Reads, deletions: Deletions) -> None:
        self._state = state
        self._reads = reads
        self._deletions = deletions
        self._writes = Writes(state)
        self._evictions = podactions.Evictions(state, deletions)

    async def perform(self, request: ApiRequest) -> Answer:
        _check_subresource(request.target)
        match request.verb:
            case "get":
                return self._get(request)
            case "list":
                return Answer(200, self._reads.list(request))
            case "create":
                return await self._create(request)
            case "update":
                return self._answer(request, await self._update(request))
            case "patch":
                return self._answer(request, await self._patch(request))
            case "delete":
                return await self._delete(request)
            case "deletecollection":
                return await self._delete_collection(request)
            case _:
                raise failures.method_not_allowed()

    def _get(self, request: ApiRequest) -> Answer:
        if request.target.subresource == "scale":
            return Answer(200, msgspec.json.encode(scale.scale_of(request.target.resource, self._find(request))))
        return Answer(200, self._reads.get(request))

    def _find(self, request: ApiRequest) -> Stored:
        return self._state.find(request.target)

    def _answer(self, request: ApiRequest, outcome: Outcome) -> Answer:
        code = 201 if outcome.created else 200
        if request.target.subresource == "scale":
            body = msgspec.json.encode(scale.scale_of(request.target.resource, outcome.stored))
            return Answer(code, body)
        return Answer(code, self._reads.encode(request.target.resource, outcome.stored))

    async def _create(self, request: ApiRequest) -> Answer:
        match request.target.subresource:
            case "binding":
                return await self._bind(request)
            case "eviction":
                return self._evict(request)
            case "":
                body = _checked_body(request, self._state)
                return self._answer(request, await self._writes.create(request, body))
            case _:
                raise failures.method_not_allowed()

    async def _bind(self, request: ApiRequest) -> Answer:
        now = self._state.timestamp()
        binding = _object(request.body)
        await self._writes.update(request, lambda stored: Proposal(podactions.bound(stored.obj, binding, now)))
        return Answer(201, msgspec.json.encode(podactions.SUCCESS))

    def _evict(self, request: ApiRequest) -> Answer:
        body = _object(request.body)
        options = options_of(replace(request, body=body.get("deleteOptions") or {}))
        table = self._state.storage.table(podactions.PODS)
        stored = self._find(request)
        check_delete_preconditions(request, stored, options)
        return Answer(201, msgspec.json.encode(self._evictions.evict(table, stored, options, dry_run=request.dry_run)))

    async def _update(self, request: ApiRequest) -> Outcome:
        if request.target.subresource == "scale":
            return await self._rescale(request, lambda _: _object(request.body))
        body = _checked_body(request, self._state)
        if name_of(body) != request.target.name:
            raise failures.bad_request(
                f"the name of the object ({name_of(body)}) does not match the name on the URL ({request.target.name})"
            )
        return await self._writes.update(request, lambda _: Proposal(body))

    async def _rescale(self, request: ApiRequest, new_scale: Callable[[JsonObject], JsonObject]) -> Outcome:
        resource = request.target.resource

        def transform(stored: Stored) -> Proposal:
            wanted = new_scale(scale.scale_of(resource, stored))
            return Proposal(scale.scaled(resource, stored, wanted))

        return await self._writes.update(request, transform)

    async def _patch(self, request: ApiRequest) -> Outcome:
        if request.content_type in APPLY_PATCH:
            return await self._apply(request)
        change = self._patcher(request)
        if request.target.subresource == "scale":
            return await self._rescale(request, change)
        resource = request.target.resource

        def transform(stored: Stored) -> Proposal:
            obj = stored.obj
            if resource.custom and obj["apiVersion"] != resource.api_version:
                obj = {**obj, "apiVersion": resource.api_version}
            return Proposal(change(obj))

        return await self._writes.update(request, transform)

    def _patcher(self, request: ApiRequest) -> Callable[[JsonObject], JsonObject]:
        body, resource = request.body, request.target.resource
        match request.content_type:
            case "application/json-patch+json":
                return lambda obj: patch.json_patch(obj, body)
            case "application/merge-patch+json":
                return lambda obj: _object(patch.merge_patch(obj, _object(body)))
            case "application/strategic-merge-patch+json" if not resource.custom:
                return lambda obj: _object(strategic.merged(obj, _object(body), resource.merge_type))
            case other:
                raise failures.unsupported_media_type(other, [JSON_PATCH, MERGE_PATCH, *APPLY_PATCH])

    async def _apply(self, request: ApiRequest) -> Outcome:
        resource = request.target.resource
        if not request.query.get("fieldManager"):
            cause = failures.Cause("FieldValueRequired", "fieldManager", "Required value: is required for apply patch")
            raise failures.invalid(failures.Subject("", "meta.k8s.io", "", "PatchOptions"), [cause])
        config = _applicable(request)
        writer = writer_of(request, "Apply")
        table = self._state.storage.table(resource.group_resource)
        if (request.target.namespace, request.target.name) not in table.objects:
            return await self._apply_new(request, config)
        force, now = request.flag("force"), self._state.timestamp()

        def transform(stored: Stored) -> Proposal:
            check_preconditions(request, stored, config)
            live = stored.obj
            application = ownership.Application(config, writer, force, now)
            applied = ownership.apply(live, stored.ownership, application, resource.merge_type)
            return Proposal(live if applied.unchanged else applied.obj, applied.ownership)

        return await self._writes.update(request, transform)

    async def _apply_new(self, request: ApiRequest, config: JsonObject) -> Outcome:
        if request.target.subresource:
            raise failures.not_found(request.target.subject())
        if metadata(config).get("uid"):
            raise failures.conflict(
                request.target.subject(),
                "uid mismatch: the provided object specified uid, and no existing object was found",
            )
        rbac.demand(request.identity, "create", request.target)
        return await self._writes.create(request, config, apply_writer=writer_of(request, "Apply"))

    async def _delete(self, request: ApiRequest) -> Answer:
        if request.target.subresource:
            raise failures.method_not_allowed()
        deleted = await self._deletions.delete(request, options_of(request))
        resource = request.target.resource
        if deleted.gone and resource.kind != "Pod":
            return Answer(200, msgspec.json.encode(_success(resource, deleted)))
        return Answer(200, self._reads.encode(resource, deleted.stored))

    async def _delete_collection(self, request: ApiRequest) -> Answer:
        version, items = self._reads.select(request)
        gone = []
        for stored in items:
            target = replace(request.target, namespace=namespace_of(stored.obj), name=name_of(stored.obj))
            one = replace(request, target=target)
            try:
                gone.append((await self._deletions.delete(one, options_of(request))).stored.obj)
            except failures.ApiError as failure:
                if failure.code != 404:
                    raise
        resource = request.target.resource
        listing = {
            "kind": resource.list_kind,
            "apiVersion": resource.api_version,
            "metadata": {"resourceVersion": str(version)},
            "items": gone,
        }
        return Answer(200, msgspec.json.encode(listing))


def _check_subresource(target: Target) -> None:
    resource, subresource = target.resource, target.subresource
    served = (
        not subresource
        or (subresource == "status" and resource.has_status)
        or (subresource == "scale" and resource.scale is not None)
        or subresource in resource.subresources
    )
    if not served:
        raise failures.path_not_found()


def _object(value: Any) -> JsonObject:
    if not isinstance(value, dict):
        raise failures.bad_request("the body of the request must be an object")
    return value


def decode_body(raw: bytes | None, content_type: str) -> Any:
    """The body as a value; YAML where the content type says so and it is not JSON already."""
    if not raw:
        return None
    try:
        return msgspec.json.decode(raw)
    except msgspec.DecodeError as error:
        if "yaml" not in content_type:
            raise failures.bad_request(f"the object provided is unrecognized: {error}") from error
    try:
        return yaml.safe_load(raw)
    except yaml.YAMLError as error:
        raise failures.bad_request(f"error decoding YAML: {error}") from error


def _checked_body(request: ApiRequest, state: State) -> JsonObject:
    """The object to write, of the right kind and in the right namespace."""
    body, target = _object(request.body), request.target
    resource = target.resource
    kind, api_version = body.get("kind"), body.get("apiVersion")
    if not kind or not api_version:
        if resource.custom:
            raise failures.bad_request(f"Object '{'apiVersion' if kind else 'Kind'}' is missing in the request body")
        body = {**body, "kind": resource.kind, "apiVersion": resource.api_version}
    elif api_version != resource.api_version:
        raise failures.bad_request(
            f"the API version in the data ({api_version}) does not match the expected API version "
            f"({resource.api_version})"
        )
    elif kind != resource.kind:
        _refuse_kind(body, resource)
    _check_namespace(body, target)
    if request.query.get("fieldValidation") == "Strict":
        _refuse_unknown_fields(body, resource, state)
    return body


def _refuse_kind(body: JsonObject, resource: Resource) -> None:
    kind = body["kind"]
    if not resource.custom:
        raise failures.bad_request(f'{kind} in version "{resource.version}" cannot be handled as a {resource.kind}')
    subject = failures.Subject(resource.plural, resource.group, name_of(body), kind)
    cause = failures.Cause("FieldValueInvalid", "kind", f'Invalid value: "{kind}": must be {resource.kind}')
    raise failures.invalid(subject, [cause])


def _check_namespace(body: JsonObject, target: Target) -> None:
    if namespace_of(body) not in ("", target.namespace):
        raise failures.bad_request(
            "the namespace of the provided object does not match the namespace sent on the request"
        )


def _refuse_unknown_fields(body: JsonObject, resource: Resource, state: State) -> None:
    unknown = state.strategy(resource).unknown_fields(body)
    if unknown:
        listing = ", ".join(f'unknown field "{path}"' for path in unknown)
        raise failures.bad_request(f"strict decoding error: {listing}")


def _applicable(request: ApiRequest) -> JsonObject:
    """The applied fields that this path can hold: the status alone under /status, everything but it elsewhere."""
    body, target = _object(request.body), request.target
    resource = target.resource
    if body.get("apiVersion") != resource.api_version or body.get("kind") != resource.kind:
        raise failures.bad_request(
            f"Incorrect version specified in apply patch. Specified patch version: {body.get('apiVersion')}, "
            f"expected: {resource.api_version}"
        )
    if "managedFields" in metadata(body):
        raise failures.bad_request("metadata.managedFields must be nil")
    if name_of(body) not in ("", target.name):
        raise failures.bad_request(
            f"the name of the object ({name_of(body)}) does not match the name on the URL ({target.name})"
        )
    _check_namespace(body, target)
    meta = {**metadata(body), "name": target.name}
    if target.subresource == "status":
        kept = {
            field: value for field, value in meta.items() if field in ("name", "namespace", "uid", "resourceVersion")
        }
        return {name: value for name, value in body.items() if name != "spec"} | {"metadata": kept}
    if resource.has_status:
        body = {name: value for name, value in body.items() if name != "status"}
    return {**body, "metadata": meta}


def _success(resource: Resource, deleted: Deleted) -> JsonObject:
    details = {"name": name_of(deleted.stored.obj), "kind": resource.plural, "uid": uid_of(deleted.stored.obj)}
    if resource.group:
        details["group"] = resource.group
    return {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "details": details}
