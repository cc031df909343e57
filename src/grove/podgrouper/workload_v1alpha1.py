"""The Workload API of Kubernetes 1.35: a pod names a Workload, one of its pod groups and a replica key."""

from __future__ import annotations

import msgspec

from grove.api.core import Pod
from grove.api.meta import Model, ObjectMeta
from grove.api.reasons import Reason
from grove.plan.actions import Why
from grove.podgrouper.grouping import OwnerLink
from grove.podgrouper.workload import Claim, Terms
from grove.runtime.resource import Resource


class Gang(Model, gc=False):
    min_count: int = 1


class Policy(Model):
    """A gang, or else pods each for themselves."""

    gang: Gang | None = None


class WorkloadPodGroup(Model):
    name: str
    policy: Policy = msgspec.field(default_factory=Policy)


class WorkloadSpec(Model):
    pod_groups: list[WorkloadPodGroup] = []


class Workload(Model):
    metadata: ObjectMeta
    spec: WorkloadSpec = msgspec.field(default_factory=WorkloadSpec)


WORKLOADS = Resource("scheduling.k8s.io", "v1alpha1", "workloads", "Workload", Workload)


def claim(pod: Pod) -> Claim | None:
    ref = pod.spec.workload_ref
    if ref is None:
        return None
    return Claim(f"{pod.metadata.namespace}/{ref.name}", ref.name, ref.pod_group, ref.pod_group_replica_key)


def terms(claim: Claim, workload: Workload | None) -> Terms | Why:
    """What the Workload says about the claimed group, or what is missing."""
    if workload is None or workload.metadata.terminating:
        return Why(Reason.WORKLOAD_MISSING, f"Workload {claim.workload} does not exist")
    group = next((group for group in workload.spec.pod_groups if group.name == claim.group), None)
    if group is None:
        message = f"Workload {claim.workload} has no pod group {claim.group}"
        return Why(Reason.WORKLOAD_GROUP_MISSING, message)
    meta, gang = workload.metadata, group.policy.gang
    return Terms(
        claim,
        OwnerLink(WORKLOADS.api_version, WORKLOADS.kind, meta.name, meta.uid),
        gang.min_count if gang else None,
        meta.labels,
        meta.annotations,
    )
