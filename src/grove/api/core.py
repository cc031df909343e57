"""Kubernetes' own kinds, projected to the fields this product reads.

Never write one of these back: it would drop the rest.
"""

from __future__ import annotations

from typing import Any

import msgspec

from grove.api.meta import Condition, Model, ObjectMeta


class NamedGate(Model, gc=False):
    name: str = ""


class WorkloadReference(Model, gc=False):
    """The pod group of a Workload that a pod belongs to (Kubernetes 1.35)."""

    name: str = ""
    pod_group: str = ""
    pod_group_replica_key: str = ""


class SchedulingGroup(Model, gc=False):
    """The PodGroup of Kubernetes' own that a pod belongs to (from Kubernetes 1.36)."""

    pod_group_name: str = ""


class PodSpecView(Model):
    node_name: str = ""
    scheduler_name: str = ""
    scheduling_gates: list[NamedGate] = []
    priority_class_name: str = ""
    termination_grace_period_seconds: int | None = None
    workload_ref: WorkloadReference | None = None
    scheduling_group: SchedulingGroup | None = None


class Terminated(Model, gc=False):
    exit_code: int = 0
    reason: str = ""
    message: str = ""


class Waiting(Model, gc=False):
    reason: str = ""
    message: str = ""


class ContainerState(Model):
    waiting: Waiting | None = None
    terminated: Terminated | None = None


class ContainerStatus(Model):
    name: str = ""
    ready: bool = False
    started: bool | None = None
    restart_count: int = 0
    state: ContainerState | None = None
    last_state: ContainerState | None = None


class PodStatus(Model):
    phase: str = ""
    reason: str = ""
    message: str = ""
    conditions: list[Condition] = []
    container_statuses: list[ContainerStatus] = []
    init_container_statuses: list[ContainerStatus] = []


class Pod(Model):
    metadata: ObjectMeta
    spec: PodSpecView = msgspec.field(default_factory=PodSpecView)
    status: PodStatus = msgspec.field(default_factory=PodStatus)


class ServiceSpec(Model):
    cluster_ip: str = msgspec.field(default="", name="clusterIP")
    publish_not_ready_addresses: bool = False
    selector: dict[str, str] = {}


class Service(Model):
    metadata: ObjectMeta
    spec: ServiceSpec = msgspec.field(default_factory=ServiceSpec)


class ServiceAccount(Model):
    metadata: ObjectMeta


class Role(Model):
    metadata: ObjectMeta
    rules: list[dict[str, Any]] = []


class RoleBinding(Model):
    metadata: ObjectMeta
    role_ref: dict[str, Any] = {}
    subjects: list[dict[str, Any]] = []


class AutoscalerSpec(Model):
    scale_target_ref: dict[str, Any] = {}
    min_replicas: int | None = None
    max_replicas: int = 0
    metrics: list[dict[str, Any]] = []


class Autoscaler(Model):
    """A HorizontalPodAutoscaler."""

    metadata: ObjectMeta
    spec: AutoscalerSpec = msgspec.field(default_factory=AutoscalerSpec)


class ControllerRevision(Model):
    """A kept version of a PodCliqueSet's pod templates."""

    metadata: ObjectMeta
    revision: int = 0
    data: dict[str, Any] = {}


class NodeSpec(Model):
    unschedulable: bool = False
    taints: list[dict[str, Any]] = []


class NodeStatus(Model):
    allocatable: dict[str, str] = {}
    conditions: list[Condition] = []


class Node(Model):
    metadata: ObjectMeta
    spec: NodeSpec = msgspec.field(default_factory=NodeSpec)
    status: NodeStatus = msgspec.field(default_factory=NodeStatus)
