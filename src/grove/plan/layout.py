"""What one PodCliqueSet replica consists of: which cliques, scaling-group replicas and gangs, under which names.

The layout follows the latest spec in everything but the pods' content. Group replicas below the group's minimum belong
to the base gang together with the standalone cliques; every further one is a scaled gang of its own.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from grove.api import names
from grove.api.pod_clique_set import CliqueTemplate, PodCliqueSet, ScalingGroupConfig


@dataclass(frozen=True, slots=True)
class Slot:
    """One PodClique a replica should have, and where it belongs."""

    name: str
    template: CliqueTemplate
    gang: str
    group: ScalingGroupConfig | None = None
    group_name: str = ""
    group_index: int = 0


@dataclass(frozen=True, slots=True)
class Gang:
    """A PodGang a replica should have. Scaled gangs name the base gang they start after."""

    name: str
    slots: tuple[Slot, ...]
    base: str | None = None
    group: ScalingGroupConfig | None = None
    group_index: int = 0


@dataclass(frozen=True, slots=True)
class Layout:
    """All parts of one replica, in template order: standalone cliques, then group by group, replica by replica."""

    set_name: str
    namespace: str
    index: int
    standalone: tuple[Slot, ...]
    members: Mapping[str, Mapping[int, tuple[Slot, ...]]]
    gangs: tuple[Gang, ...]

    @property
    def name(self) -> str:
        return names.replica(self.set_name, self.index)

    def slots(self) -> list[Slot]:
        found = list(self.standalone)
        for replicas in self.members.values():
            for slots in replicas.values():
                found.extend(slots)
        return found


def layout(owner: PodCliqueSet, index: int, group_indices: Mapping[str, tuple[int, ...]]) -> Layout:
    """The parts of replica `index`, with the group replicas (by short group name) that are to exist."""
    meta, template = owner.metadata, owner.spec.template
    base = names.replica(meta.name, index)
    standalone = tuple(
        Slot(names.standalone_clique(meta.name, index, clique.name), clique, base) for clique in template.standalone()
    )
    members: dict[str, dict[int, tuple[Slot, ...]]] = {}
    for group in template.pod_clique_scaling_groups:
        group_name = names.scaling_group(meta.name, index, group.name)
        cliques = template.members(group)
        members[group.name] = {
            j: tuple(_member(clique, group, group_name, j, base) for clique in cliques)
            for j in group_indices.get(group.name, ())
        }
    return Layout(meta.name, meta.namespace, index, standalone, members, _gangs(owner, base, standalone, members))


def _member(clique: CliqueTemplate, group: ScalingGroupConfig, group_name: str, index: int, base: str) -> Slot:
    gang = base if index < group.minimum else f"{group_name}-{index}"
    return Slot(names.member_clique(group_name, index, clique.name), clique, gang, group, group_name, index)


def _gangs(
    owner: PodCliqueSet,
    base: str,
    standalone: tuple[Slot, ...],
    members: Mapping[str, Mapping[int, tuple[Slot, ...]]],
) -> tuple[Gang, ...]:
    base_slots = list(standalone)
    scaled: list[Gang] = []
    for group in owner.spec.template.pod_clique_scaling_groups:
        for j, slots in members[group.name].items():
            if j < group.minimum:
                base_slots.extend(slots)
            elif slots:
                scaled.append(Gang(slots[0].gang, slots, base, group, j))
    return (Gang(base, tuple(base_slots)), *scaled)
