"""JSON patches for what defaulting adds. Defaulting never removes and never changes the length of a list."""

from __future__ import annotations

from typing import Any

Json = dict[str, Any]


def additions(before: Any, after: Any, path: str = "") -> list[Json]:
    """The operations that turn one document into the other; parts that are the same object are not looked at."""
    if before is after or before == after:
        return []
    if isinstance(before, dict) and isinstance(after, dict):
        return [operation for key, value in after.items() for operation in _entry(before, key, value, path)]
    if isinstance(before, list) and isinstance(after, list) and len(before) == len(after):
        pairs = enumerate(zip(before, after, strict=True))
        return [operation for index, (old, new) in pairs for operation in additions(old, new, f"{path}/{index}")]
    return [{"op": "replace", "path": path, "value": after}]


def _entry(before: Json, key: str, value: Any, path: str) -> list[Json]:
    place = f"{path}/{key.replace('~', '~0').replace('/', '~1')}"
    if key not in before:
        return [{"op": "add", "path": place, "value": value}]
    return additions(before[key], value, place)
