"""PodGang → Workload, for the gang plugin of Kubernetes' own scheduler (1.35).

The pod groups of a Workload are gangs apart from each other, so a PodGang becomes a Workload with one pod group, and
its minimum is one number for all pods alike:
- a gang with one pod group has exactly its minimum;
- a gang whose every pod is required has the number of its pods;
- a gang of several pod groups of which one has more pods than it needs cannot be said: the plugin could take the spare
  pods of one group for the missing ones of another. It is refused, and so is packing that is required;
- packing that is only preferred is left out, and `unexpressed` says so: an event tells it with the Workload.
The pod groups of a Workload never change: a gang with another minimum needs the Workload deleted and made anew.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from grove.api.kinds import POD_GANGS
from grove.api.meta import Model, ObjectMeta
from grove.api.pod_gang import GangTopologyConstraint, PodGang
from grove.api.reasons import Reason
from grove.runtime.resource import Resource

API_VERSION = "scheduling.k8s.io/v1alpha1"
KIND = "Workload"
POD_GROUP = "gang"


class Workload(Model):
    """A Workload as the operator compares it: who it is and which pod groups it has."""

    metadata: ObjectMeta
    spec: dict[str, Any] = {}


WORKLOADS = Resource("scheduling.k8s.io", "v1alpha1", "workloads", KIND, Workload)


@dataclass(frozen=True, slots=True)
class Refusal:
    """What about a gang this scheduler cannot be told."""

    reason: Reason
    message: str


def workload_ref(gang_name: str) -> dict[str, str]:
    """What a pod of this gang carries as `spec.workloadRef`."""
    return {"name": gang_name, "podGroup": POD_GROUP}


def workload_for(gang: PodGang) -> dict[str, Any] | Refusal:
    """The Workload of a gang, or why there can be none."""
    name, groups = gang.metadata.name, gang.spec.podgroups
    if any(required for _, required, _ in _packing(gang)):
        where = next(place for place, required, _ in _packing(gang) if required)
        return _refusal(gang, f"{where} requires packing, which only a topology-aware scheduler can obey")
    spare = [group.name for group in groups if len(group.pod_references) > group.min_replicas]
    if len(groups) > 1 and spare:
        return _refusal(gang, f"{', '.join(spare)} may run with fewer pods than asked for, beside other pod groups")
    minimum = sum(group.min_replicas for group in groups)
    policy: dict[str, Any] = {"gang": {"minCount": minimum}} if minimum > 0 else {"basic": {}}
    owner = {"apiVersion": POD_GANGS.api_version, "kind": POD_GANGS.kind, "name": name, "uid": gang.metadata.uid}
    return {
        "apiVersion": API_VERSION,
        "kind": KIND,
        "metadata": {
            "name": name,
            "namespace": gang.metadata.namespace,
            "labels": dict(gang.metadata.labels),
            "ownerReferences": [{**owner, "controller": True, "blockOwnerDeletion": True}],
        },
        "spec": {
            "controllerRef": {"apiGroup": POD_GANGS.group, "kind": POD_GANGS.kind, "name": name},
            "podGroups": [{"name": POD_GROUP, "policy": policy}],
        },
    }


def unexpressed(gang: PodGang) -> Refusal | None:
    """Wishes that the Workload leaves out, to be reported; None where it says all."""
    places = [place for place, _, preferred in _packing(gang) if preferred]
    if not places:
        return None
    return _refusal(gang, f"{', '.join(places)} would rather be packed, which this scheduler does not know")


def _refusal(gang: PodGang, problem: str) -> Refusal:
    return Refusal(Reason.GANG_INEXPRESSIBLE, f"PodGang {gang.metadata.name}: {problem}")


def _packing(gang: PodGang) -> Iterator[tuple[str, bool, bool]]:
    """Each part of the gang, whether packing is required there, and whether it is preferred."""
    spec = gang.spec
    yield "the gang", *_levels(spec.topology_constraint)
    for config in spec.topology_constraint_group_configs:
        yield config.name, *_levels(config.topology_constraint)
    for group in spec.podgroups:
        yield group.name, *_levels(group.topology_constraint)


def _levels(constraint: GangTopologyConstraint | None) -> tuple[bool, bool]:
    pack = constraint.pack_constraint if constraint else None
    return (bool(pack.required), bool(pack.preferred)) if pack else (False, False)
