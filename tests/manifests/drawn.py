"""PodCliqueSets nobody wrote: any field of the schema can turn up, with values it allows and some it does not."""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import Any

from grove.api import crd
from manifests import tables

Json = dict[str, Any]

_SPEC = crd.schema("PodCliqueSet")["properties"]["spec"]

_WORDS = ("a", "b", "pool", "main", "x9", "rack", "host", "true", "A B", "", "dotted.name", "x" * 80)
_FITTING = {"duration": ("30s", "4h"), "percent": ("25%", "100%"), "quantity": ("1", "500m", "2Gi")}
_ODD = (None, -1, 0, "", "a", [], {}, True)


class _Draw:
    """Values for one document; `oddity` is the chance that a value is replaced by one that does not belong there."""

    def __init__(self, seed: int, oddity: float) -> None:
        self._chance = random.Random(seed)
        self._oddity = oddity

    def value(self, schema: Json, depth: int = 0) -> Any:
        if self._chance.random() < self._oddity:
            return self._chance.choice(_ODD)
        if "enum" in schema:
            return self._chance.choice(schema["enum"])
        if schema.get("x-kubernetes-int-or-string"):
            return self._chance.choice((0, 1, 2, *_FITTING["percent"], *_FITTING["quantity"]))
        kind = schema.get("type")
        if kind == "object":
            return self._object(schema, depth)
        if kind == "array":
            return [self.value(schema["items"], depth + 1) for _ in range(self._chance.randint(0, 2))]
        if kind in ("integer", "number"):
            return max(self._chance.randint(0, 3), schema.get("minimum", 0))
        if kind == "boolean":
            return self._chance.random() < 0.5
        return self._text(schema)

    def _object(self, schema: Json, depth: int) -> Json:
        if "additionalProperties" in schema:
            inner = schema["additionalProperties"]
            return {self._chance.choice(_WORDS[:6]): self.value(inner, depth + 1)} if isinstance(inner, dict) else {}
        needed = set(schema.get("required", ()))
        likely = 0.5 if depth < 3 else 0.06
        return {
            name: self.value(field, depth + 1)
            for name, field in schema.get("properties", {}).items()
            if name in needed or self._chance.random() < likely
        }

    def _text(self, schema: Json) -> str:
        pattern = schema.get("pattern", "")
        if "ns|us" in pattern:
            return self._chance.choice(_FITTING["duration"])
        return self._chance.choice(_WORDS[:6] if self._chance.random() < 0.9 else _WORDS)


def _places(value: Any, schema: Json) -> Iterator[tuple[Json, Json]]:
    """Every object of a document with the schema of its fields."""
    if isinstance(value, dict) and "properties" in schema:
        yield value, schema["properties"]
        for name, inner in value.items():
            yield from _places(inner, schema["properties"].get(name, {}))
    elif isinstance(value, list):
        for item in value:
            yield from _places(item, schema.get("items", {}))


def drawn(seed: int) -> Json:
    """The base manifest with one to three fields drawn from the schema: even seeds keep to it, odd ones may stray."""
    chance = random.Random(seed)
    draw = _Draw(seed, 0.05 if seed % 2 else 0.0)
    document = tables.base()
    for _ in range(chance.randint(1, 3)):
        holder, fields = chance.choice(list(_places(document["spec"], _SPEC)))
        name = chance.choice(sorted(fields))
        holder[name] = draw.value(fields[name], depth=3)
    return document
