"""Short ways to write the objects that grouping looks at."""

from __future__ import annotations

from typing import Any

import msgspec

from grove.api.core import Pod
from grove.api.pod_gang import PodGang
from grove.podgrouper.grouping import Owner
from grove.runtime.objects import ObjectMeta


def pod(name: str = "p", **fields: Any) -> Pod:
    spec = {"schedulerName": "kai-scheduler", **fields.pop("spec", {})}
    metadata = {"name": name, "namespace": "ns", "uid": f"uid-{name}", "resourceVersion": "7", **fields}
    return msgspec.convert({"metadata": metadata, "spec": spec}, Pod)


def gang(name: str = "g-0", *, spec: dict[str, Any], **fields: Any) -> PodGang:
    metadata = {"name": name, "namespace": "ns", "uid": f"uid-{name}", **fields}
    return msgspec.convert({"metadata": metadata, "spec": spec}, PodGang)


def owner(kind: str, api_version: str = "apps/v1", *, name: str = "o", **fields: Any) -> Owner:
    spec, status = fields.pop("spec", {}), fields.pop("status", {})
    metadata = msgspec.convert({"name": name, "namespace": "ns", "uid": f"uid-{name}", **fields}, ObjectMeta)
    return Owner(api_version, kind, metadata, spec, status)


def part(name: str, minimum: int = 1, *, pods: int = 1, **pack: str) -> dict[str, Any]:
    """A pod group of a gang; keywords are its pack constraint."""
    found: dict[str, Any] = {
        "name": name,
        "minReplicas": minimum,
        "podReferences": [{"namespace": "ns", "name": f"{name}-{i}"} for i in range(pods)],
    }
    return found | ({"topologyConstraint": {"packConstraint": pack}} if pack else {})


def packed(name: str, members: list[str], **pack: str) -> dict[str, Any]:
    return {"name": name, "podGroupNames": members, "topologyConstraint": {"packConstraint": pack}}
