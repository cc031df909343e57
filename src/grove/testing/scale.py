"""The scale subresource: three numbers and a selector, read from and written to the paths a kind declares."""

from __future__ import annotations

from grove.testing import failures
from grove.testing.kinds import Resource, ScalePaths
from grove.testing.objects import JsonObject, dig, metadata, replaced
from grove.testing.storage import Stored

_COPIED = ("name", "namespace", "uid", "resourceVersion", "creationTimestamp")


def paths_of(resource: Resource) -> ScalePaths:
    if resource.scale is None:
        raise failures.path_not_found()
    return resource.scale


def scale_of(resource: Resource, stored: Stored) -> JsonObject:
    """The autoscaling/v1 Scale of an object."""
    paths = paths_of(resource)
    meta = metadata(stored.obj)
    status: JsonObject = {"replicas": dig(stored.obj, *paths.status_replicas) or 0}
    selector = dig(stored.obj, *paths.selector) if paths.selector else None
    if selector:
        status["selector"] = selector if isinstance(selector, str) else _as_text(selector)
    spec: JsonObject = {}
    replicas = dig(stored.obj, *paths.spec_replicas)
    if replicas:
        spec["replicas"] = replicas
    return {
        "kind": "Scale",
        "apiVersion": "autoscaling/v1",
        "metadata": {field: meta[field] for field in _COPIED if field in meta},
        "spec": spec,
        "status": status,
    }


def scaled(resource: Resource, stored: Stored, scale: JsonObject) -> JsonObject:
    """The object with the replicas of a Scale; the Scale's resourceVersion, if any, stays a precondition."""
    replicas = dig(scale, "spec", "replicas") or 0
    obj = replaced(stored.obj, paths_of(resource).spec_replicas, replicas)
    version = metadata(scale).get("resourceVersion")
    return replaced(obj, ("metadata", "resourceVersion"), version or metadata(stored.obj)["resourceVersion"])


def _as_text(selector: JsonObject) -> str:
    return ",".join(f"{key}={value}" for key, value in sorted((selector.get("matchLabels") or {}).items()))
