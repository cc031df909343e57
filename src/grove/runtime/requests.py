"""Requests as values: what to ask of the API server, without asking it.

A request knows what its answer decodes into and whether repeating it is harmless (`repeatable`): reads, server-side
applies, and writes that carry a precondition are; anything else must not be sent again when its outcome is unknown.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Generic, Literal, TypedDict, TypeVar, Unpack

from grove.runtime.objects import ObjectList, Scale, Status
from grove.runtime.resource import Resource

T = TypeVar("T")
Verb = Literal["get", "list", "create", "apply", "patch", "delete"]
Propagation = Literal["Background", "Foreground", "Orphan"]
Query = tuple[tuple[str, str], ...]

METHODS: Mapping[str, str] = {
    "get": "GET",
    "list": "GET",
    "create": "POST",
    "apply": "PATCH",
    "patch": "PATCH",
    "delete": "DELETE",
}
READS = frozenset({"get", "list"})
JSON = "application/json"
APPLY = "application/apply-patch+yaml"  # JSON is YAML; this media type is understood by every served version
MERGE_PATCH = "application/merge-patch+json"
JSON_PATCH = "application/json-patch+json"
PAGE = 500


@dataclass(frozen=True, slots=True)
class Request(Generic[T]):
    """One thing to ask of the API server. `answer` is the type its answer decodes into."""

    verb: Verb
    resource: Resource[Any]
    answer: Any
    path: str
    query: Query = ()
    body: Any = None
    content_type: str = ""
    field_manager: str = ""
    repeatable: bool = False
    subresource: str | None = None

    @property
    def is_write(self) -> bool:
        return self.verb not in READS


class PatchOptions(TypedDict, total=False):
    """What a patch may add: the subresource it goes to, whose fields it sets, and whether it is only tried."""

    subresource: str | None
    field_manager: str
    dry_run: bool
    answer: Any


class DeleteOptions(TypedDict, total=False):
    """Preconditions and manner of a deletion."""

    uid: str | None
    resource_version: str | None
    grace_period: int | None
    propagation: Propagation | None
    dry_run: bool


def get(resource: Resource[T], namespace: str | None, name: str, *, subresource: str | None = None) -> Request[T]:
    path = resource.path(namespace, name, subresource)
    return Request("get", resource, resource.model, path, repeatable=True, subresource=subresource)


def list_(
    resource: Resource[T],
    namespace: str | None = None,
    label_selector: str = "",
    field_selector: str = "",
    limit: int = PAGE,
    continue_: str = "",
) -> Request[ObjectList[T]]:
    query = _selection(label_selector, field_selector)
    if limit:
        query += (("limit", str(limit)),)
    if continue_:
        query += (("continue", continue_),)
    model: Any = resource.model
    return Request("list", resource, ObjectList[model], resource.path(namespace), query, repeatable=True)


def create(
    resource: Resource[T],
    obj: Mapping[str, Any],
    namespace: str | None = None,
    *,
    field_manager: str = "",
    dry_run: bool = False,
) -> Request[T]:
    """Creates an object; the namespace defaults to the one in its metadata."""
    path = resource.path(namespace or obj.get("metadata", {}).get("namespace"))
    body = _typed(resource, obj)
    return Request("create", resource, resource.model, path, _dry(dry_run), body, JSON, field_manager)


def apply(
    resource: Resource[T],
    obj: Mapping[str, Any],
    *,
    field_manager: str = "",
    force: bool = True,
    subresource: str | None = None,
    dry_run: bool = False,
) -> Request[T]:
    """Server-side apply: we own exactly the fields of `obj`. An empty field manager means the client's own."""
    metadata = obj["metadata"]
    query: Query = (("force", "true"),) if force else ()
    return Request(
        "apply",
        resource,
        resource.model,
        resource.path(metadata.get("namespace"), metadata["name"], subresource),
        query + _dry(dry_run),
        _typed(resource, obj),
        APPLY,
        field_manager,
        repeatable=True,
        subresource=subresource,
    )


def merge_patch(
    resource: Resource[T],
    namespace: str | None,
    name: str,
    patch: Mapping[str, Any],
    **options: Unpack[PatchOptions],
) -> Request[T]:
    """RFC 7386. A resourceVersion inside the patch is a precondition and makes it repeatable."""
    guarded = bool(patch.get("metadata", {}).get("resourceVersion"))
    return _patch(resource, (namespace, name), patch, (MERGE_PATCH, guarded), options)


def json_patch(
    resource: Resource[T],
    namespace: str | None,
    name: str,
    operations: Sequence[Mapping[str, Any]],
    **options: Unpack[PatchOptions],
) -> Request[T]:
    """RFC 6902. A `test` operation is a precondition and makes it repeatable."""
    guarded = any(operation.get("op") == "test" for operation in operations)
    return _patch(resource, (namespace, name), operations, (JSON_PATCH, guarded), options)


def delete(
    resource: Resource[T], namespace: str | None, name: str, **options: Unpack[DeleteOptions]
) -> Request[T | None]:
    """Deletes an object; the answer is None, or the object when it is only marked and still terminating."""
    body: dict[str, Any] = {"apiVersion": "v1", "kind": "DeleteOptions"}
    preconditions = {
        field: value
        for field, value in (("uid", options.get("uid")), ("resourceVersion", options.get("resource_version")))
        if value
    }
    if preconditions:
        body["preconditions"] = preconditions
    if (grace_period := options.get("grace_period")) is not None:
        body["gracePeriodSeconds"] = grace_period
    if propagation := options.get("propagation"):
        body["propagationPolicy"] = propagation
    if options.get("dry_run"):
        body["dryRun"] = ["All"]
    path = resource.path(namespace, name)
    return Request("delete", resource, resource.model, path, (), body, JSON, repeatable=bool(preconditions))


def bind(
    resource: Resource[T], namespace: str, name: str, node: str, *, uid: str = "", dry_run: bool = False
) -> Request[Status]:
    """Places a pod on a node."""
    metadata = {"name": name, "namespace": namespace} | ({"uid": uid} if uid else {})
    body = {
        "apiVersion": "v1",
        "kind": "Binding",
        "metadata": metadata,
        "target": {"apiVersion": "v1", "kind": "Node", "name": node},
    }
    path = resource.path(namespace, name, "binding")
    return Request("create", resource, Status, path, _dry(dry_run), body, JSON, subresource="binding")


def evict(resource: Resource[T], namespace: str, name: str, **options: Unpack[DeleteOptions]) -> Request[Status]:
    """Deletes a pod if its disruption budgets allow it; Throttled means they do not, now."""
    body = {
        "apiVersion": "policy/v1",
        "kind": "Eviction",
        "metadata": {"name": name, "namespace": namespace},
        "deleteOptions": delete(resource, namespace, name, **options).body,
    }
    path = resource.path(namespace, name, "eviction")
    return Request("create", resource, Status, path, (), body, JSON, subresource="eviction")


def get_scale(resource: Resource[T], namespace: str | None, name: str) -> Request[Scale]:
    path = resource.path(namespace, name, "scale")
    return Request("get", resource, Scale, path, repeatable=True, subresource="scale")


def set_scale(
    resource: Resource[T],
    namespace: str | None,
    name: str,
    replicas: int,
    *,
    resource_version: str = "",
    dry_run: bool = False,
) -> Request[Scale]:
    """Sets the replica count; setting the same count twice is harmless, so it may always be repeated."""
    patch: dict[str, Any] = {"spec": {"replicas": replicas}}
    if resource_version:
        patch["metadata"] = {"resourceVersion": resource_version}
    path = resource.path(namespace, name, "scale")
    return Request(
        "patch", resource, Scale, path, _dry(dry_run), patch, MERGE_PATCH, repeatable=True, subresource="scale"
    )


def _patch(
    resource: Resource[T],
    where: tuple[str | None, str],
    body: Any,
    kind: tuple[str, bool],
    options: PatchOptions,
) -> Request[T]:
    content_type, repeatable = kind
    subresource = options.get("subresource")
    return Request(
        "patch",
        resource,
        options.get("answer", resource.model),
        resource.path(*where, subresource),
        _dry(options.get("dry_run", False)),
        body,
        content_type,
        options.get("field_manager", ""),
        repeatable=repeatable,
        subresource=subresource,
    )


def _typed(resource: Resource[Any], obj: Mapping[str, Any]) -> Mapping[str, Any]:
    if "kind" in obj and "apiVersion" in obj:
        return obj
    return {"apiVersion": resource.api_version, "kind": resource.kind, **obj}


def _selection(label_selector: str, field_selector: str) -> Query:
    query: Query = ()
    if label_selector:
        query += (("labelSelector", label_selector),)
    if field_selector:
        query += (("fieldSelector", field_selector),)
    return query


def _dry(dry_run: bool) -> Query:
    return (("dryRun", "All"),) if dry_run else ()
