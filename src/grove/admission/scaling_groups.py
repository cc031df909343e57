"""Scaling groups: members exist, belong to one group alone, and the group can reach its minimum."""

from __future__ import annotations

from collections.abc import Iterator

from grove.admission.context import Case
from grove.admission.findings import FieldError, duplicate, invalid, repetitions, required
from grove.api.pod_clique_set import ScalingGroupConfig


def check(case: Case) -> Iterator[FieldError]:
    known = {clique.name for clique in case.template.cliques}
    for path, group in case.groups():
        yield from _members(path, group, known)
        yield from _one_group(path, group, case)
        yield from _counts(path, group)


def _members(path: str, group: ScalingGroupConfig, known: set[str]) -> Iterator[FieldError]:
    field = f"{path}.cliqueNames"
    if not group.clique_names:
        yield required(field, "a scaling group needs at least one clique")
    yield from repetitions(field, group.clique_names, "listed twice")
    for index, name in enumerate(group.clique_names):
        if name not in known:
            listed = ", ".join(sorted(known))
            yield invalid(f"{field}[{index}]", name, "no clique has this name", f"the cliques are: {listed}")


def _one_group(path: str, group: ScalingGroupConfig, case: Case) -> Iterator[FieldError]:
    for index, name in enumerate(group.clique_names):
        first = case.groups_by_clique.get(name)
        if first is not None and first is not group and first.name != group.name:
            message = f"the clique already belongs to scaling group '{first.name}'"
            yield duplicate(f"{path}.cliqueNames[{index}]", name, message)


def _counts(path: str, group: ScalingGroupConfig) -> Iterator[FieldError]:
    if group.initial_replicas < 1:
        yield invalid(f"{path}.replicas", group.replicas, "must be greater than 0")
    if group.minimum < 1:
        yield invalid(f"{path}.minAvailable", group.min_available, "must be greater than 0")
    elif group.minimum > group.initial_replicas:
        yield invalid(
            f"{path}.minAvailable",
            group.minimum,
            f"must not be greater than replicas {group.initial_replicas}",
            "raise replicas or lower minAvailable",
        )
