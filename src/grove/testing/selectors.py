"""Label and field selectors as the API server reads them: a text in, a predicate on objects out."""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import lru_cache
from typing import Any

from grove.testing import failures
from grove.testing.objects import JsonObject, dig, labels_of

Predicate = Callable[[JsonObject], bool]

_SET_BASED = re.compile(r"(?P<key>[^\s!=,()]+)\s+(?P<operator>in|notin)\s*\((?P<values>[^)]*)\)")
_EQUALITY = re.compile(r"(?P<key>[^\s!=,()]+)\s*(?P<operator>==|!=|=)\s*(?P<value>[^\s,()]*)")
_EXISTENCE = re.compile(r"(?P<absent>!?)\s*(?P<key>[^\s!=,()]+)")

_FIELD_DEFAULTS = {"spec.schedulerName": "default-scheduler", "status.phase": "", "spec.nodeName": ""}


def everything(_obj: JsonObject) -> bool:
    return True


@lru_cache(maxsize=512)
def label_selector(text: str) -> Predicate:
    """`a=b,c!=d,e in (f,g),!h` and the like."""
    requirements: list[Predicate] = []
    rest = text.strip()
    while rest:
        match = _SET_BASED.match(rest) or _EQUALITY.match(rest) or _EXISTENCE.match(rest)
        if match is None:
            raise failures.bad_request(f"unable to parse requirement: {text}")
        requirements.append(_requirement(match.groupdict()))
        rest = rest[match.end() :].strip()
        if rest and not rest.startswith(","):
            raise failures.bad_request(f"unable to parse requirement: found {rest!r} in {text!r}")
        rest = rest[1:].strip()
    return _all_of(requirements)


def _requirement(parts: dict[str, str | None]) -> Predicate:
    key = parts["key"] or ""
    if "operator" not in parts:
        present = not parts["absent"]
        return lambda obj: (key in labels_of(obj)) is present
    if "values" in parts:
        values = {value.strip() for value in (parts["values"] or "").split(",")}
    else:
        values = {parts["value"] or ""}
    if parts["operator"] in ("in", "=", "=="):
        return lambda obj: labels_of(obj).get(key) in values
    return lambda obj: labels_of(obj).get(key) not in values


@lru_cache(maxsize=512)
def field_selector(text: str) -> Predicate:
    """`metadata.name=x,status.phase!=Running`: any field path works, more than the real server indexes."""
    requirements: list[Predicate] = []
    for term in filter(None, (part.strip() for part in text.split(","))):
        match = _EQUALITY.fullmatch(term)
        if match is None:
            raise failures.bad_request(f"invalid selector: {text!r}; can't understand {term!r}")
        path = match["key"]
        equal = match["operator"] != "!="
        requirements.append(_field_requirement(path, match["value"], equal=equal))
    return _all_of(requirements)


def _field_requirement(path: str, wanted: str, *, equal: bool) -> Predicate:
    steps = path.split(".")
    default = _FIELD_DEFAULTS.get(path, "")
    return lambda obj: (_as_text(dig(obj, *steps), default) == wanted) is equal


def _as_text(value: Any, default: str) -> str:
    if value is None:
        return default
    return str(value).lower() if isinstance(value, bool) else str(value)


def _all_of(requirements: list[Predicate]) -> Predicate:
    if not requirements:
        return everything
    if len(requirements) == 1:
        return requirements[0]
    return lambda obj: all(requirement(obj) for requirement in requirements)


def matches_structured(selector: JsonObject | None, labels: dict[str, str]) -> bool:
    """A `LabelSelector` object (matchLabels, matchExpressions) on a set of labels; an absent one matches all."""
    if not selector:
        return True
    if any(labels.get(key) != value for key, value in (selector.get("matchLabels") or {}).items()):
        return False
    return all(_expression_holds(expression, labels) for expression in selector.get("matchExpressions") or ())


def _expression_holds(expression: JsonObject, labels: dict[str, str]) -> bool:
    key, values = expression["key"], expression.get("values") or ()
    match expression["operator"]:
        case "In":
            return labels.get(key) in values
        case "NotIn":
            return labels.get(key) not in values
        case "Exists":
            return key in labels
        case _:
            return key not in labels
