"""Resource sharing: templates are named and ask for something, entries name what is shared, how widely and with whom.

The entries are stored and checked, and nothing is made from them yet; the writer is told.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass
from typing import Any

from grove.admission.context import TEMPLATE, Case
from grove.admission.findings import FieldError, Names, duplicate, invalid, required, unsupported

Json = dict[str, Any]

SCOPES = ("AllReplicas", "PerReplica")
CLIQUES, GROUPS = "childCliqueNames", "childScalingGroupNames"


@dataclass(frozen=True, slots=True)
class _Level:
    """The entries of one place, and whom a filter there may choose, by the filter's fields."""

    path: str
    entries: list[Json]
    children: dict[str, Collection[str]]


def check(case: Case) -> Iterator[FieldError]:
    path = f"{TEMPLATE}.resourceClaimTemplates"
    templates = case.template.resource_claim_templates
    yield from _named(path, templates)
    for index, template in enumerate(templates):
        if not _requests(template):
            field = f"{path}[{index}].templateSpec.spec.devices.requests"
            yield required(field, "at least one device request is required")
    internal = {str(template.get("name")) for template in templates}
    for level in _levels(case):
        yield from _named(level.path, level.entries)
        for index, entry in enumerate(level.entries):
            yield from _entry(f"{level.path}[{index}]", entry, level, internal)


def warnings(case: Case) -> Iterator[str]:
    for level in _levels(case):
        yield f"{level.path} has no effect yet: no ResourceClaims are made from it"


def _levels(case: Case) -> Iterator[_Level]:
    """The places that share something; mostly there is none."""
    template = case.template
    if template.resource_sharing:
        cliques, groups = [c.name for c in template.cliques], [g.name for g in template.pod_clique_scaling_groups]
        yield _Level(f"{TEMPLATE}.resourceSharing", template.resource_sharing, {CLIQUES: cliques, GROUPS: groups})
    for path, group in case.groups():
        if group.resource_sharing:
            yield _Level(f"{path}.resourceSharing", group.resource_sharing, {CLIQUES: group.clique_names})
    for path, clique in case.cliques():
        if clique.resource_sharing:
            yield _Level(f"{path}.resourceSharing", clique.resource_sharing, {})


def _entry(path: str, entry: Json, level: _Level, internal: set[str]) -> Iterator[FieldError]:
    if entry.get("scope") not in SCOPES:
        yield unsupported(f"{path}.scope", entry.get("scope"), SCOPES)
    if entry.get("namespace") and entry.get("name") in internal:
        yield invalid(
            f"{path}.namespace",
            entry["namespace"],
            "must be empty when name matches an entry of resourceClaimTemplates",
            "leave namespace out",
        )
    if entry.get("filter") is not None and level.children:
        yield from _filter(f"{path}.filter", entry["filter"], level.children)


def _filter(path: str, chosen: Any, children: dict[str, Collection[str]]) -> Iterator[FieldError]:
    lists = {field: _names(chosen, field) for field in children}
    if not any(lists.values()):
        yield required(path, f"must specify at least one {' or '.join(children)} entry", "leave filter out to mean all")
    for field, names in lists.items():
        for index, name in enumerate(names):
            if name not in children[field]:
                known = ", ".join(sorted(children[field]))
                yield invalid(f"{path}.{field}[{index}]", name, "nothing here has this name", f"there are: {known}")


def _names(chosen: Any, field: str) -> list[Any]:
    names = chosen.get(field) if isinstance(chosen, dict) else None
    return names if isinstance(names, list) else []


def _requests(template: Json) -> Any:
    found: Any = template
    for key in ("templateSpec", "spec", "devices", "requests"):
        found = found.get(key) if isinstance(found, dict) else None
    return found


def _named(path: str, entries: list[Json]) -> Iterator[FieldError]:
    seen = Names()
    for index, entry in enumerate(entries):
        name = entry.get("name")
        if not name:
            yield required(f"{path}[{index}].name", "must be set")
        elif seen.repeated(str(name)):
            yield duplicate(f"{path}[{index}].name", name, "listed twice")
