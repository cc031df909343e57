"""ClusterTopology: well-formed levels, each with a domain and a key of its own."""

from __future__ import annotations

from typing import Any

from grove.admission import structure
from grove.admission.findings import FieldError, duplicate

LEVELS = "spec.levels"


def check(document: dict[str, Any]) -> list[FieldError]:
    """What is wrong with a ClusterTopology document."""
    errors = structure.check(document, "ClusterTopology")
    return errors or _repeated_keys(document["spec"]["levels"])


def _repeated_keys(levels: list[dict[str, Any]]) -> list[FieldError]:
    seen: set[str] = set()
    errors = []
    for index, level in enumerate(levels):
        if level["key"] in seen:
            errors.append(duplicate(f"{LEVELS}[{index}].key", level["key"], "another level has this key"))
        seen.add(level["key"])
    return errors
