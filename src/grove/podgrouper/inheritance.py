"""What a PodGroup takes over from the object its pods derive from, and from a pod where that object is silent.

- labels and annotations: all of the owner's; a `user` of the pod where the owner names none;
- queue: the owner's label, the pod's, the `project` label of either, else KAI's default queue;
- priority: the owner's label, the pod's label, the pod's own class, if that class exists; else the kind's default;
- preemptibility: the owner's label, else the pod's; a value KAI does not know counts as none;
- topology: the owner's three annotations, taken together.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import lru_cache

from grove.api.core import Pod
from grove.api.meta import ObjectMeta
from grove.podgrouper.grouping import Grouping, Owner, Topology
from grove.podgrouper.kinds import (
    DEFAULT_QUEUE,
    NODE_POOL_LABEL,
    PREEMPTIBILITIES,
    PREEMPTIBILITY_LABEL,
    PRIORITY_LABEL,
    PROJECT_LABEL,
    TOP_OWNER,
    TOPOLOGY,
    TOPOLOGY_PREFERRED,
    TOPOLOGY_REQUIRED,
    TRAIN,
    USER_KEY,
)
from grove.schedulers import kai


@dataclass(frozen=True, slots=True)
class KindDefaults:
    """What an administrator set for pods of one kind of owner."""

    priority_class_name: str = ""
    preemptibility: str = ""


@dataclass(frozen=True, slots=True)
class Surroundings:
    """Facts about the cluster that a grouping depends on. `kinds` is keyed by `Kind.group` or `Kind`."""

    priority_classes: frozenset[str] = frozenset()
    kinds: Mapping[str, KindDefaults] = field(default_factory=dict)

    def defaults(self, owner: Owner) -> KindDefaults:
        named = self.kinds.get(f"{owner.kind}.{owner.group}") if owner.group else None
        return named or self.kinds.get(owner.kind) or KindDefaults()


def inherited(owner: Owner, pod: Pod, around: Surroundings, priority: str = TRAIN) -> Grouping:
    """The PodGroup every kind starts from: one for all pods of the owner, each pod for itself."""
    labels = group_labels(owner.metadata, pod)
    return Grouping(
        namespace=pod.metadata.namespace,
        name=f"pg-{owner.name}-{owner.uid}",
        owner=owner.reference(),
        labels=labels,
        annotations=group_annotations(owner, pod),
        queue=queue(owner.metadata.labels, pod),
        priority_class_name=priority_class(owner, pod, around, priority),
        preemptibility=preemptibility(owner, pod, around),
        topology=annotated_topology(owner.metadata.annotations),
    )


def group_labels(owner: ObjectMeta, pod: Pod) -> dict[str, str]:
    labels = dict(owner.labels)
    for key in (USER_KEY, NODE_POOL_LABEL):
        if key not in labels and key in pod.metadata.labels:
            labels[key] = pod.metadata.labels[key]
    return labels


def group_annotations(owner: Owner, pod: Pod) -> dict[str, str]:
    user = pod.metadata.annotations.get(USER_KEY)
    own = {USER_KEY: user} if user is not None else {}
    return {
        **own,
        TOP_OWNER: _identity(owner.name, owner.uid, owner.api_version, owner.kind),
        **owner.metadata.annotations,
    }


def queue(owner_labels: Mapping[str, str], pod: Pod) -> str:
    """The queue named first; an empty name counts as named, as it does for KAI."""
    pod_labels = pod.metadata.labels
    for labels in (owner_labels, pod_labels):
        if kai.QUEUE_LABEL in labels:
            return labels[kai.QUEUE_LABEL]
    project = owner_labels[PROJECT_LABEL] if PROJECT_LABEL in owner_labels else pod_labels.get(PROJECT_LABEL)
    if not project:
        return DEFAULT_QUEUE
    pool = pod_labels.get(NODE_POOL_LABEL)
    return project if pool is None else f"{project}-{pool}"


def priority_class(owner: Owner, pod: Pod, around: Surroundings, default: str) -> str:
    owner_labels, pod_labels = owner.metadata.labels, pod.metadata.labels
    if PRIORITY_LABEL in owner_labels:
        named = owner_labels[PRIORITY_LABEL]
    else:
        named = pod_labels.get(PRIORITY_LABEL, pod.spec.priority_class_name)
    for candidate in (named, around.defaults(owner).priority_class_name):
        if candidate and candidate in around.priority_classes:
            return candidate
    return default


def preemptibility(owner: Owner, pod: Pod, around: Surroundings) -> str:
    for labels in (owner.metadata.labels, pod.metadata.labels):
        if PREEMPTIBILITY_LABEL in labels:
            value = labels[PREEMPTIBILITY_LABEL]
            if not value or value in PREEMPTIBILITIES:
                return value
            break
    default = around.defaults(owner).preemptibility.lower()
    return default if default in PREEMPTIBILITIES else ""


def annotated_topology(annotations: Mapping[str, str]) -> Topology:
    return Topology(
        annotations.get(TOPOLOGY, ""), annotations.get(TOPOLOGY_REQUIRED, ""), annotations.get(TOPOLOGY_PREFERRED, "")
    )


@lru_cache(maxsize=4096)
def _identity(name: str, uid: str, api_version: str, kind: str) -> str:
    """Who the owner is, in the YAML that KAI's other parts read."""
    group, _, version = api_version.rpartition("/")
    facts = {"name": name, "uid": uid, "group": group, "version": version, "kind": kind}
    return "".join(f"{key}: {_scalar(value)}\n" for key, value in facts.items())


_NOT_TEXT = re.compile(
    r"[-+.]?[0-9][0-9._]*([eE][-+]?[0-9]+)?|0[xob][0-9a-f_]+|\.inf|\.nan|[0-9]{4}-[0-9]{1,2}-[0-9]{1,2}"
    r"|y|n|yes|no|on|off|true|false|null|~|",
    re.IGNORECASE,
)


def _scalar(text: str) -> str:
    """Quoted where a YAML reader would take it for something other than text."""
    return f'"{text}"' if _NOT_TEXT.fullmatch(text) else text
