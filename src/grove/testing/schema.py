"""Structural schemas of custom resources: drop unknown fields, fill in defaults, refuse what does not fit.

A schema is compiled once into a tree of `Node`s. Rules written in CEL (`x-kubernetes-validations`) are not evaluated;
only the real server can judge those.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from grove.testing.failures import Cause
from grove.testing.fieldsets import encode_step
from grove.testing.objects import JsonObject, deep_copy

_EMBEDDED_FIELDS = frozenset({"apiVersion", "kind", "metadata"})
_JSON_TYPES: Mapping[str, tuple[type, ...]] = {
    "object": (dict,),
    "array": (list,),
    "string": (str,),
    "boolean": (bool,),
    "integer": (int,),
    "number": (int, float),
}


@dataclass
class Node:
    """One level of a structural schema."""

    json_type: str = ""
    properties: dict[str, Node] = field(default_factory=dict)
    additional: Node | None = None
    any_additional: bool = False
    items: Node | None = None
    required: tuple[str, ...] = ()
    default: Any = None
    has_default: bool = False
    nullable: bool = False
    keeps_unknown: bool = False
    embedded: bool = False
    int_or_string: bool = False
    checks: Mapping[str, Any] = field(default_factory=dict)
    pattern: re.Pattern[str] | None = None
    unique_by: tuple[str, ...] = ()
    is_set: bool = False
    alternatives: tuple[tuple[str, tuple[Node, ...]], ...] = ()
    defaults_below: bool = False


_CHECKS = (
    "minimum",
    "maximum",
    "exclusiveMinimum",
    "exclusiveMaximum",
    "multipleOf",
    "minLength",
    "maxLength",
    "minItems",
    "maxItems",
    "minProperties",
    "maxProperties",
    "enum",
    "format",
)


def compile_schema(schema: Mapping[str, Any]) -> Node:
    properties = {name: compile_schema(sub) for name, sub in schema.get("properties", {}).items()}
    additional = schema.get("additionalProperties")
    items = schema.get("items")
    list_type = schema.get("x-kubernetes-list-type")
    node = Node(
        json_type=schema.get("type", ""),
        properties=properties,
        additional=compile_schema(additional) if isinstance(additional, Mapping) else None,
        any_additional=additional is True,
        items=compile_schema(items) if items else None,
        required=tuple(schema.get("required", ())),
        default=schema.get("default"),
        has_default="default" in schema,
        nullable=schema.get("nullable", False),
        keeps_unknown=schema.get("x-kubernetes-preserve-unknown-fields", False),
        embedded=schema.get("x-kubernetes-embedded-resource", False),
        int_or_string=schema.get("x-kubernetes-int-or-string", False),
        checks={name: schema[name] for name in _CHECKS if name in schema},
        pattern=re.compile(schema["pattern"]) if "pattern" in schema else None,
        unique_by=tuple(schema.get("x-kubernetes-list-map-keys", ())) if list_type == "map" else (),
        is_set=list_type == "set",
        alternatives=tuple(
            (word, tuple(compile_schema(sub) for sub in schema[word]))
            for word in ("allOf", "anyOf", "oneOf")
            if word in schema and not schema.get("x-kubernetes-int-or-string")
        ),
    )
    below = [*properties.values(), *filter(None, (node.additional, node.items))]
    node.defaults_below = any(child.has_default or child.defaults_below for child in below)
    return node


def pruned(value: Any, node: Node, *, root: bool = False) -> Any:
    """`value` without unknown fields and without nulls that are not allowed; the same object if nothing is dropped."""
    if isinstance(value, dict):
        return _pruned_object(value, node, root=root)
    if isinstance(value, list) and node.items is not None:
        items = [pruned(item, node.items) for item in value]
        return items if any(new is not old for new, old in zip(items, value, strict=True)) else value
    return value


def _pruned_object(value: JsonObject, node: Node, *, root: bool) -> JsonObject:
    kept: JsonObject = {}
    changed = False
    for name, item in value.items():
        child = node.properties.get(name) or node.additional
        if (root or node.embedded) and name in _EMBEDDED_FIELDS:
            kept[name] = item
        elif child is not None:
            if item is None and not child.nullable:
                changed = True
                continue
            kept[name] = pruned(item, child)
            changed = changed or kept[name] is not item
        elif node.keeps_unknown or node.any_additional:
            kept[name] = item
        else:
            changed = True
    return kept if changed else value


def unknown(value: Any, node: Node, path: str = "", *, root: bool = False) -> list[str]:
    """Paths of the fields that `pruned` would drop."""
    found: list[str] = []
    if isinstance(value, list) and node.items is not None:
        for index, item in enumerate(value):
            found += unknown(item, node.items, f"{path}[{index}]")
    elif isinstance(value, dict):
        for name, item in value.items():
            child = node.properties.get(name) or node.additional
            where = f"{path}.{name}" if path else name
            if (root or node.embedded) and name in _EMBEDDED_FIELDS:
                continue
            if child is not None:
                found += unknown(item, child, where)
            elif not (node.keeps_unknown or node.any_additional):
                found.append(where)
    return found


def defaulted(value: Any, node: Node) -> Any:
    """`value` with the schema's defaults in every object that is there."""
    if not node.defaults_below:
        return value
    if isinstance(value, dict):
        return _defaulted_object(value, node)
    if isinstance(value, list) and node.items is not None:
        items = [defaulted(item, node.items) for item in value]
        return items if any(new is not old for new, old in zip(items, value, strict=True)) else value
    return value


def _defaulted_object(value: JsonObject, node: Node) -> JsonObject:
    changes: JsonObject = {}
    for name, child in node.properties.items():
        if child.has_default and name not in value:
            changes[name] = defaulted(deep_copy(child.default), child)
        elif child.defaults_below and name in value:
            new = defaulted(value[name], child)
            if new is not value[name]:
                changes[name] = new
    if node.additional is not None and node.additional.defaults_below:
        for name, item in value.items():
            if name not in node.properties:
                new = defaulted(item, node.additional)
                if new is not item:
                    changes[name] = new
    return {**value, **changes} if changes else value


def violations(value: Any, node: Node, path: str = "") -> list[Cause]:
    """Everything about `value` that the schema refuses."""
    causes: list[Cause] = []
    _check(value, node, path, causes)
    return causes


def _check(value: Any, node: Node, path: str, causes: list[Cause]) -> None:
    if value is None:
        if not node.nullable and node.json_type:
            causes.append(_wrong_type(value, node, path))
        return
    if not _fits_type(value, node):
        causes.append(_wrong_type(value, node, path))
        return
    if node.checks or node.pattern:
        _check_value(value, node, path, causes)
    if isinstance(value, dict):
        _check_object(value, node, path, causes)
    elif isinstance(value, list):
        _check_list(value, node, path, causes)
    for word, alternatives in node.alternatives:
        fitting = sum(not violations(value, alternative, path) for alternative in alternatives)
        needed = {"allOf": fitting == len(alternatives), "anyOf": fitting > 0, "oneOf": fitting == 1}[word]
        if not needed:
            causes.append(_invalid(path, value, f'"{path}" must validate {_ALTERNATIVE_WORDS[word]}'))


_ALTERNATIVE_WORDS = {
    "allOf": "all the schemas (allOf)",
    "anyOf": "at least one schema (anyOf)",
    "oneOf": "one and only one schema (oneOf)",
}


def _fits_type(value: Any, node: Node) -> bool:
    if node.int_or_string:
        return isinstance(value, int | str) and not isinstance(value, bool)
    if not node.json_type:
        return True
    if isinstance(value, bool):
        return node.json_type == "boolean"
    if node.json_type == "integer" and isinstance(value, float):
        return value.is_integer()
    return isinstance(value, _JSON_TYPES[node.json_type])


def _json_type_of(value: Any) -> str:
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "boolean"
    return next((name for name, types in _JSON_TYPES.items() if isinstance(value, types)), "number")


def _wrong_type(value: Any, node: Node, path: str) -> Cause:
    shown = f'"{_json_type_of(value)}"'
    wanted = "integer,string" if node.int_or_string else node.json_type
    where = _in_body(path)
    return Cause("FieldValueTypeInvalid", path, f"Invalid value: {shown}: {where} must be of type {wanted}: {shown}")


def _in_body(path: str) -> str:
    return f"{path} in body" if path else "<nil>"


def _invalid(path: str, value: Any, why: str) -> Cause:
    return Cause("FieldValueInvalid", path, f"Invalid value: {encode_step(value)}: {why}")


def _check_object(value: JsonObject, node: Node, path: str, causes: list[Cause]) -> None:
    prefix = f"{path}." if path else ""
    causes.extend(
        Cause("FieldValueRequired", f"{prefix}{name}", "Required value") for name in node.required if name not in value
    )
    for name, item in value.items():
        child = node.properties.get(name)
        if child is not None:
            _check(item, child, prefix + name, causes)
        elif node.additional is not None:
            _check(item, node.additional, prefix + name, causes)


def _check_list(value: list[Any], node: Node, path: str, causes: list[Cause]) -> None:
    if node.items is not None:
        for index, item in enumerate(value):
            _check(item, node.items, f"{path}[{index}]", causes)
    if not (node.unique_by or node.is_set):
        return
    seen: set[str] = set()
    for index, item in enumerate(value):
        identity: Any = item
        if node.unique_by and isinstance(item, dict):
            identity = {key: item.get(key) for key in node.unique_by}
        text = encode_step(identity)
        if text in seen:
            causes.append(Cause("FieldValueDuplicate", f"{path}[{index}]", f"Duplicate value: {text}"))
        seen.add(text)


def _check_value(value: Any, node: Node, path: str, causes: list[Cause]) -> None:
    checks = node.checks
    if "enum" in checks and value not in checks["enum"]:
        supported = ", ".join(encode_step(option) for option in checks["enum"])
        shown = encode_step(value)
        message = f"Unsupported value: {shown}: supported values: {supported}"
        causes.append(Cause("FieldValueNotSupported", path, message))
    if isinstance(value, str):
        _check_text(value, node, path, causes)
    elif isinstance(value, int | float) and not isinstance(value, bool):
        causes.extend(_invalid(path, value, why) for why in _number_faults(value, checks, path))
    elif isinstance(value, list | dict):
        _check_size(value, checks, path, causes)


def _check_text(value: str, node: Node, path: str, causes: list[Cause]) -> None:
    longest = node.checks.get("maxLength")
    if longest is not None and len(value) > longest:
        causes.append(Cause("FieldValueTooLong", path, f"Too long: may not be more than {longest} bytes"))
    if len(value) < node.checks.get("minLength", 0):
        shortest = node.checks["minLength"]
        causes.append(_invalid(path, value, f"{_in_body(path)} should be at least {shortest} chars long"))
    if node.pattern is not None and node.pattern.search(value) is None:
        causes.append(_invalid(path, value, f"{_in_body(path)} should match '{node.pattern.pattern}'"))


def _number_faults(value: float, checks: Mapping[str, Any], path: str) -> list[str]:
    faults = []
    low, high = checks.get("minimum", -math.inf), checks.get("maximum", math.inf)
    if checks.get("exclusiveMinimum") and value <= low:
        faults.append(f"{_in_body(path)} should be greater than {low}")
    elif value < low:
        faults.append(f"{_in_body(path)} should be greater than or equal to {low}")
    if checks.get("exclusiveMaximum") and value >= high:
        faults.append(f"{_in_body(path)} should be less than {high}")
    elif value > high:
        faults.append(f"{_in_body(path)} should be less than or equal to {high}")
    if "multipleOf" in checks and value % checks["multipleOf"]:
        faults.append(f"{_in_body(path)} should be a multiple of {checks['multipleOf']}")
    return faults


def _check_size(value: list[Any] | JsonObject, checks: Mapping[str, Any], path: str, causes: list[Cause]) -> None:
    few, many = ("minItems", "maxItems") if isinstance(value, list) else ("minProperties", "maxProperties")
    if len(value) > checks.get(many, math.inf):
        most = f"must have at most {checks[many]} items"
        causes.append(Cause("FieldValueTooMany", path, f"Too many: {len(value)}: {most}"))
    if len(value) < checks.get(few, 0):
        causes.append(_invalid(path, value, f"{_in_body(path)} should have at least {checks[few]} items"))
