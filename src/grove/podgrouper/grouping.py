"""A PodGroup as a value, before and beside what the cluster holds of it.

A Grouping says everything the pod-grouper wants of one PodGroup. `body` renders it for server-side apply, and keeps
what others decide once the group exists: its queue, its queue label and its node pool stay as they were created.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import msgspec

from grove.api.meta import ObjectMeta
from grove.podgrouper.kinds import NODE_POOL_LABEL, POD_GROUPS, PodGroup, PodGroupSpec
from grove.schedulers import kai

LONGEST_NAME = 253


@dataclass(frozen=True, slots=True)
class Owner:
    """The object that a PodGroup derives from. `spec` and `status` are read by a few kinds only."""

    api_version: str
    kind: str
    metadata: ObjectMeta
    spec: Mapping[str, Any] = field(default_factory=dict)
    status: Mapping[str, Any] = field(default_factory=dict)

    @property
    def group(self) -> str:
        return self.api_version.rpartition("/")[0]

    @property
    def version(self) -> str:
        return self.api_version.rpartition("/")[2]

    @property
    def name(self) -> str:
        return self.metadata.name

    @property
    def uid(self) -> str:
        return self.metadata.uid

    def reference(self) -> OwnerLink:
        return OwnerLink(self.api_version, self.kind, self.name, self.uid)


@dataclass(frozen=True, slots=True)
class OwnerLink:
    """An owner reference without flags: the group goes with its owner, and never holds the owner back."""

    api_version: str
    kind: str
    name: str
    uid: str

    def rendered(self) -> dict[str, str]:
        return {"apiVersion": self.api_version, "kind": self.kind, "name": self.name, "uid": self.uid}


@dataclass(frozen=True, slots=True)
class Topology:
    """Where pods must be together: a KAI Topology and node label keys of it."""

    name: str = ""
    required: str = ""
    preferred: str = ""

    def rendered(self) -> dict[str, str]:
        """Empty unless it can be obeyed: KAI never places a group with a topology and no level, and silently forgets a
        level without a topology. KAI 0.12 never places one whose preferred level is the required one, either; that pair
        says nothing more than the required level alone.
        """
        if not self.name or not (self.required or self.preferred):
            return {}
        preferred = "" if self.preferred == self.required else self.preferred
        found = {
            "topology": self.name,
            "requiredTopologyLevel": self.required,
            "preferredTopologyLevel": preferred,
        }
        return {key: value for key, value in found.items() if value}


@dataclass(frozen=True, slots=True)
class SubGroup:
    """A part of a PodGroup: a leaf holds pods, one that others name as parent holds leaves and has no minimum."""

    name: str
    min_member: int = 0
    parent: str = ""
    topology: Topology = Topology()

    def rendered(self) -> dict[str, Any]:
        found: dict[str, Any] = {"name": self.name}
        if self.min_member > 0:
            found["minMember"] = self.min_member
        if self.parent:
            found["parent"] = self.parent
        if topology := self.topology.rendered():
            found["topologyConstraint"] = topology
        return found


@dataclass(frozen=True, slots=True)
class Grouping:
    """One PodGroup as it should be."""

    namespace: str
    name: str
    owner: OwnerLink
    labels: Mapping[str, str]
    annotations: Mapping[str, str]
    queue: str
    priority_class_name: str
    preemptibility: str = ""
    min_member: int = 1
    topology: Topology = Topology()
    sub_groups: tuple[SubGroup, ...] = ()

    @property
    def key(self) -> str:
        return f"{self.namespace}/{self.name}"


def fitted(name: str, longest: int = LONGEST_NAME, mark: int = 10) -> str:
    """The name, cut and marked by a hash of the whole where it is too long."""
    if len(name) <= longest:
        return name
    return f"{name[: longest - mark - 1]}-{hashlib.sha256(name.encode()).hexdigest()[:mark]}"


def body(grouping: Grouping, stored: PodGroup | None) -> dict[str, Any]:
    """The PodGroup to apply; `stored` is the one that exists."""
    spec: dict[str, Any] = {
        "queue": stored.spec.queue if stored and stored.spec.queue else grouping.queue,
        "priorityClassName": grouping.priority_class_name,
    }
    if grouping.min_member > 0:
        spec["minMember"] = grouping.min_member
    if grouping.preemptibility:
        spec["preemptibility"] = grouping.preemptibility
    if topology := grouping.topology.rendered():
        spec["topologyConstraint"] = topology
    if grouping.sub_groups:
        spec["subGroups"] = [part.rendered() for part in grouping.sub_groups]
    return {
        "apiVersion": POD_GROUPS.api_version,
        "kind": POD_GROUPS.kind,
        "metadata": {
            "name": grouping.name,
            "namespace": grouping.namespace,
            "labels": _labels(grouping, stored),
            "annotations": dict(grouping.annotations),
            "ownerReferences": [grouping.owner.rendered()],
        },
        "spec": spec,
    }


def _labels(grouping: Grouping, stored: PodGroup | None) -> dict[str, str]:
    labels = dict(grouping.labels)
    if stored is None:
        return labels
    kept = stored.metadata.labels
    labels.pop(NODE_POOL_LABEL, None)
    for key in (NODE_POOL_LABEL, kai.QUEUE_LABEL):
        if key in kept:
            labels[key] = kept[key]
    return labels


def in_step(stored: PodGroup, wanted: Mapping[str, Any]) -> bool:
    """Whether the stored group already says what `wanted` (a `body`) says. Labels of others do not count."""
    meta, wanted_meta = stored.metadata, wanted["metadata"]
    if not _holds(meta.labels, wanted_meta["labels"]) or not _holds(meta.annotations, wanted_meta["annotations"]):
        return False
    owners = [
        {"apiVersion": o.api_version, "kind": o.kind, "name": o.name, "uid": o.uid} for o in meta.owner_references
    ]
    return owners == wanted_meta["ownerReferences"] and stored.spec == msgspec.convert(wanted["spec"], PodGroupSpec)


def _holds(stored: Mapping[str, str], wanted: Mapping[str, str]) -> bool:
    return wanted.items() <= stored.items()
