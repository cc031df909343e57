"""Small functions on Kubernetes objects held as plain JSON values.

Stored objects are never changed in place: a write builds new dictionaries along the path it touches and shares the
rest, so that comparing two versions of an object is cheap and an old version stays what it was.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

JsonObject = dict[str, Any]
Key = tuple[str, str]
"""Namespace (empty for cluster-scoped objects) and name."""

_DNS_SUBDOMAIN = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*")
_DNS_LABEL = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?")
_SUBDOMAIN_LIMIT = 253
_LABEL_LIMIT = 63


def metadata(obj: Mapping[str, Any]) -> JsonObject:
    found = obj.get("metadata")
    return found if isinstance(found, dict) else {}


def name_of(obj: Mapping[str, Any]) -> str:
    return str(metadata(obj).get("name", ""))


def namespace_of(obj: Mapping[str, Any]) -> str:
    return str(metadata(obj).get("namespace", ""))


def uid_of(obj: Mapping[str, Any]) -> str:
    return str(metadata(obj).get("uid", ""))


def labels_of(obj: Mapping[str, Any]) -> Mapping[str, str]:
    return metadata(obj).get("labels") or {}


def owner_references(obj: Mapping[str, Any]) -> Sequence[JsonObject]:
    return metadata(obj).get("ownerReferences") or ()


def finalizers(obj: Mapping[str, Any]) -> list[str]:
    return list(metadata(obj).get("finalizers") or ())


def is_deleting(obj: Mapping[str, Any]) -> bool:
    return "deletionTimestamp" in metadata(obj)


def with_metadata(obj: JsonObject, **changes: Any) -> JsonObject:
    """A copy of `obj` whose metadata has `changes`; None removes a field."""
    meta = {**metadata(obj), **changes}
    for field, value in changes.items():
        if value is None:
            del meta[field]
    return {**obj, "metadata": meta}


def dig(obj: Any, *path: str) -> Any:
    """The value at `path`, or None where the path ends early."""
    for step in path:
        if not isinstance(obj, dict):
            return None
        obj = obj.get(step)
    return obj


def replaced(obj: JsonObject, path: Sequence[str], value: Any) -> JsonObject:
    """A copy of `obj` with `value` at `path`; only the dictionaries along the path are new."""
    head, rest = path[0], path[1:]
    if not rest:
        return {**obj, head: value}
    child = obj.get(head)
    return {**obj, head: replaced(child if isinstance(child, dict) else {}, rest, value)}


def deep_copy(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: deep_copy(item) for key, item in value.items()}
    if isinstance(value, list):
        return [deep_copy(item) for item in value]
    return value


def is_dns_subdomain(name: str) -> bool:
    return len(name) <= _SUBDOMAIN_LIMIT and _DNS_SUBDOMAIN.fullmatch(name) is not None


def is_dns_label(name: str) -> bool:
    return len(name) <= _LABEL_LIMIT and _DNS_LABEL.fullmatch(name) is not None
