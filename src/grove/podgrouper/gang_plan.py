"""What to write for one PodGang: its PodGroup, then the marks of pods that lack them."""

from __future__ import annotations

from collections.abc import Container, Sequence
from dataclasses import dataclass

from grove.api.core import Pod
from grove.api.kinds import POD_GANGS
from grove.api.pod_gang import PodGang
from grove.api.reasons import Reason
from grove.plan.actions import Action, Apply, Plan, Wait, Why
from grove.podgrouper.grouping import Grouping, body, in_step
from grove.podgrouper.inheritance import Surroundings
from grove.podgrouper.kinds import POD_GROUPS, PodGroup
from grove.podgrouper.marks import mark
from grove.podgrouper.pod_gang import gang_grouping, part_of, schedules_with_kai
from grove.podgrouper.workload import asks_for_workload
from grove.schedulers import kai


@dataclass(frozen=True, slots=True)
class GangWorld:
    """What is known about a gang; `pods` are those that exist and stay, `first` is the first of them in its order."""

    gang: PodGang
    first: Pod | None
    pods: Sequence[Pod]
    stored: PodGroup | None
    around: Surroundings


def plan_gang(world: GangWorld) -> Plan:
    """Nothing before the first pod: only a pod can say what the gang leaves open, and the queue is set once."""
    gang, first = world.gang, world.first
    if gang.metadata.terminating or first is None or not schedules_with_kai(gang, first):
        return Plan()
    grouping = gang_grouping(gang, first, world.around)
    if isinstance(grouping, Why):
        return Plan(waits=(Wait(f"{POD_GANGS.kind}/{gang.metadata.name}", grouping),))
    return Plan(stages=tuple(stage for stage in (group_writes(grouping, world.stored), _repairs(world)) if stage))


def group_writes(grouping: Grouping, stored: PodGroup | None) -> tuple[Action, ...]:
    """The write that makes or corrects a PodGroup, if one is needed."""
    wanted = body(grouping, stored)
    if stored is None:
        why = Why(Reason.GROUP_MISSING, f"PodGroup {grouping.name} does not exist")
    elif in_step(stored, wanted):
        return ()
    else:
        why = Why(Reason.GROUP_CHANGED, f"PodGroup {grouping.name} differs from what {grouping.owner.kind} says")
    return (Apply(POD_GROUPS, wanted, why),)


def _repairs(world: GangWorld) -> tuple[Action, ...]:
    """Pods are made with their marks; whoever took one off, or made the pod without, is corrected here."""
    gang = world.gang
    group = kai.pod_group_name(gang.metadata.name, gang.metadata.uid)
    parts = {each.name for each in gang.spec.podgroups}
    found: list[Action] = []
    for pod in world.pods:
        if pod.spec.scheduler_name != kai.NAME or asks_for_workload(pod) or _marked(pod, group, parts):
            continue
        part = part_of(gang, pod)
        patch = mark(pod, group, part) if part else None
        if patch:
            found.append(patch)
    return tuple(found)


def _marked(pod: Pod, group: str, parts: Container[str]) -> bool:
    """Whether the scheduler finds the pod; if not, it is worth looking up which part of the gang it is."""
    meta = pod.metadata
    return meta.annotations.get(kai.POD_GROUP_ANNOTATION) == group and meta.labels.get(kai.SUBGROUP_LABEL, "") in parts
