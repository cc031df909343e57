"""JSON Patch (RFC 6902) and JSON Merge Patch (RFC 7386) on plain values; the original is never changed."""

from __future__ import annotations

from typing import Any

from grove.testing import failures
from grove.testing.objects import JsonObject, deep_copy


def merge_patch(target: Any, patch: Any) -> Any:
    if not isinstance(patch, dict):
        return patch
    merged = dict(target) if isinstance(target, dict) else {}
    for name, value in patch.items():
        if value is None:
            merged.pop(name, None)
        elif isinstance(value, dict):
            merged[name] = merge_patch(merged.get(name), value)
        else:
            merged[name] = value
    return merged


def json_patch(target: JsonObject, operations: Any) -> JsonObject:
    if not isinstance(operations, list):
        raise failures.bad_request("error decoding patch: a JSON patch is a list of operations")
    document: Any = deep_copy(target)
    for operation in operations:
        document = _applied(document, operation)
    if not isinstance(document, dict):
        raise failures.bad_request("a JSON patch must leave an object")
    return document


def _applied(document: Any, operation: Any) -> Any:
    try:
        kind, path = operation["op"], _steps(operation["path"])
        match kind:
            case "add":
                return _put(document, path, operation["value"], insert=True)
            case "replace":
                _lookup(document, path)
                return _put(document, path, operation["value"], insert=False)
            case "remove":
                return _removed(document, path)
            case "move" | "copy":
                source = _steps(operation["from"])
                value = deep_copy(_lookup(document, source))
                document = _removed(document, source) if kind == "move" else document
                return _put(document, path, value, insert=True)
            case "test":
                if _lookup(document, path) != operation["value"]:
                    raise _refused(f"testing value {operation['path']} failed")
                return document
    except (KeyError, IndexError, ValueError, TypeError) as error:
        raise _refused(f"{operation!r} cannot be applied: {error!r}") from error
    raise failures.bad_request(f"Unexpected kind: {operation!r}")


def _refused(why: str) -> failures.ApiError:
    return failures.ApiError(422, "Invalid", f"the server rejected our request due to an error in our request: {why}")


def _steps(pointer: str) -> list[str]:
    if pointer == "":
        return []
    if not pointer.startswith("/"):
        raise ValueError("a JSON pointer starts with a slash")
    return [step.replace("~1", "/").replace("~0", "~") for step in pointer[1:].split("/")]


def _lookup(document: Any, path: list[str]) -> Any:
    for step in path:
        document = document[int(step)] if isinstance(document, list) else document[step]
    return document


def _put(document: Any, path: list[str], value: Any, *, insert: bool) -> Any:
    if not path:
        return value
    parent = _lookup(document, path[:-1])
    last = path[-1]
    if not isinstance(parent, list):
        parent[last] = value
    elif last == "-":
        parent.append(value)
    elif insert:
        if int(last) > len(parent):
            raise IndexError(last)
        parent.insert(int(last), value)
    else:
        parent[int(last)] = value
    return document


def _removed(document: Any, path: list[str]) -> Any:
    parent = _lookup(document, path[:-1])
    last = path[-1]
    del parent[int(last) if isinstance(parent, list) else last]
    return document
