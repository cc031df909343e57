"""Says where a document departs from a structural schema, as the API server would, but without one.

It covers types, required and unknown fields, enums, bounds, patterns and list kinds. Rules in CEL are left to the API
server; admission states the same rules in Python.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum
from functools import lru_cache
from typing import Any

from grove.api.schema import PATTERN_WORDS

Schema = dict[str, Any]

_INT32 = 2**31 - 1
_WORDS = {
    dict: "object",
    list: "array",
    str: "string",
    bool: "boolean",
    int: "integer",
    float: "number",
    type(None): "null",
}


class Departure(StrEnum):
    """The ways a value can depart from its schema."""

    TYPE = "type"
    REQUIRED = "required"
    UNKNOWN = "unknown"
    ENUM = "enum"
    BOUND = "bound"
    DUPLICATE = "duplicate"


@dataclass(frozen=True, slots=True)
class Mismatch:
    """One departure: where, of what kind, and in words that name what is allowed."""

    path: str
    kind: Departure
    message: str
    value: Any = None


def mismatches(value: Any, schema: Schema, path: str = "") -> Iterator[Mismatch]:
    """Every departure of a document from a schema, in document order."""
    if schema.get("x-kubernetes-int-or-string"):
        yield from _int_or_string(value, schema, path)
        return
    wanted = schema.get("type")
    if wanted and not _is(value, wanted):
        yield Mismatch(
            path, Departure.TYPE, f"must be of type {wanted}, not {_WORDS.get(type(value), 'unknown')}", value
        )
        return
    if "enum" in schema and value not in schema["enum"]:
        yield Mismatch(path, Departure.ENUM, f"must be one of {', '.join(map(str, schema['enum']))}", value)
    if isinstance(value, dict):
        yield from _object(value, schema, path)
    elif isinstance(value, list):
        yield from _array(value, schema, path)
    elif isinstance(value, str):
        yield from _string(value, schema, path)
    elif isinstance(value, int | float) and not isinstance(value, bool):
        yield from _number(value, schema, path)


def _is(value: Any, wanted: str) -> bool:
    match wanted:
        case "object":
            return isinstance(value, dict)
        case "array":
            return isinstance(value, list)
        case "string":
            return isinstance(value, str)
        case "boolean":
            return isinstance(value, bool)
        case "integer":
            return isinstance(value, int) and not isinstance(value, bool)
    return isinstance(value, int | float) and not isinstance(value, bool)


def _int_or_string(value: Any, schema: Schema, path: str) -> Iterator[Mismatch]:
    if isinstance(value, str):
        yield from _string(value, schema, path)
    elif _is(value, "integer"):
        yield from _number(value, schema, path)
    else:
        yield Mismatch(path, Departure.TYPE, "must be an integer or a string", value)


def _object(value: dict[str, Any], schema: Schema, path: str) -> Iterator[Mismatch]:
    properties: Schema = schema.get("properties", {})
    for name in schema.get("required", []):
        if name not in value:
            yield Mismatch(_join(path, name), Departure.REQUIRED, "must be set")
    rest = schema.get("additionalProperties")
    open_ended = schema.get("x-kubernetes-preserve-unknown-fields") or not properties
    for name, item in value.items():
        if name in properties:
            yield from mismatches(item, properties[name], _join(path, name))
        elif isinstance(rest, dict):
            yield from mismatches(item, rest, f"{path}[{name}]")
        elif not open_ended:
            yield Mismatch(_join(path, name), Departure.UNKNOWN, f"unknown field; known here: {', '.join(properties)}")


def _array(value: list[Any], schema: Schema, path: str) -> Iterator[Mismatch]:
    if len(value) < schema.get("minItems", 0):
        yield Mismatch(path, Departure.BOUND, f"must have at least {schema['minItems']} items", value)
    if len(value) > schema.get("maxItems", len(value)):
        yield Mismatch(path, Departure.BOUND, f"must have at most {schema['maxItems']} items", len(value))
    items = schema.get("items", {})
    for index, item in enumerate(value):
        yield from mismatches(item, items, f"{path}[{index}]")
    yield from _repeated(value, schema, path)


def _repeated(value: list[Any], schema: Schema, path: str) -> Iterator[Mismatch]:
    kind = schema.get("x-kubernetes-list-type")
    keys = schema.get("x-kubernetes-list-map-keys", [])
    seen: set[str] = set()
    for index, item in enumerate(value):
        if kind == "set":
            identity = repr(item)
        elif kind == "map" and isinstance(item, dict):
            identity = repr([item.get(key, _default(schema, key)) for key in keys])
        else:
            continue
        if identity in seen:
            yield Mismatch(f"{path}[{index}]", Departure.DUPLICATE, "must not be repeated", item)
        seen.add(identity)


def _default(schema: Schema, key: str) -> Any:
    return schema.get("items", {}).get("properties", {}).get(key, {}).get("default")


def _string(value: str, schema: Schema, path: str) -> Iterator[Mismatch]:
    if len(value) < schema.get("minLength", 0):
        yield Mismatch(path, Departure.BOUND, f"must have at least {schema['minLength']} characters", value)
    if len(value) > schema.get("maxLength", len(value)):
        yield Mismatch(path, Departure.BOUND, f"must have at most {schema['maxLength']} characters", value)
    if "pattern" in schema and not _pattern(schema["pattern"]).search(value):
        words = PATTERN_WORDS.get(schema["pattern"]) or f"must match {schema['pattern']}"
        yield Mismatch(path, Departure.BOUND, words, value)


def _number(value: float, schema: Schema, path: str) -> Iterator[Mismatch]:
    if value < schema.get("minimum", value):
        yield Mismatch(path, Departure.BOUND, f"must be at least {schema['minimum']}", value)
    if value > schema.get("maximum", value):
        yield Mismatch(path, Departure.BOUND, f"must be at most {schema['maximum']}", value)
    if schema.get("format") == "int32" and abs(value) > _INT32:
        yield Mismatch(path, Departure.BOUND, f"must be at most {_INT32}", value)


@lru_cache(maxsize=64)
def _pattern(text: str) -> re.Pattern[str]:
    return re.compile(text)


def _join(path: str, name: str) -> str:
    return f"{path}.{name}" if path else name
