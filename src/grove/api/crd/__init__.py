"""The CustomResourceDefinitions of Grove's kinds, rendered from the structs: one source for the API and its schema."""

from __future__ import annotations

from functools import cache
from typing import Any

from grove.api.crd.definitions import DEFINITIONS

__all__ = ["definitions", "files", "schema"]


@cache
def _rendered() -> dict[str, dict[str, Any]]:
    return {definition.file_name: definition.rendered() for definition in DEFINITIONS}


def files() -> dict[str, dict[str, Any]]:
    """The CRDs by the name of the file they are published in. Not to be changed in place."""
    return _rendered()


def definitions() -> list[dict[str, Any]]:
    """The CRDs, ready to apply."""
    return list(_rendered().values())


def schema(kind: str) -> dict[str, Any]:
    """The structural schema of one of our kinds."""
    for definition in _rendered().values():
        if definition["spec"]["names"]["kind"] == kind:
            found: dict[str, Any] = definition["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
            return found
    raise KeyError(kind)
