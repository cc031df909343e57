"""JSON in and out: one compiled decoder per model, and objects that do not keep the message they came from alive.

A `msgspec.Raw` field is a window into the whole message; a cached object would pin six kilobytes for a few hundred
bytes. Models that contain such fields are found once, by their types, and their windows are copied after decoding.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

import msgspec
import structlog
from msgspec import inspect

from grove.runtime.objects import ObjectList, PartialObject

Detach = Callable[[Any], Any]

_log = structlog.get_logger(__name__)
_encoder = msgspec.json.Encoder()
encode = _encoder.encode


@cache
def decoder(model: Any) -> Callable[[bytes], Any]:
    """Decodes a message into `model`; the result owns all of its bytes."""
    decode = msgspec.json.Decoder(model).decode
    detach = detacher(model)
    if detach is None:
        return decode

    def decode_and_detach(message: bytes) -> Any:
        return detach(decode(message))

    return decode_and_detach


def decode_list(model: Any, message: bytes) -> ObjectList[Any]:
    """Decodes a page. One object that does not fit the model is left out and reported; it must not hide the others."""
    try:
        page: ObjectList[Any] = decoder(ObjectList[model])(message)
        return page
    except msgspec.ValidationError:
        raw: ObjectList[msgspec.Raw] = msgspec.json.decode(message, type=ObjectList[msgspec.Raw])
    items = []
    for item in raw.items:
        try:
            items.append(decoder(model)(bytes(item)))
        except msgspec.ValidationError as problem:
            metadata = msgspec.json.decode(item, type=PartialObject).metadata
            _log.error("unreadable object", namespace=metadata.namespace, name=metadata.name, problem=str(problem))
    return ObjectList(metadata=raw.metadata, items=items)


@cache
def detacher(model: Any) -> Detach | None:
    """What copies the raw parts out of a decoded `model`, or None when it has none."""
    return _detacher(inspect.type_info(model), ())


def _detacher(info: inspect.Type, outer: tuple[type, ...]) -> Detach | None:
    if isinstance(info, inspect.RawType):
        return lambda raw: raw.copy()
    if isinstance(info, inspect.StructType):
        return None if info.cls in outer else _struct_detacher(info, (*outer, info.cls))
    if isinstance(info, inspect.ListType | inspect.VarTupleType | inspect.CollectionType):
        inner = _detacher(info.item_type, outer)
        return None if inner is None else _items(inner)
    if isinstance(info, inspect.DictType):
        inner = _detacher(info.value_type, outer)
        return None if inner is None else _values(inner)
    if isinstance(info, inspect.UnionType):
        return _union_detacher(info, outer)
    return None


def _struct_detacher(info: inspect.StructType, outer: tuple[type, ...]) -> Detach | None:
    found = [(field.name, _detacher(field.type, outer)) for field in info.fields]
    fields = [(name, inner) for name, inner in found if inner is not None]
    if not fields:
        return None

    def detach(struct: Any) -> Any:
        for name, inner in fields:
            msgspec.structs.force_setattr(struct, name, inner(getattr(struct, name)))
        return struct

    return detach


def _union_detacher(info: inspect.UnionType, outer: tuple[type, ...]) -> Detach | None:
    found = [(getattr(member, "cls", None), _detacher(member, outer)) for member in info.types]
    if all(inner is None for _, inner in found):
        return None
    by_class = {cls: inner for cls, inner in found if cls is not None}
    others = next((inner for cls, inner in found if cls is None and inner is not None), None)

    def detach(value: Any) -> Any:
        if value is None:
            return None
        inner = by_class.get(type(value), others)
        return value if inner is None else inner(value)

    return detach


def _items(inner: Detach) -> Detach:
    return lambda items: type(items)(inner(item) for item in items)


def _values(inner: Detach) -> Detach:
    return lambda values: {key: inner(value) for key, value in values.items()}
