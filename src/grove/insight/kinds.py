"""Objects as questions need them: pods with what they ask for, events, KAI's verdicts, queues, quotas and claims.

Like all projections these are read only.
"""

from __future__ import annotations

from typing import Any

import msgspec

from grove.api import kinds
from grove.api.core import Pod, PodSpecView
from grove.api.meta import Model, ObjectMeta
from grove.podgrouper.kinds import PodGroup
from grove.runtime.resource import Resource


class PodRequirements(PodSpecView):
    """A pod's spec with what decides where it can go."""

    containers: list[dict[str, Any]] = []
    init_containers: list[dict[str, Any]] = []
    overhead: dict[str, Any] = {}
    node_selector: dict[str, str] = {}
    tolerations: list[dict[str, Any]] = []
    affinity: dict[str, Any] = {}
    resource_claims: list[dict[str, Any]] = []


class PodDetail(Pod):
    """A pod with what it asks for."""

    spec: PodRequirements = msgspec.field(default_factory=PodRequirements)


class Involved(Model, gc=False):
    kind: str = ""
    namespace: str = ""
    name: str = ""
    uid: str = ""


class EventSeries(Model, gc=False):
    count: int = 0
    last_observed_time: str | None = None


class EventSource(Model, gc=False):
    component: str = ""


class Event(Model):
    """Something that happened to an object, as some program told it."""

    metadata: ObjectMeta
    involved_object: Involved = msgspec.field(default_factory=Involved)
    reason: str = ""
    message: str = ""
    type: str = ""
    count: int | None = None
    first_timestamp: str | None = None
    last_timestamp: str | None = None
    event_time: str | None = None
    series: EventSeries | None = None
    reporting_component: str = ""
    source: EventSource = msgspec.field(default_factory=EventSource)

    @property
    def teller(self) -> str:
        return self.reporting_component or self.source.component

    @property
    def last_seen(self) -> str:
        """When it happened last; the forms of events say it in different places."""
        in_series = self.series.last_observed_time if self.series else None
        return in_series or self.last_timestamp or self.event_time or self.metadata.creation_timestamp or ""


class SchedulingCondition(Model, gc=False):
    """What KAI says about a group it could not place."""

    type: str = ""
    status: str = ""
    reason: str = ""
    message: str = ""
    last_transition_time: str | None = None


class KaiPodGroupStatus(Model):
    scheduling_conditions: list[SchedulingCondition] = []


class KaiPodGroup(PodGroup):
    """KAI's PodGroup with the scheduler's answer."""

    status: KaiPodGroupStatus = msgspec.field(default_factory=KaiPodGroupStatus)


class QueueResource(Model, gc=False):
    quota: float | None = None
    limit: float | None = None


class QueueSpec(Model):
    parent_queue: str = ""
    resources: dict[str, QueueResource] = {}


class Queue(Model):
    """A KAI queue. Limits of -1 are none; GPUs count devices."""

    metadata: ObjectMeta
    spec: QueueSpec = msgspec.field(default_factory=QueueSpec)


class QuotaSpec(Model):
    hard: dict[str, Any] = {}


class QuotaStatus(Model):
    hard: dict[str, Any] = {}
    used: dict[str, Any] = {}


class ResourceQuota(Model):
    metadata: ObjectMeta
    spec: QuotaSpec = msgspec.field(default_factory=QuotaSpec)
    status: QuotaStatus = msgspec.field(default_factory=QuotaStatus)


class ClaimStatus(Model):
    allocation: dict[str, Any] | None = None


class ResourceClaim(Model):
    metadata: ObjectMeta
    status: ClaimStatus = msgspec.field(default_factory=ClaimStatus)


PODS = kinds.PODS.with_model(PodDetail)
EVENTS = Resource("", "v1", "events", "Event", Event)
POD_GROUPS = Resource("scheduling.run.ai", "v2alpha2", "podgroups", "PodGroup", KaiPodGroup)
QUEUES = Resource("scheduling.run.ai", "v2", "queues", "Queue", Queue, namespaced=False)
QUOTAS = Resource("", "v1", "resourcequotas", "ResourceQuota", ResourceQuota)
CLAIMS = Resource("resource.k8s.io", "v1", "resourceclaims", "ResourceClaim", ResourceClaim)
