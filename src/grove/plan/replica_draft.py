"""What one pass over a replica has found and decided so far; the steps of `plan.replica` fill it in turn."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime

from grove.api import labels, names
from grove.api.pod_clique_set import ScalingGroupConfig
from grove.plan import termination
from grove.plan.actions import Wait
from grove.plan.clique_status import CliqueFacts
from grove.plan.layout import Layout
from grove.plan.replica_pods import PodMoves
from grove.plan.rollout import Step
from grove.plan.turn import Turn
from grove.plan.views import CliqueView
from grove.plan.worlds import ReplicaWorld


@dataclass(slots=True)
class Draft:
    """What the pass has found and decided so far."""

    world: ReplicaWorld
    turn: Turn
    now: datetime
    layout: Layout
    views: dict[str, CliqueView]
    facts: dict[str, CliqueFacts] = field(default_factory=dict)
    group_steps: dict[str, Step] = field(default_factory=dict)
    rolling_groups: set[str] = field(default_factory=set)
    moves: dict[str, PodMoves] = field(default_factory=dict)
    verdict: termination.Verdict = field(default_factory=termination.Verdict)
    waits: list[Wait] = field(default_factory=list)

    def group_views(self, group: str) -> dict[int, list[CliqueView]]:
        return {j: [self.views[s.name] for s in slots] for j, slots in self.layout.members[group].items()}


def carried(world: ReplicaWorld) -> str | None:
    """The revision the replica's cliques carry: that of the first one standing."""
    for clique in world.cliques.values():
        found = clique.metadata.labels.get(labels.GENERATION_HASH)
        if found and not clique.metadata.terminating:
            return found
    return None


def group_replicas(world: ReplicaWorld, group: ScalingGroupConfig) -> int:
    """How many replicas the group should have: what its object says, once there is one."""
    name = names.scaling_group(world.owner.metadata.name, world.index, group.name)
    standing = world.groups.get(name)
    return standing.spec.replicas if standing else group.initial_replicas


def counted_groups(draft: Draft) -> dict[str, list[list[CliqueView]]]:
    """The cliques of the group replicas that are asked for, by group."""
    return {
        g.name: [vs for j, vs in draft.group_views(g.name).items() if j < group_replicas(draft.world, g)]
        for g in draft.world.owner.spec.template.pod_clique_scaling_groups
    }


def available(draft: Draft) -> bool:
    """Whether the replica is of use: every standalone clique has its minimum, and every group enough whole replicas."""
    counted = counted_groups(draft)
    return all(draft.views[slot.name].available for slot in draft.layout.standalone) and all(
        sum(all(v.available for v in vs) for vs in counted[g.name]) >= g.minimum
        for g in draft.world.owner.spec.template.pod_clique_scaling_groups
    )
