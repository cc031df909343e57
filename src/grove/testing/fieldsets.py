"""Sets of field paths, and the walks over typed objects that server-side apply is made of.

A path is a tuple of steps in the notation of `managedFields` ("f:spec", 'k:{"name":"main"}', 'v:"blue"'), a set of
fields a frozenset of paths, so that union, difference and intersection are the built-in ones.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import msgspec

from grove.testing.fieldtypes import FieldType
from grove.testing.objects import JsonObject

Path = tuple[str, ...]
FieldSet = frozenset[Path]
EMPTY: FieldSet = frozenset()

_UNOWNED: FieldSet = frozenset(
    {("f:apiVersion",), ("f:kind",), ("f:metadata",)}
    | {
        ("f:metadata", f"f:{name}")
        for name in (
            "name",
            "namespace",
            "creationTimestamp",
            "selfLink",
            "uid",
            "generation",
            "managedFields",
            "resourceVersion",
            "deletionTimestamp",
            "deletionGracePeriodSeconds",
        )
    }
)
"""Fields that identify an object or that the server writes: nobody owns them."""


def encode_step(value: Any) -> str:
    return msgspec.json.encode(value, order="sorted").decode()


def item_step(item: Any, kind: FieldType) -> str:
    """How a list item is named in a path: by its keys, or by its value in a set."""
    if kind.is_set or not isinstance(item, dict):
        return f"v:{encode_step(item)}"
    keys = {key: item.get(key, kind.key_defaults.get(key)) for key in kind.keys}
    return f"k:{encode_step({key: value for key, value in keys.items() if value is not None})}"


def fields_of(obj: JsonObject, kind: FieldType) -> FieldSet:
    """Every field that `obj` sets and that somebody can own."""
    found: set[Path] = set()
    _collect(obj, kind, (), found)
    return frozenset(found - _UNOWNED)


def _collect(value: Any, kind: FieldType, path: Path, found: set[Path]) -> None:
    if kind.atomic:
        found.add(path)
    elif isinstance(value, dict):
        for name, item in value.items():
            step = (*path, f"f:{name}")
            _collect(item, kind.child(name), step, found)
            if item is None or item == {} or not kind.is_named_field(name):
                found.add(step)
    elif isinstance(value, list):
        if not kind.merges_items():
            found.add(path)
            return
        for item in value:
            step = (*path, item_step(item, kind))
            _collect(item, kind.item(), step, found)
            found.add(step)
    else:
        found.add(path)


def every_path_of(obj: JsonObject, kind: FieldType) -> FieldSet:
    """The fields of `obj` and the maps and lists they are in: what somebody owns who wrote it without apply."""
    found: set[Path] = set()
    _collect_every(obj, kind, (), found)
    return frozenset(found - _UNOWNED - {()})


def _collect_every(value: Any, kind: FieldType, path: Path, found: set[Path]) -> None:
    found.add(path)
    if kind.atomic:
        return
    if isinstance(value, dict):
        for name, item in value.items():
            _collect_every(item, kind.child(name), (*path, f"f:{name}"), found)
    elif isinstance(value, list) and kind.merges_items():
        for item in value:
            _collect_every(item, kind.item(), (*path, item_step(item, kind)), found)


@dataclass(frozen=True, slots=True)
class Difference:
    """What changed between two versions of an object, field by field."""

    added: FieldSet
    modified: FieldSet
    removed: FieldSet

    def written(self) -> FieldSet:
        return self.added | self.modified


class _Comparison:
    def __init__(self) -> None:
        self.added: set[Path] = set()
        self.modified: set[Path] = set()
        self.removed: set[Path] = set()

    def walk(self, old: Any, new: Any, kind: FieldType, path: Path) -> None:
        if old is new or old == new:
            return
        if kind.atomic:
            self.modified.add(path)
        elif isinstance(old, dict) and isinstance(new, dict):
            self._walk_named(
                {f"f:{name}": (item, name) for name, item in old.items()},
                {f"f:{name}": (item, name) for name, item in new.items()},
                kind,
                path,
            )
        elif isinstance(old, list) and isinstance(new, list) and kind.merges_items():
            self._walk_named(
                {item_step(item, kind): (item, None) for item in old},
                {item_step(item, kind): (item, None) for item in new},
                kind,
                path,
            )
        else:
            _collect(new, kind, path, self.modified)

    def _walk_named(
        self,
        old: dict[str, tuple[Any, str | None]],
        new: dict[str, tuple[Any, str | None]],
        kind: FieldType,
        path: Path,
    ) -> None:
        for step, (item, name) in new.items():
            child = kind.item() if name is None else kind.child(name)
            if step in old:
                self.walk(old[step][0], item, child, (*path, step))
            else:
                _collect_every(item, child, (*path, step), self.added)
        for step, (item, name) in old.items():
            if step not in new:
                child = kind.item() if name is None else kind.child(name)
                _collect_every(item, child, (*path, step), self.removed)


def compare(old: JsonObject, new: JsonObject, kind: FieldType) -> Difference:
    comparison = _Comparison()
    comparison.walk(old, new, kind, ())
    return Difference(
        frozenset(comparison.added - _UNOWNED),
        frozenset(comparison.modified - _UNOWNED),
        frozenset(comparison.removed - _UNOWNED),
    )


def merge(live: Any, config: Any, kind: FieldType) -> Any:
    """`config` laid over `live`: structures field by field, keyed lists item by item, everything else replaced."""
    if kind.atomic or type(live) is not type(config):
        return config
    if isinstance(config, dict):
        merged = dict(live)
        for name, value in config.items():
            merged[name] = merge(live[name], value, kind.child(name)) if name in live else value
        return merged
    if isinstance(config, list) and kind.merges_items():
        return _merge_items(live, config, kind)
    return config


def _merge_items(live: list[Any], config: list[Any], kind: FieldType) -> list[Any]:
    """Applied items keep the applied order; items only others set stay in front of the one they stood before."""
    standing = {item_step(item, kind): item for item in live}
    applied = {item_step(item, kind): item for item in config}
    shared = [step for step in applied if step in standing]
    ahead = list(standing)
    merged: list[Any] = []
    for step, item in applied.items():
        upcoming = shared[0] if shared else None
        while ahead and ahead[0] != upcoming:
            other = ahead.pop(0)
            if other not in applied:
                merged.append(standing[other])
        if step == upcoming:
            shared.pop(0)
            ahead[:1] = []
        merged.append(merge(standing[step], item, kind.item()) if step in standing else item)
    merged.extend(standing[other] for other in ahead if other not in applied)
    return merged


def without(value: Any, paths: Iterable[Path], kind: FieldType) -> Any:
    """`value` with the given fields taken out; a map or list that is emptied by it goes too, and becomes None."""
    here: dict[str, list[Path]] = {}
    for path in paths:
        here.setdefault(path[0], []).append(path[1:])
    if isinstance(value, dict):
        return _without_fields(value, here, kind)
    if isinstance(value, list) and kind.merges_items():
        kept = []
        for item in value:
            below = here.get(item_step(item, kind))
            if below is None:
                kept.append(item)
            elif () not in below:
                kept.append(without(item, below, kind.item()))
        return kept or None
    return value


def _without_fields(value: JsonObject, here: dict[str, list[Path]], kind: FieldType) -> JsonObject | None:
    kept: JsonObject = {}
    for name, item in value.items():
        below = here.get(f"f:{name}")
        if below is None:
            kept[name] = item
        elif () not in below:
            left = without(item, below, kind.child(name))
            if left is not None:
                kept[name] = left
    return kept or None


def render(fields: FieldSet) -> JsonObject:
    """The set as it is shown in `managedFields[].fieldsV1`."""
    root: JsonObject = {}
    for path in sorted(fields):
        node = root
        for step in path:
            node = node.setdefault(step, {})
        node["."] = {}
    _drop_leaf_marks(root)
    return root


def _drop_leaf_marks(node: JsonObject) -> None:
    for child in node.values():
        if list(child) == ["."]:
            del child["."]
        else:
            _drop_leaf_marks(child)


def describe(path: Path) -> str:
    """The path in the notation of conflict messages: .spec.containers[name="main"].image"""
    text = ""
    for step in path:
        kind, _, rest = step.partition(":")
        if kind == "f":
            text += f".{rest}"
        elif kind == "k":
            keys = msgspec.json.decode(rest)
            text += "[" + ",".join(f"{key}={encode_step(value)}" for key, value in sorted(keys.items())) + "]"
        else:
            text += f"[={rest}]"
    return text
