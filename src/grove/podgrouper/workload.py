"""The Workload layer: what a Workload says about a pod goes over what the pod's owners say.

- each pod group of a Workload, and each replica key of it, is a PodGroup of its own, without subgroups;
- gang: the minimum is minCount; basic: 1, and all replica keys share one PodGroup;
- queue, priority, preemptibility: the Workload's label, else what owner and pod say; topology: the Workload's three
  annotations together, else the owner's; labels and annotations are merged and the Workload's win;
- the group belongs to the pod's top owner, or to the Workload once pods of different owners share it;
- `kai.scheduler/ignore-workload-api: "true"` on the pod or its top owner leaves the pod to its owners.
How a pod and a Workload say all this differs between Kubernetes versions: that is read elsewhere, into `Claim` and
`Terms`.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

import msgspec

from grove.api.core import Pod
from grove.api.reasons import Reason
from grove.plan.actions import Why
from grove.podgrouper.grouping import Grouping, Owner, OwnerLink, Topology, fitted
from grove.podgrouper.inheritance import Surroundings, annotated_topology
from grove.podgrouper.kinds import PREEMPTIBILITIES, PREEMPTIBILITY_LABEL, PRIORITY_LABEL, PodGroup
from grove.schedulers import kai

IGNORE = "kai.scheduler/ignore-workload-api"
RECORD = "grove.io/workload-pod-group"
_TAG = 8


@dataclass(frozen=True, slots=True)
class Claim:
    """The group a pod says it belongs to. `source` is the object that has the answer, `namespace/name`.

    `tag` is added to the PodGroup's name where names must differ between namespaces.
    """

    source: str
    workload: str
    group: str
    key: str = ""
    tag: str = ""

    def tagged(self) -> Claim:
        """The same claim under a name that no other namespace gives."""
        namespace = self.source.partition("/")[0]
        return replace(self, tag=hashlib.sha256(namespace.encode()).hexdigest()[:_TAG])


@dataclass(frozen=True, slots=True)
class Terms:
    """What that group is: a gang with a minimum, or (None) pods each for themselves."""

    claim: Claim
    owner: OwnerLink
    minimum: int | None
    labels: Mapping[str, str] = field(default_factory=dict)
    annotations: Mapping[str, str] = field(default_factory=dict)

    @property
    def key(self) -> str:
        """The replica key, where keys divide the group."""
        return self.claim.key if self.minimum is not None else ""

    @property
    def name(self) -> str:
        return group_name(self.claim, keyed=self.minimum is not None)


class Record(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    """For whom a PodGroup was made. The parts of its name do not tell: `a-b` of `c` and `b-c` of `a` look alike."""

    workload: str
    pod_group: str
    replica_key: str = ""
    uid: str = ""

    def same_group(self, other: Record) -> bool:
        """A Workload that was made anew is a new object and the same group."""
        return (self.workload, self.pod_group, self.replica_key) == (other.workload, other.pod_group, other.replica_key)

    def __str__(self) -> str:
        key = f", replica key {self.replica_key}" if self.replica_key else ""
        return f"pod group {self.pod_group}{key} of Workload {self.workload}"


def asks_for_workload(pod: Pod) -> bool:
    """Whether the pod itself wants to be grouped by a Workload; its top owner may still opt out."""
    spec = pod.spec
    refers = spec.workload_ref is not None or spec.scheduling_group is not None
    return refers and pod.metadata.annotations.get(IGNORE) != "true"


def opted_out(pod: Pod, top: Owner) -> bool:
    return "true" in (pod.metadata.annotations.get(IGNORE), top.metadata.annotations.get(IGNORE))


def group_name(claim: Claim, *, keyed: bool) -> str:
    """`workload-group-key`, cut and marked where it would not fit into a name."""
    parts = [part for part in (claim.workload, claim.group, claim.key if keyed else "", claim.tag) if part]
    return fitted("-".join(parts))


def possible_names(claim: Claim) -> frozenset[str]:
    """The groups this claim may lead to or have led to, whatever the policy is and however names are made."""
    claims = (claim, replace(claim, tag=""), claim.tagged())
    return frozenset(group_name(each, keyed=keyed) for each in claims for keyed in (True, False))


def with_terms(base: Grouping, terms: Terms, top: Owner, around: Surroundings) -> Grouping:
    """The owners' grouping with the Workload's word over it."""
    labels = terms.labels
    topology = annotated_topology(terms.annotations)
    record = _record(terms)
    return replace(
        base,
        name=terms.name,
        owner=top.reference(),
        labels={**base.labels, **labels},
        annotations={**base.annotations, **terms.annotations, RECORD: msgspec.json.encode(record).decode()},
        queue=labels.get(kai.QUEUE_LABEL) or base.queue,
        priority_class_name=_known(labels.get(PRIORITY_LABEL, ""), around) or base.priority_class_name,
        preemptibility=_valid(labels.get(PREEMPTIBILITY_LABEL, "")) or base.preemptibility,
        min_member=1 if terms.minimum is None else terms.minimum,
        topology=base.topology if topology == Topology() else topology,
        sub_groups=(),
    )


def settled(grouping: Grouping, terms: Terms, stored: PodGroup | None) -> Grouping | Why:
    """The grouping in view of the group that exists: refused if that is another's, shared if other owners use it."""
    if stored is None:
        return grouping
    written, wanted = recorded(stored), _record(terms)
    if written is None or not written.same_group(wanted):
        whose = f"is of {written}" if written else "was not made for a Workload"
        message = f"PodGroup {grouping.name}, the name for {wanted}, exists and {whose}"
        return Why(Reason.GROUP_NAME_TAKEN, message)
    if any(owner.uid != grouping.owner.uid for owner in stored.metadata.owner_references):
        return replace(grouping, owner=terms.owner)
    return grouping


def recorded(stored: PodGroup) -> Record | None:
    """For whom a stored PodGroup was made, if for a Workload."""
    noted = stored.metadata.annotations.get(RECORD)
    if noted is None:
        return None
    try:
        return msgspec.json.decode(noted, type=Record)
    except msgspec.MsgspecError:
        return None


def _record(terms: Terms) -> Record:
    return Record(terms.claim.workload, terms.claim.group, terms.key, terms.owner.uid)


def _known(name: str, around: Surroundings) -> str:
    return name if name in around.priority_classes else ""


def _valid(value: str) -> str:
    return value if value in PREEMPTIBILITIES else ""
