"""Domains and claims nobody came for: made before their clique was stored, for a replica that was then given up.

They still belong to the PodCliqueSet, so nothing would take them before the set goes. They are removed when no PodGang
of theirs and no clique that leads to it stands, and the set does not ask for their replica. One that is removed while
its clique was on the way after all is made again for the gang, before a pod of it can run.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from grove.api import labels
from grove.api.devices import COMPUTE_DOMAINS, ComputeDomain, DeviceClaim
from grove.api.kinds import POD_CLIQUE_SETS
from grove.api.pod_clique import PodClique
from grove.api.pod_clique_set import PodCliqueSet
from grove.api.reasons import Reason
from grove.api.scaling_group import ScalingGroup
from grove.plan import mnnvl
from grove.plan.actions import Action, Delete, Plan, Why
from grove.plan.mnnvl_ownership import held_by
from grove.plan.turn import selected_replicas
from grove.runtime.resource import Resource


@dataclass(frozen=True, slots=True)
class Unclaimed:
    """A PodGang's name behind which no PodGang stands, and what is there of its replica."""

    gang: str
    owner: PodCliqueSet
    cliques: Sequence[PodClique]
    groups: Sequence[ScalingGroup]
    domains: Sequence[ComputeDomain]
    claims: Sequence[DeviceClaim]
    claim_resource: Resource[DeviceClaim]


def plan_leftovers(world: Unclaimed) -> Plan:
    """What is to go; nothing while a clique that belongs to the gang stands."""
    if any(_leads_to(clique, world.gang) for clique in world.cliques):
        return Plan()
    items: list[tuple[Resource[Any], ComputeDomain | DeviceClaim]] = [
        *((world.claim_resource, claim) for claim in world.claims),
        *((COMPUTE_DOMAINS, domain) for domain in world.domains),
    ]
    found: list[Action] = []
    for resource, item in items:
        meta = item.metadata
        holder = held_by(meta, POD_CLIQUE_SETS)
        if holder is None or holder.uid != world.owner.metadata.uid or meta.terminating:
            continue
        if not _asked_for(meta.labels, world):
            why = Why(Reason.CHILD_UNWANTED, f"PodCliqueSet {holder.name} does not ask for the replica it was made for")
            found.append(Delete(resource, meta.namespace, meta.name, meta.uid, why))
    return Plan((tuple(found),)) if found else Plan()


def _leads_to(clique: PodClique, gang: str) -> bool:
    meta = clique.metadata
    if meta.labels.get(labels.POD_GANG) == gang:
        return True
    try:
        return mnnvl.domain_of(meta.namespace, meta.labels, meta.annotations).gang == gang
    except mnnvl.Unplaceable:
        return False


def _asked_for(marks: Mapping[str, str], world: Unclaimed) -> bool:
    """Whether the set asks for the replica with these labels. What an update works on may be cover beyond that."""
    index, owner = _index(marks, labels.SHORT_REPLICA), world.owner
    if index is None or index in selected_replicas(owner):
        return True
    if index >= owner.spec.replicas:
        return False
    name, place = marks.get(labels.SHORT_GROUP), _index(marks, labels.SHORT_GROUP_REPLICA)
    return name is None or place is None or place < _group_replicas(name, world)


def _index(marks: Mapping[str, str], key: str) -> int | None:
    """The number in a label; None where somebody has put something else."""
    text = marks.get(key, "")
    return int(text) if text.isascii() and text.isdigit() else None


def _group_replicas(name: str, world: Unclaimed) -> int:
    """As somebody scaled the group, or as the template has it while there is none."""
    for group in world.groups:
        if group.metadata.labels.get(labels.SHORT_GROUP) == name:
            return group.spec.replicas
    configs = world.owner.spec.template.pod_clique_scaling_groups
    return next((config.initial_replicas for config in configs if config.name == name), 0)
