"""Which PodCliques a PodClique starts after, by full name.

Ordering holds inside one gang. In the base gang a parent that is in a scaling group means all of the group's replicas
that are in the base gang; in a scaled gang only parents of the same scaling-group replica count, since the base gang
was scheduled before the scaled one was let go.
"""

from __future__ import annotations

from grove.api import names
from grove.api.pod_clique_set import PodCliqueSet, PodCliqueSetTemplate
from grove.plan.layout import Slot


def ordered(template: PodCliqueSetTemplate) -> bool:
    """Whether any clique of this template starts after another."""
    return any(parent_cliques(template, clique.name) for clique in template.cliques)


def parent_cliques(template: PodCliqueSetTemplate, clique: str) -> list[str]:
    """The short names of the cliques this one starts after."""
    if template.clique_startup_type == "CliqueStartupTypeInOrder":
        order = [c.name for c in template.cliques]
        position = order.index(clique)
        return [order[position - 1]] if position > 0 else []
    if template.clique_startup_type == "CliqueStartupTypeExplicit":
        found = template.clique(clique)
        return list(found.spec.starts_after) if found else []
    return []


def parents(owner: PodCliqueSet, index: int, slot: Slot) -> list[tuple[str, int]]:
    """The PodCliques the slot's pods wait for, each with the number of pods that must be ready there."""
    template = owner.spec.template
    found: list[tuple[str, int]] = []
    for clique in parent_cliques(template, slot.template.name):
        parent = template.clique(clique)
        if parent is None:
            continue
        found.extend((name, parent.spec.minimum) for name in _names(owner, index, slot, clique))
    return found


def _names(owner: PodCliqueSet, index: int, slot: Slot, clique: str) -> list[str]:
    group = owner.spec.template.group_of(clique)
    in_scaled_gang = slot.group is not None and slot.group_index >= slot.group.minimum
    if in_scaled_gang:
        if group is None or slot.group is None or group.name != slot.group.name:
            return []
        return [names.member_clique(slot.group_name, slot.group_index, clique)]
    if group is None:
        return [names.standalone_clique(owner.metadata.name, index, clique)]
    group_name = names.scaling_group(owner.metadata.name, index, group.name)
    return [names.member_clique(group_name, j, clique) for j in range(group.minimum)]
