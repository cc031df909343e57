"""Other projects' kinds that grouping reads or writes, projected to the fields it needs: KAI's PodGroup, Kubernetes'
Workload and PriorityClass. Keys and default values are KAI's own vocabulary.
"""

from __future__ import annotations

from typing import Any

import msgspec

from grove.api.meta import Model, ObjectMeta
from grove.runtime.resource import Resource

FIELD_MANAGER = "grove-pod-grouper"

# Labels.
PRIORITY_LABEL = "priorityClassName"
PREEMPTIBILITY_LABEL = "kai.scheduler/preemptibility"
NODE_POOL_LABEL = "kai.scheduler/node-pool"
PROJECT_LABEL = "project"
USER_KEY = "user"  # a label and an annotation

# Annotations.
TOPOLOGY = "kai.scheduler/topology"
TOPOLOGY_REQUIRED = "kai.scheduler/topology-required-placement"
TOPOLOGY_PREFERRED = "kai.scheduler/topology-preferred-placement"
TOP_OWNER = "kai.scheduler/top-owner-metadata"

DEFAULT_QUEUE = "default-queue"
TRAIN = "train"
BUILD = "build"
INFERENCE = "inference"
PREEMPTIBILITIES = frozenset({"preemptible", "non-preemptible"})


class PodGroupSpec(Model):
    """What of a stored PodGroup is ours to compare, plus the queue, which stays as it was created."""

    min_member: int = 0
    queue: str = ""
    priority_class_name: str = ""
    preemptibility: str = ""
    topology_constraint: dict[str, Any] = {}
    sub_groups: list[dict[str, Any]] = []


class PodGroup(Model):
    """KAI's PodGroup."""

    metadata: ObjectMeta
    spec: PodGroupSpec = msgspec.field(default_factory=PodGroupSpec)


class PriorityClass(Model):
    metadata: ObjectMeta


POD_GROUPS = Resource("scheduling.run.ai", "v2alpha2", "podgroups", "PodGroup", PodGroup)
PRIORITY_CLASSES = Resource(
    "scheduling.k8s.io", "v1", "priorityclasses", "PriorityClass", PriorityClass, namespaced=False
)
