"""The Workload API of Kubernetes 1.36: a pod names a PodGroup of Kubernetes' own, which carries the policy itself.

Each of them becomes one KAI PodGroup of the same name; replica keys are gone. The Workload it was made from, if it
names one, may still carry queue, priority and topology, below the PodGroup's own.
"""

from __future__ import annotations

import msgspec

from grove.api.core import Pod
from grove.api.meta import Model, ObjectMeta
from grove.api.reasons import Reason
from grove.plan.actions import Why
from grove.podgrouper.grouping import OwnerLink
from grove.podgrouper.workload import Claim, Terms
from grove.podgrouper.workload_v1alpha1 import Policy
from grove.runtime.resource import Resource


class WorkloadTemplate(Model, gc=False):
    workload_name: str = ""


class TemplateReference(Model):
    workload: WorkloadTemplate | None = None


class NativePodGroupSpec(Model):
    pod_group_template_ref: TemplateReference | None = None
    scheduling_policy: Policy = msgspec.field(default_factory=Policy)


class NativePodGroup(Model):
    metadata: ObjectMeta
    spec: NativePodGroupSpec = msgspec.field(default_factory=NativePodGroupSpec)

    @property
    def workload_name(self) -> str:
        origin = self.spec.pod_group_template_ref
        return origin.workload.workload_name if origin and origin.workload else ""


class WorkloadTemplates(Model):
    """A Workload, of which only labels and annotations matter here."""

    metadata: ObjectMeta


NATIVE_POD_GROUPS = Resource("scheduling.k8s.io", "v1alpha2", "podgroups", "PodGroup", NativePodGroup)
WORKLOAD_TEMPLATES = Resource("scheduling.k8s.io", "v1alpha2", "workloads", "Workload", WorkloadTemplates)


def claim(pod: Pod) -> Claim | None:
    group = pod.spec.scheduling_group
    if group is None or not group.pod_group_name:
        return None
    # The group stands for itself: there is no Workload whose name would have to be part of its own.
    return Claim(f"{pod.metadata.namespace}/{group.pod_group_name}", "", group.pod_group_name)


def terms(claim: Claim, group: NativePodGroup | None, workload: WorkloadTemplates | None) -> Terms | Why:
    """What the PodGroup says, or that it is missing."""
    if group is None or group.metadata.terminating:
        return Why(Reason.WORKLOAD_MISSING, f"PodGroup {claim.group} ({NATIVE_POD_GROUPS.api_version}) does not exist")
    meta, gang = group.metadata, group.spec.scheduling_policy.gang
    of_workload = workload.metadata if workload else ObjectMeta()
    return Terms(
        claim,
        OwnerLink(NATIVE_POD_GROUPS.api_version, NATIVE_POD_GROUPS.kind, meta.name, meta.uid),
        gang.min_count if gang else None,
        {**of_workload.labels, **meta.labels},
        {**of_workload.annotations, **meta.annotations},
    )
