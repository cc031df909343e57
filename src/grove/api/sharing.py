"""One copy of equal pod specs. A thousand objects rendered from one template would otherwise hold a thousand trees."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import msgspec

_encode = msgspec.json.Encoder(order="sorted").encode


@lru_cache(maxsize=4096)
def _decoded(canonical: bytes) -> dict[str, Any]:
    value: dict[str, Any] = msgspec.json.decode(canonical)
    return value


def shared(value: dict[str, Any]) -> dict[str, Any]:
    """An equal mapping that all callers with the same content share. It must not be changed in place."""
    return _decoded(_encode(value))
