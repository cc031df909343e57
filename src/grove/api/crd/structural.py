"""Turns a struct into the structural schema of its JSON form.

Types come from Python, words and keywords from the fields' `doc`, rules across fields from `rules`. Python defaults
stay out of the schema: only a `default` keyword becomes one.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec
from msgspec import inspect

from grove.api.crd import kubernetes
from grove.api.crd.rules import RULES
from grove.api.meta import Condition, ObjectMeta
from grove.api.schema import PERCENT

Schema = dict[str, Any]

_CONDITION: Schema = {
    "type": "object",
    "required": ["type", "status"],
    "properties": {
        "type": {"type": "string", "maxLength": 316},
        "status": {"type": "string", "enum": ["True", "False", "Unknown"]},
        "reason": {"type": "string", "maxLength": 1024},
        "message": {"type": "string", "maxLength": 32768},
        "lastTransitionTime": {"type": "string", "format": "date-time"},
        "observedGeneration": {"type": "integer", "format": "int64", "minimum": 0},
    },
}
_OPAQUE: Schema = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
_INT_OR_PERCENT: Schema = {
    "anyOf": [{"type": "integer"}, {"type": "string"}],
    "x-kubernetes-int-or-string": True,
    "minimum": 0,
    "pattern": PERCENT,
}


def schema_of(model: type[msgspec.Struct]) -> Schema:
    """The structural schema of a struct, descriptions and rules included."""
    return _struct(inspect.type_info(model))


def _struct(info: inspect.Type) -> Schema:
    assert isinstance(info, inspect.StructType)
    if info.cls is ObjectMeta:
        return {"type": "object"}
    if info.cls is Condition:
        return _CONDITION
    schema: Schema = {"type": "object"}
    if info.cls.__doc__:
        schema["description"] = info.cls.__doc__.strip()
    required = sorted(field.encode_name for field in info.fields if _required(field))
    if required:
        schema["required"] = required
    schema["properties"] = {field.encode_name: _schema(field.type) for field in info.fields}
    rules = RULES.get(info.cls)
    if rules:
        schema["x-kubernetes-validations"] = [rule.rendered() for rule in rules]
    return schema


def _required(field: inspect.Field) -> bool:
    extra = field.type.extra if isinstance(field.type, inspect.Metadata) else None
    return bool(field.required or (extra and extra.get("required")))


def _schema(info: inspect.Type) -> Schema:
    if isinstance(info, inspect.Metadata):
        return _annotated(_schema(info.type), dict(info.extra_json_schema or {}))
    if isinstance(info, inspect.UnionType):
        return _union(info)
    return _SHAPES[type(info)](info)


def _annotated(schema: Schema, keywords: Schema) -> Schema:
    """The schema of a field: its type, its words, its keywords, and Kubernetes' own types where it names one."""
    whole = keywords.pop("x-grove-schema", None)
    items = keywords.pop("x-grove-items", None)
    if whole:
        schema = dict(kubernetes.packaged()[whole])
    if items:
        schema = {**schema, "items": kubernetes.packaged()[items]}
    return {**schema, **keywords}


def _union(info: inspect.UnionType) -> Schema:
    options = [option for option in info.types if not isinstance(option, inspect.NoneType)]
    if {type(option) for option in options} == {inspect.IntType, inspect.StrType}:
        return dict(_INT_OR_PERCENT)
    (only,) = options
    return _schema(only)


def _literal(info: inspect.Type) -> Schema:
    assert isinstance(info, inspect.LiteralType)
    return {"type": "string", "enum": list(info.values)}


def _list(info: inspect.Type) -> Schema:
    assert isinstance(info, inspect.ListType)
    return {"type": "array", "items": _schema(info.item_type)}


def _dict(info: inspect.Type) -> Schema:
    assert isinstance(info, inspect.DictType)
    if isinstance(info.value_type, inspect.AnyType):
        return dict(_OPAQUE)
    return {"type": "object", "additionalProperties": _schema(info.value_type)}


_SHAPES: dict[type[inspect.Type], Callable[[inspect.Type], Schema]] = {
    inspect.StrType: lambda _: {"type": "string"},
    inspect.BoolType: lambda _: {"type": "boolean"},
    inspect.IntType: lambda _: {"type": "integer", "format": "int32"},
    inspect.FloatType: lambda _: {"type": "number", "format": "double"},
    inspect.LiteralType: _literal,
    inspect.ListType: _list,
    inspect.DictType: _dict,
    inspect.StructType: _struct,
}
