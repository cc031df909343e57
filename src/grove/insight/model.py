"""A PodCliqueSet in a pretend cluster: the operator's real plans on objects in memory, and a cluster that answers.

Nothing here guesses what the operator would do. `settle` asks plan_replica and plan_set, carries their plans out and
asks again where that wakes them, as the controller does; `pending` lists what the cluster may do next with the pods
(place, start, end them), and `happen` does one of those. Tests pick events one by one; a preview lets all of them
happen at each turn.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Literal, Self, TypeVar

import msgspec

from grove.api import labels, names
from grove.api.core import Pod
from grove.api.kinds import (
    AUTOSCALERS,
    CONTROLLER_REVISIONS,
    POD_CLIQUE_SETS,
    POD_CLIQUES,
    POD_GANGS,
    PODS,
    ROLE_BINDINGS,
    ROLES,
    SCALING_GROUPS,
    SERVICE_ACCOUNTS,
    SERVICES,
)
from grove.api.meta import Condition, condition
from grove.api.pod_clique_set import PodCliqueSet, PodCliqueSetSpec
from grove.insight.objects import Objects
from grove.plan import revision as revisions
from grove.plan.actions import Action, Apply, Create, Delete, Plan, StatusWrite, Wait
from grove.plan.pod_clique_set import plan_set
from grove.plan.replica import plan_replica
from grove.plan.revision import Revision
from grove.plan.settings import Settings
from grove.plan.turn import selected_replicas, turns_told
from grove.plan.worlds import ReplicaSummary, ReplicaWorld, SetWorld
from grove.runtime.objects import HasMetadata
from grove.runtime.resource import Resource

T = TypeVar("T", bound=HasMetadata)
MOST_PASSES = 1000

EventVerb = Literal["placed", "ready", "gone"]


class Unsettled(Exception):
    """The operator went on writing although nothing around it changed."""


@dataclass(frozen=True, slots=True)
class StepRecord:
    """One thing that happened: a write of the operator with its reason, or an answer of the cluster."""

    verb: str
    kind: str
    name: str
    why: str = ""

    def __str__(self) -> str:
        return f"{self.verb} {self.name}"


@dataclass(frozen=True, slots=True)
class Event:
    """Something the cluster may do next with a pod."""

    verb: EventVerb
    pod: str


@dataclass(frozen=True, slots=True)
class Conduct:
    """What the cluster is able to do: which pods find a node, and which of those become ready."""

    places: Callable[[Pod], bool] = lambda pod: True
    starts: Callable[[Pod], bool] = lambda pod: True


@dataclass(slots=True)
class Model:
    """One PodCliqueSet and all that exists of it."""

    owner: PodCliqueSet
    objects: Objects
    settings: Settings = field(default_factory=Settings)
    conduct: Conduct = field(default_factory=Conduct)
    watcher: Callable[[Model], None] | None = None
    _summaries: dict[int, ReplicaSummary] = field(default_factory=dict)
    _waits: dict[int | None, tuple[Wait, ...]] = field(default_factory=dict)

    @classmethod
    def from_objects(
        cls, owner: PodCliqueSet, objects: Iterable[HasMetadata] = (), settings: Settings | None = None
    ) -> Self:
        """A model that starts from what was observed."""
        held = Objects(owner.metadata.uid)
        for item in objects:
            held.add(item)
        return cls(owner, held, settings or Settings())

    def submit(self, spec: PodCliqueSetSpec) -> None:
        """A user writes another spec."""
        meta = msgspec.structs.replace(self.owner.metadata, generation=self.owner.metadata.generation + 1)
        self.owner = msgspec.structs.replace(self.owner, metadata=meta, spec=spec)

    # The operator.

    def settle(self, now: datetime) -> list[StepRecord]:
        """The operator looks at everything, and again at what its own writes wake, until nothing is woken any more."""
        found: list[StepRecord] = []
        woken: set[int | None] = {None, *self._indices()}
        for _ in range(MOST_PASSES):
            if not woken:
                return found
            key = min(woken, key=lambda k: (k is None, k))
            woken.discard(key)
            woken |= self._look_at_set(now, found) if key is None else self._look_at_replica(key, now, found)
        raise Unsettled("; ".join(str(record) for record in found[-10:]))

    def _look_at_replica(self, index: int, now: datetime, found: list[StepRecord]) -> set[int | None]:
        """One pass over a replica; answers which keys are to be looked at because of it."""
        history = self.history()
        if history is None:
            return set()
        plan, summary = plan_replica(self.replica_world(index, history), now)
        self._waits[index] = plan.waits
        woken: set[int | None] = {None} if self._remember(summary) else set()
        acted = self._carry_out(plan, now, found)
        if acted or plan.wake_after == 0.0:
            woken.add(index)
        return woken

    def _look_at_set(self, now: datetime, found: list[StepRecord]) -> set[int | None]:
        before = self.owner
        plan = plan_set(self.set_world(), now)
        self._waits[None] = plan.waits
        if self._carry_out(plan, now, found):
            return {None, *self._indices()}
        return set(turns_told(before, self.owner))

    @property
    def waits(self) -> list[Wait]:
        """What the operator waits for, as it said when it last looked."""
        return [wait for key in sorted(self._waits, key=lambda k: (k is None, k)) for wait in self._waits[key]]

    def advance(self, now: datetime) -> list[StepRecord]:
        """The operator settles; then all that the cluster can do happens at once. Empty: at rest, or stuck."""
        found = self.settle(now)
        for event in self.pending():
            found.append(self.happen(event, now))
        return found

    def _carry_out(self, plan: Plan, now: datetime, found: list[StepRecord]) -> bool:
        """Writes all of the plan; True when that touched more than statuses, which wake nobody."""
        acted = wrote = False
        for action in (*(a for stage in plan.stages for a in stage), *plan.statuses):
            if not self._write(action, now):
                continue
            wrote = True
            if not isinstance(action, StatusWrite):
                acted = True
                found.append(_told(action))
        if wrote and self.watcher:
            self.watcher(self)
        return acted

    def _write(self, action: Action, now: datetime) -> bool:
        if isinstance(action, StatusWrite) and action.resource is POD_CLIQUE_SETS:
            if self.owner.status == action.status:
                return False
            self.owner = msgspec.structs.replace(self.owner, status=action.status)
            return True
        return self.objects.carry_out(action, now)

    def _remember(self, summary: ReplicaSummary) -> bool:
        """Keeps what a replica amounts to; True when that changed."""
        kept = self._summaries.get(summary.index)
        if summary.exists or summary.index < self.owner.spec.replicas:
            self._summaries[summary.index] = summary
        else:
            self._summaries.pop(summary.index, None)
            self._waits.pop(summary.index, None)
        return kept != self._summaries.get(summary.index)

    # The cluster.

    def pending(self) -> list[Event]:
        """What the cluster may do next, pod by pod."""
        found = [self._next_event(pod) for _, pod in sorted(self.objects.of(PODS).items())]
        return [event for event in found if event]

    def _next_event(self, pod: Pod) -> Event | None:
        name = pod.metadata.name
        if pod.metadata.terminating:
            return Event("gone", name)
        if not pod.spec.node_name:
            waits = pod.spec.scheduling_gates or not self._gang_may_start(pod) or not self.conduct.places(pod)
            return None if waits else Event("placed", name)
        if not is_ready(pod) and self.conduct.starts(pod):
            return Event("ready", name)
        return None

    def _gang_may_start(self, pod: Pod) -> bool:
        """Whether every pod group of the pod's gang has its minimum where the scheduler can see it."""
        gang = self.objects.get(POD_GANGS, pod.metadata.labels.get(labels.POD_GANG, ""))
        if gang is None:
            return False
        pods = self.objects.of(PODS)
        for group in gang.spec.podgroups:
            members = [pods[r.name] for r in group.pod_references if r.name in pods]
            seen = [p for p in members if not p.metadata.terminating and not p.spec.scheduling_gates]
            able = [p for p in seen if p.spec.node_name or self.conduct.places(p)]
            if len(able) < group.min_replicas:
                return False
        return True

    def happen(self, event: Event, now: datetime) -> StepRecord:
        """The cluster does this."""
        pod = self.objects.of(PODS)[event.pod]
        if event.verb == "gone":
            self.objects.gone(PODS, event.pod, now)
        elif event.verb == "placed":
            spec = msgspec.structs.replace(pod.spec, node_name="node")
            self.objects.replace(PODS, msgspec.structs.replace(pod, spec=spec))
        else:
            self.mark(event.pod, ready=True)
        if self.watcher:
            self.watcher(self)
        return StepRecord(event.verb, PODS.kind, event.pod)

    def mark(self, pod: str, *, ready: bool) -> None:
        """A pod becomes ready, or stops being so."""
        seen = self.objects.of(PODS)[pod]
        said = [Condition(type="Ready", status="True" if ready else "False")]
        status = msgspec.structs.replace(seen.status, phase="Running", conditions=said)
        self.objects.replace(PODS, msgspec.structs.replace(seen, status=status))

    # What the operator sees.

    def history(self) -> list[Revision] | None:
        """The recorded revisions with the latest last; None while the template is not on record."""
        records = sorted(self.objects.of(CONTROLLER_REVISIONS).values(), key=lambda r: r.revision)
        kept = [revisions.stored(record) for record in records]
        latest = revisions.recognised(revisions.of_template(self.owner.spec.template), kept)
        return [*(r for r in kept if r != latest), latest] if latest in kept else None

    def set_world(self) -> SetWorld:
        known = self._summaries
        whole = all(index in known for index in range(self.owner.spec.replicas))
        name = self.owner.metadata.name
        return SetWorld(
            owner=self.owner,
            settings=self.settings,
            revisions=list(self.objects.of(CONTROLLER_REVISIONS).values()),
            replicas=dict(known) if whole else None,
            service_account=self.objects.get(SERVICE_ACCOUNTS, names.service_account(name)),
            role=self.objects.get(ROLES, names.role(name)),
            role_binding=self.objects.get(ROLE_BINDINGS, names.role(name)),
        )

    def replica_world(self, index: int, history: list[Revision]) -> ReplicaWorld:
        pods: dict[str, list[Pod]] = {}
        for pod in self._of_replica(PODS, index).values():
            pods.setdefault(pod.metadata.labels.get(labels.POD_CLIQUE, ""), []).append(pod)
        return ReplicaWorld(
            owner=self.owner,
            index=index,
            history=history,
            settings=self.settings,
            cliques=self._of_replica(POD_CLIQUES, index),
            groups=self._of_replica(SCALING_GROUPS, index),
            gangs=self._of_replica(POD_GANGS, index),
            pods=pods,
            service=self.objects.get(SERVICES, names.replica(self.owner.metadata.name, index)),
            autoscalers=self._of_replica(AUTOSCALERS, index),
        )

    def _of_replica(self, resource: Resource[T], index: int) -> dict[str, T]:
        wanted = str(index)
        return {
            name: item
            for name, item in self.objects.of(resource).items()
            if item.metadata.labels.get(labels.REPLICA_INDEX) == wanted
        }

    def _indices(self) -> list[int]:
        """Replicas that are asked for, worked on, or still there in part."""
        resources: tuple[Resource[Any], ...] = (POD_CLIQUES, POD_GANGS, SERVICES, PODS)
        seen = {
            int(item.metadata.labels[labels.REPLICA_INDEX])
            for resource in resources
            for item in self.objects.of(resource).values()
        }
        return sorted({*range(self.owner.spec.replicas), *selected_replicas(self.owner), *seen})


def is_ready(pod: Pod) -> bool:
    """Whether the pod serves: ready and not on its way out."""
    said = condition(pod.status.conditions, "Ready")
    return said is not None and said.status == "True" and not pod.metadata.terminating


def _told(action: Action) -> StepRecord:
    if isinstance(action, Create | Apply):
        verb = "create" if isinstance(action, Create) else "apply"
        return StepRecord(verb, action.resource.kind, action.body["metadata"]["name"], str(action.why))
    if isinstance(action, StatusWrite):
        return StepRecord("status", action.resource.kind, action.name)
    verb = "delete" if isinstance(action, Delete) else "patch"
    return StepRecord(verb, action.resource.kind, action.name, str(action.why))
