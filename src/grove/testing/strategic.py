"""Strategic merge patch, as far as clients of built-in kinds use it: keyed lists merge, `$patch: delete` removes."""

from __future__ import annotations

from typing import Any

from grove.testing.fieldsets import item_step
from grove.testing.fieldtypes import FieldType
from grove.testing.objects import JsonObject


def merged(target: Any, patch: Any, kind: FieldType) -> Any:
    if isinstance(patch, dict):
        return _merged_fields(target if isinstance(target, dict) else {}, patch, kind)
    if isinstance(patch, list) and isinstance(target, list) and kind.merges_items():
        return _merged_items(target, patch, kind)
    return patch


def _merged_fields(target: JsonObject, patch: JsonObject, kind: FieldType) -> JsonObject:
    if patch.get("$patch") == "replace":
        return {name: value for name, value in patch.items() if name != "$patch"}
    result = dict(target)
    for name, value in patch.items():
        if value is None:
            result.pop(name, None)
        elif name.startswith("$deleteFromPrimitiveList/"):
            field = name.partition("/")[2]
            result[field] = [item for item in result.get(field, ()) if item not in value]
        elif not name.startswith("$"):
            result[name] = merged(result.get(name), value, kind.child(name))
    return result


def _merged_items(target: list[Any], patch: list[Any], kind: FieldType) -> list[Any]:
    result = {item_step(item, kind): item for item in target}
    for item in patch:
        step = item_step(item, kind)
        if isinstance(item, dict) and item.get("$patch") == "delete":
            result.pop(step, None)
        else:
            result[step] = merged(result.get(step), item, kind.item())
    return list(result.values())
