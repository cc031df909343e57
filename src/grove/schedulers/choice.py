"""Which scheduler a gang goes to, and what that scheduler wants written on its pods."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from grove.schedulers import kai, kube
from grove.schedulers.kube_workload import workload_ref


@dataclass(frozen=True, slots=True)
class PodMarks:
    """Labels, annotations and fields of the spec that a scheduler finds a pod's gang by."""

    labels: dict[str, str] = field(default_factory=dict)
    annotations: dict[str, str] = field(default_factory=dict)
    spec: dict[str, Any] = field(default_factory=dict)


def holds_incomplete_gangs(scheduler: str, *, kube_gangs: bool) -> bool:
    """Whether the scheduler itself starts a gang only when all of its minimum is there."""
    return scheduler == kai.NAME or uses_workloads(scheduler, kube_gangs=kube_gangs)


def uses_workloads(scheduler: str, *, kube_gangs: bool) -> bool:
    """Whether gangs reach this scheduler as Workloads."""
    return kube_gangs and scheduler == kube.NAME


def pod_marks(scheduler: str, gang_name: str, gang_uid: str, pod_group: str, *, kube_gangs: bool) -> PodMarks:
    """What to write on a pod of this gang and pod group."""
    if uses_workloads(scheduler, kube_gangs=kube_gangs):
        return PodMarks(spec={"workloadRef": workload_ref(gang_name)})
    if scheduler != kai.NAME:
        return PodMarks()
    return PodMarks(
        labels={kai.SUBGROUP_LABEL: pod_group},
        annotations={kai.POD_GROUP_ANNOTATION: kai.pod_group_name(gang_name, gang_uid)},
    )
