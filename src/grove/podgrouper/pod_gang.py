"""PodGang → PodGroup: one leaf per pod group of the gang, and the gang's three levels of topology.

Without topology the result is what KAI's own pod-grouper makes of a PodGang: flat subgroups, minimums summed. With it:
- the gang's constraint, else the three KAI annotations, becomes the PodGroup's;
- each topology group becomes a parent of the leaves it names, and each leaf keeps its own constraint;
- KAI 0.12 loses a leaf that stands beside a parent, so beside parents every other leaf gets a parent of its own;
- parent names are lower case, since KAI looks a parent up in lower case;
- a constraint names its Topology. Required packing without one could only be ignored in silence, so the gang waits;
  a mere preference without one says nothing (it stays behind when topology is switched off) and is left out.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from grove.api import labels
from grove.api.core import Pod
from grove.api.kinds import POD_GANGS
from grove.api.pod_gang import GangTopologyConstraint, PodGang, PodGangSpec
from grove.api.reasons import Reason
from grove.plan.actions import Why
from grove.podgrouper.grouping import Grouping, Owner, SubGroup, Topology, body, fitted
from grove.podgrouper.inheritance import Surroundings, inherited
from grove.podgrouper.kinds import TOPOLOGY, PodGroup
from grove.schedulers import kai

_LONGEST_PART = 63


def gang_owner(gang: PodGang) -> Owner:
    return Owner(POD_GANGS.api_version, POD_GANGS.kind, gang.metadata)


def gang_of(pod: Pod) -> str | None:
    """The gang (`namespace/name`) an owner made the pod for. A pod that nobody owns cannot join one by a label."""
    meta = pod.metadata
    name = meta.labels.get(labels.POD_GANG)
    return f"{meta.namespace}/{name}" if name and meta.owner_references else None


def schedules_with_kai(gang: PodGang, pod: Pod | None) -> bool:
    """Whether KAI is the gang's scheduler: the gang's label says it, and where there is none, its pods do."""
    named = gang.metadata.labels.get(labels.SCHEDULER_NAME)
    return (pod is not None and pod.spec.scheduler_name == kai.NAME) if named is None else named == kai.NAME


def gang_grouping(gang: PodGang, pod: Pod, around: Surroundings) -> Grouping | Why:
    """The PodGroup of a gang; `pod` is any pod of it, for what a gang leaves to its pods (queue, priority, user)."""
    spec, owner = gang.spec, gang_owner(gang)
    if not spec.podgroups:
        return Why(Reason.GANG_INCOMPLETE, f"PodGang {gang.metadata.name} has no pod groups yet")
    if not _topology_name(gang) and any(_requires(c) for c in _constraints(spec)):
        message = f"PodGang {gang.metadata.name} requires packing but names no topology ({labels.TOPOLOGY_NAME})"
        return Why(Reason.TOPOLOGY_UNNAMED, message)
    base = inherited(owner, pod, around)
    return replace(
        base,
        name=kai.pod_group_name(gang.metadata.name, gang.metadata.uid),
        priority_class_name=spec.priority_class_name or base.priority_class_name,
        min_member=sum(group.min_replicas for group in spec.podgroups),
        topology=_topology(gang, spec.topology_constraint) or base.topology,
        sub_groups=tuple(_sub_groups(gang)),
    )


def pod_group(gang: PodGang, pod: Pod, around: Surroundings, stored: PodGroup | None = None) -> dict[str, Any] | Why:
    """The PodGroup object to apply for a gang, or why there can be none."""
    grouping = gang_grouping(gang, pod, around)
    return grouping if isinstance(grouping, Why) else body(grouping, stored)


def _sub_groups(gang: PodGang) -> Iterator[SubGroup]:
    """Parents first, then the leaves in the gang's order."""
    groups = gang.spec.podgroups
    taken = {group.name for group in groups}
    parent_of: dict[str, str] = {}
    constraints: dict[str, Topology] = {}
    for config in gang.spec.topology_constraint_group_configs:
        name = _free_name(config.name.lower(), taken)
        constraints[name] = _topology(gang, config.topology_constraint) or Topology()
        parent_of.update(dict.fromkeys(config.pod_group_names, name))
    if any(group.name in parent_of for group in groups):
        for group in groups:
            if group.name not in parent_of:
                parent_of[group.name] = _free_name(f"{group.name}-alone".lower(), taken)
    for parent in dict.fromkeys(parent_of[group.name] for group in groups if group.name in parent_of):
        yield SubGroup(parent, topology=constraints.get(parent, Topology()))
    for group in groups:
        constraint = _topology(gang, group.topology_constraint) or Topology()
        yield SubGroup(group.name, group.min_replicas, parent_of.get(group.name, ""), constraint)


def _free_name(wanted: str, taken: set[str]) -> str:
    """A subgroup name that nothing else in the group has, within the length of a label."""
    name, attempt = fitted(wanted, _LONGEST_PART), 0
    while name in taken:
        attempt += 1
        name = fitted(f"{wanted}-{attempt}", _LONGEST_PART)
    taken.add(name)
    return name


def _topology_name(gang: PodGang) -> str:
    annotations = gang.metadata.annotations
    return annotations.get(labels.TOPOLOGY_NAME) or annotations.get(TOPOLOGY, "")


def _topology(gang: PodGang, constraint: GangTopologyConstraint | None) -> Topology | None:
    levels = _levels(constraint)
    name = _topology_name(gang)
    return Topology(name, *levels) if levels and name else None


def _requires(constraint: GangTopologyConstraint | None) -> bool:
    levels = _levels(constraint)
    return levels is not None and bool(levels[0])


def _levels(constraint: GangTopologyConstraint | None) -> tuple[str, str] | None:
    """Required and preferred; None when neither is said, empty strings included."""
    pack = constraint.pack_constraint if constraint else None
    if pack is None or not (pack.required or pack.preferred):
        return None
    return pack.required or "", pack.preferred or ""


def _constraints(spec: PodGangSpec) -> Iterator[GangTopologyConstraint | None]:
    yield spec.topology_constraint
    for config in spec.topology_constraint_group_configs:
        yield config.topology_constraint
    for group in spec.podgroups:
        yield group.topology_constraint


def part_of(gang: PodGang, pod: Pod) -> str:
    """The pod group of the gang that this pod belongs to: the one that lists it, else the one named as its clique."""
    meta = pod.metadata
    for group in gang.spec.podgroups:
        if any(ref.name == meta.name and ref.namespace == meta.namespace for ref in group.pod_references):
            return group.name
    clique = meta.labels.get(labels.POD_CLIQUE, "")
    return clique if any(group.name == clique for group in gang.spec.podgroups) else ""
