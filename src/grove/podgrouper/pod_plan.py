"""Where one pod belongs, and what has to be written for it: first its PodGroup, then the pod's marks.

The owners' word comes first and a Workload's goes over it. A group that exists is described by one of its pods only, so
that pods which differ (in priority, in user) do not rewrite it in turns; any pod may make it.
"""

from __future__ import annotations

from dataclasses import dataclass

from grove.api import labels
from grove.api.core import Pod
from grove.api.kinds import POD_GANGS
from grove.api.pod_gang import PodGang
from grove.api.reasons import Reason
from grove.plan.actions import Action, Delete, Patch, Why
from grove.podgrouper.gang_plan import group_writes
from grove.podgrouper.grouping import Grouping, fitted
from grove.podgrouper.kinds import POD_GROUPS, TOP_OWNER, PodGroup
from grove.podgrouper.marks import unmark
from grove.podgrouper.owners.default import one_group
from grove.podgrouper.owners.pod import spark_application
from grove.podgrouper.owners.table import by_owner
from grove.podgrouper.pod_gang import gang_of, part_of
from grove.podgrouper.subject import Subject
from grove.podgrouper.workload import RECORD, Claim, Terms, possible_names, recorded, settled, with_terms
from grove.schedulers import kai


@dataclass(frozen=True, slots=True)
class Place:
    """A pod's PodGroup. A gang's PodGroup is kept elsewhere (`grouping` is None then); the pod is `part` of it."""

    namespace: str
    name: str
    grouping: Grouping | None = None
    terms: Terms | None = None
    part: str = ""

    @property
    def key(self) -> str:
        return f"{self.namespace}/{self.name}"


def placed_by_hand(pod: Pod, claim: Claim | None) -> bool:
    """Whether somebody made a PodGroup for this pod and said so on it; that counts for pods without owner only."""
    meta = pod.metadata
    named = meta.annotations.get(kai.POD_GROUP_ANNOTATION)
    if named is None or meta.owner_references:
        return False
    ours = {fitted(f"pg-{meta.name}-{meta.uid}"), fitted(spark_application(pod))}
    return named not in ours and (claim is None or named not in possible_names(claim))


def decide(subject: Subject, terms: Terms | Why | None, gang: PodGang | None = None) -> Place | Why:
    """Where the pod belongs; `terms` is None when no Workload has a say, `gang` is the PodGang the pod names."""
    namespace = subject.pod.metadata.namespace
    if isinstance(terms, Why):
        return terms
    if terms is None and gang_of(subject.pod):
        return _in_gang(subject.pod, gang)
    base = by_owner(subject)
    if terms is not None:
        # The Workload alone says how many belong together, so an owner that cannot say it does not matter.
        whole = one_group(subject) if isinstance(base, Why) else base
        base = whole if isinstance(whole, Why) else with_terms(whole, terms, subject.top, subject.around)
    return base if isinstance(base, Why) else Place(namespace, base.name, base, terms)


def _in_gang(pod: Pod, gang: PodGang | None) -> Place | Why:
    name = pod.metadata.labels[labels.POD_GANG]
    part = part_of(gang, pod) if gang else ""
    if gang is None or not part:
        problem = "does not exist" if gang is None else f"does not list pod {pod.metadata.name}"
        return Why(Reason.GANG_MISSING, f"PodGang {name} {problem}")
    return Place(pod.metadata.namespace, kai.pod_group_name(name, gang.metadata.uid), part=part)


def writes_for_group(place: Place, stored: PodGroup | None, *, describes: bool) -> tuple[Action, ...] | Why:
    """What makes or corrects the place's PodGroup, or why that name cannot be had."""
    grouping = place.grouping
    if grouping is None:
        return ()
    if place.terms is not None:
        shared = settled(grouping, place.terms, stored)
        if isinstance(shared, Why):
            return shared
        describes = describes or _new_owner(shared, grouping, stored)
        grouping = shared
    elif stored is not None and (other := recorded(stored)) is not None:
        return Why(Reason.GROUP_NAME_TAKEN, f"PodGroup {place.name} exists and is of {other}")
    return group_writes(grouping, stored) if stored is None or describes else ()


def _new_owner(shared: Grouping, own: Grouping, stored: PodGroup | None) -> bool:
    """Whether this pod is the one that shows that several owners use the group."""
    held = {owner.uid for owner in stored.metadata.owner_references} if stored else set()
    return shared.owner != own.owner and shared.owner.uid not in held


def held_back(pod: Pod, claim: Claim | None, why: Why) -> Patch | None:
    """A pod whose Workload is missing must not run alone: it leaves any group that its Workload did not give it."""
    named = pod.metadata.annotations.get(kai.POD_GROUP_ANNOTATION)
    if claim is None or named is None or pod.spec.node_name or named in possible_names(claim):
        return None
    return unmark(pod, why)


def ours(group: PodGroup) -> bool:
    """Whether a pod-grouper made this PodGroup for pods that are not a PodGang's."""
    owners = group.metadata.owner_references
    notes = group.metadata.annotations
    return (RECORD in notes or TOP_OWNER in notes) and not any(
        owner.kind == POD_GANGS.kind and owner.api_version == POD_GANGS.api_version for owner in owners
    )


def retirement(group: PodGroup) -> Delete:
    meta = group.metadata
    why = Why(Reason.GROUP_UNUSED, f"the pods of PodGroup {meta.name} belong to other groups now")
    return Delete(POD_GROUPS, meta.namespace, meta.name, meta.uid, why)
