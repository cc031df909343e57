"""Durations as Kubernetes objects write them: `4h`, `1h30m`, `10s`, `500ms`."""

from __future__ import annotations

import re
from datetime import timedelta

_UNITS = {"h": 3600.0, "m": 60.0, "s": 1.0, "ms": 1e-3, "us": 1e-6, "µs": 1e-6, "ns": 1e-9}
_PART = re.compile(r"(\d+(?:\.\d+)?)(h|ms|m|s|us|µs|ns)")


def parse(text: str) -> timedelta:
    """The duration a text stands for; raises ValueError naming the text when it is none."""
    if text == "0":
        return timedelta(0)
    sign, rest = (-1, text[1:]) if text.startswith("-") else (1, text)
    parts = _PART.findall(rest)
    if not parts or "".join(number + unit for number, unit in parts) != rest:
        raise ValueError(f"{text!r} is not a duration; write for example 30s, 10m or 4h")
    return sign * timedelta(seconds=sum(float(number) * _UNITS[unit] for number, unit in parts))
