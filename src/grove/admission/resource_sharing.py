"""Resource sharing: templates are named, entries name something and say how widely it is shared."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from grove.admission.context import TEMPLATE, Case
from grove.admission.findings import FieldError, Names, duplicate, required, unsupported

SCOPES = ("AllReplicas", "PerReplica")


def check(case: Case) -> Iterator[FieldError]:
    yield from _named(f"{TEMPLATE}.resourceClaimTemplates", case.template.resource_claim_templates)
    yield from _entries(f"{TEMPLATE}.resourceSharing", case.template.resource_sharing)
    for path, group in case.groups():
        yield from _entries(f"{path}.resourceSharing", group.resource_sharing)
    for path, clique in case.cliques():
        yield from _entries(f"{path}.resourceSharing", clique.resource_sharing)


def _named(path: str, entries: list[dict[str, Any]]) -> Iterator[FieldError]:
    seen = Names()
    for index, entry in enumerate(entries):
        name = entry.get("name")
        if not name:
            yield required(f"{path}[{index}].name", "must be set")
        elif seen.repeated(str(name)):
            yield duplicate(f"{path}[{index}].name", name, "listed twice")


def _entries(path: str, entries: list[dict[str, Any]]) -> Iterator[FieldError]:
    yield from _named(path, entries)
    for index, entry in enumerate(entries):
        if entry.get("scope") not in SCOPES:
            yield unsupported(f"{path}[{index}].scope", entry.get("scope"), SCOPES)
