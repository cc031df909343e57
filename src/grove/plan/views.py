"""What the pods of a clique amount to: live, ready, on a node, of which template. Terminating pods count nowhere."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property

from grove.api import labels
from grove.api.core import Pod
from grove.api.meta import condition
from grove.api.pod_clique import PodClique
from grove.plan.layout import Slot
from grove.plan.refusals import refusal_of
from grove.plan.rollout import Unit


@dataclass(frozen=True, slots=True)
class PodView:
    """One pod, reduced to what decisions need."""

    name: str
    uid: str
    index: int
    template_hash: str
    ready: bool
    scheduled: bool
    gate_position: int | None
    leaving: bool
    failed: bool
    refusal: str = ""

    @property
    def gated(self) -> bool:
        return self.gate_position is not None


def pod_view(pod: Pod, clique_uid: str | None) -> PodView:
    """A pod of an earlier clique of the same name counts as leaving: the garbage collector is on its way to it."""
    meta = pod.metadata
    controller = meta.controller
    foreign = clique_uid is None or (controller is not None and controller.uid != clique_uid)
    leaving = meta.terminating or foreign
    ready = condition(pod.status.conditions, "Ready")
    return PodView(
        name=meta.name,
        uid=meta.uid,
        index=_index(pod),
        template_hash=meta.labels.get(labels.POD_TEMPLATE_HASH, ""),
        ready=not leaving and ready is not None and ready.status == "True",
        scheduled=bool(pod.spec.node_name),
        gate_position=next((i for i, gate in enumerate(pod.spec.scheduling_gates) if gate.name == labels.GATE), None),
        leaving=leaving,
        failed=pod.status.phase == "Failed",
        refusal=refusal_of(pod),
    )


def _index(pod: Pod) -> int:
    """The index label; a pod whose label was tampered with is known by the end of its name."""
    text = pod.metadata.labels.get(labels.POD_INDEX, "")
    if not text.isdigit():
        text = pod.metadata.name.rpartition("-")[2]
    return int(text) if text.isdigit() else -1


@dataclass(frozen=True)
class CliqueView:
    """One clique of a replica: the slot it fills, the object if there is one, and its pods."""

    slot: Slot
    clique: PodClique | None
    pods: tuple[PodView, ...]
    target_hash: str
    replicas: int
    minimum: int = field(default=0)
    # What the set asks for now; a replica that is held keeps another target.
    latest_hash: str = ""

    @cached_property
    def live(self) -> tuple[PodView, ...]:
        return tuple(p for p in self.pods if not p.leaving)

    @cached_property
    def ready(self) -> int:
        return sum(p.ready for p in self.live)

    @cached_property
    def scheduled(self) -> int:
        return sum(p.scheduled for p in self.live)

    @cached_property
    def gated(self) -> int:
        return sum(p.gated for p in self.live)

    @cached_property
    def updated(self) -> int:
        return sum(p.template_hash == self.target_hash for p in self.live)

    @property
    def outdated(self) -> bool:
        return self.updated < len(self.live)

    @cached_property
    def latest(self) -> int:
        """Pods made from what the set asks for now, which in a held replica is not what they should be made from."""
        return sum(p.template_hash == (self.latest_hash or self.target_hash) for p in self.live)

    @property
    def all_latest(self) -> bool:
        return self.available and self.latest == len(self.live)

    @property
    def leaving(self) -> bool:
        return len(self.live) < len(self.pods)

    @property
    def available(self) -> bool:
        return self.clique is not None and self.ready >= self.minimum

    @property
    def placed(self) -> bool:
        return self.clique is not None and self.scheduled >= self.minimum

    def units(self) -> list[Unit]:
        """The pods as units of a rollout."""
        return [Unit(p.index, p.template_hash == self.target_hash, p.ready, p.scheduled, p.leaving) for p in self.pods]


def clique_view(
    slot: Slot, clique: PodClique | None, pods: Sequence[Pod], target_hash: str, latest_hash: str = ""
) -> CliqueView:
    uid = clique.metadata.uid if clique and not clique.metadata.terminating else None
    standing = clique if uid else None
    spec = slot.template.spec
    return CliqueView(
        slot=slot,
        clique=standing,
        pods=tuple(sorted((pod_view(p, uid) for p in pods), key=lambda p: p.index)),
        target_hash=target_hash,
        replicas=standing.spec.replicas if standing else spec.replicas,
        minimum=spec.minimum,
        latest_hash=latest_hash,
    )


def group_unit(index: int, views: Sequence[CliqueView]) -> Unit:
    """One scaling-group replica as a unit: available when every member has its minimum, outdated when any pod is."""
    exists = any(v.clique for v in views)
    return Unit(
        index=index,
        updated=not any(v.outdated for v in views),
        available=all(v.available for v in views),
        placed=all(v.placed for v in views),
        leaving=not exists,
    )
