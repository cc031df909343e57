"""Values that are a number or a share of the replicas: `2`, `"25%"`."""

from __future__ import annotations

from grove.api.meta import IntOrPercent


def resolved(value: IntOrPercent, total: int, *, round_up: bool) -> int:
    """The number meant, for this many replicas; ValueError when a text is not a percentage."""
    if isinstance(value, int):
        return value
    digits = value.removesuffix("%")
    if digits == value or not (digits.isascii() and digits.isdigit()):
        raise ValueError(f"{value!r} is neither a number nor a percentage such as 25%")
    share = int(digits) * total
    return -(-share // 100) if round_up else share // 100
