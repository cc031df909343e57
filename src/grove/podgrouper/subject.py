"""Who is to be grouped: a pod, the owners above it, and what else of the cluster counts."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import msgspec

from grove.api.core import Pod
from grove.api.meta import OwnerReference
from grove.api.reasons import Reason
from grove.plan.actions import Why
from grove.podgrouper.grouping import Grouping, Owner
from grove.podgrouper.inheritance import Surroundings
from grove.schedulers import kai

_NOTES_OF_SCHEDULING = frozenset({kai.POD_GROUP_ANNOTATION, kai.RECEIVED_RESOURCES_ANNOTATION})
# The API server copies the last two from the node when a pod is bound.
_LABELS_OF_SCHEDULING = frozenset({kai.SUBGROUP_LABEL, "topology.kubernetes.io/zone", "topology.kubernetes.io/region"})


def pod_as_owner(pod: Pod) -> Owner:
    """The pod as what its group derives from, without what is written on it because it has a group or a node."""
    meta = pod.metadata
    if not _NOTES_OF_SCHEDULING.isdisjoint(meta.annotations) or not _LABELS_OF_SCHEDULING.isdisjoint(meta.labels):
        annotations = {key: value for key, value in meta.annotations.items() if key not in _NOTES_OF_SCHEDULING}
        labels = {key: value for key, value in meta.labels.items() if key not in _LABELS_OF_SCHEDULING}
        meta = msgspec.structs.replace(meta, annotations=annotations, labels=labels)
    return Owner("v1", "Pod", meta)


@dataclass(frozen=True, slots=True)
class Subject:
    """A pod and its readable owners, nearest first. `peer_roles` are the roles of the pods of the same training job."""

    pod: Pod
    owners: tuple[Owner, ...] = ()
    around: Surroundings = Surroundings()
    peer_roles: frozenset[str] = frozenset()

    @property
    def top(self) -> Owner:
        """The highest readable owner; a pod without one stands for itself."""
        return self.owners[-1] if self.owners else pod_as_owner(self.pod)

    def below(self, top: Owner | None = None) -> Subject:
        """The same pod as if its top owner were not there; `top` stands for the one that is highest then."""
        rest = self.owners[:-1]
        return replace(self, owners=rest if top is None else (*rest[:-1], top))

    def ancestor(self, kind: str, group: str) -> Owner | None:
        return next((owner for owner in self.owners if owner.kind == kind and owner.group == group), None)


Family = Callable[[Subject], Grouping | Why]


def next_owner(references: Sequence[OwnerReference], of: str) -> OwnerReference | Why | None:
    """Whom to ask next on the way up: the controller, else the only owner. Nobody speaks for several equals."""
    controller = next((ref for ref in references if ref.controller), None)
    if controller is not None or len(references) <= 1:
        return controller or (references[0] if references else None)
    listed = ", ".join(f"{ref.kind} {ref.name}" for ref in references)
    return Why(Reason.OWNERS_SEVERAL, f"{of} is owned by {listed}, and none of them is its controller")


def first_owner(pod: Pod) -> OwnerReference | None:
    """The pod's controller, else the owner it names first."""
    references = pod.metadata.owner_references
    return pod.metadata.controller or (references[0] if references else None)


def at(value: Any, *path: str) -> Any:
    """What stands at this path of an owner's spec; None where any part of it is missing or of another form."""
    for name in path:
        value = value.get(name) if isinstance(value, dict) else None
    return value


def count(value: Any) -> int | None:
    """A number of pods, where there is one."""
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def unreadable(owner: Owner, problem: str) -> Why:
    return Why(Reason.OWNER_UNREADABLE, f"{owner.kind} {owner.name}: {problem}")
