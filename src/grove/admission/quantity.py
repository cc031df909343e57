"""Kubernetes quantities as numbers: `500m`, `16Gi`, `1e3`."""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Any

_QUANTITY = re.compile(r"([+-]?(?:\d+\.?\d*|\.\d+))(Ki|Mi|Gi|Ti|Pi|Ei|[numkMGTPE]|[eE][+-]?\d+)?")
_DECIMAL = {"n": 1e-9, "u": 1e-6, "m": 1e-3, "k": 1e3, "M": 1e6, "G": 1e9, "T": 1e12, "P": 1e15, "E": 1e18}
_BINARY = {"Ki": 2**10, "Mi": 2**20, "Gi": 2**30, "Ti": 2**40, "Pi": 2**50, "Ei": 2**60}


def amount(value: Any) -> float | None:
    """The number a quantity stands for; None when it is not one."""
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        return None
    return _parsed(value) if isinstance(value, str) else float(value)


@lru_cache(maxsize=1024)
def _parsed(text: str) -> float | None:
    match = _QUANTITY.fullmatch(text)
    if match is None:
        return None
    number, suffix = float(match[1]), match[2] or ""
    if suffix in _BINARY:
        return number * _BINARY[suffix]
    if suffix in _DECIMAL:
        return number * _DECIMAL[suffix]
    return number * 10.0 ** int(suffix[1:]) if suffix else number
