"""How far an update is: done, moving, paused, stuck, or waiting for somebody to delete pods."""

from __future__ import annotations

from collections.abc import Sequence
from enum import StrEnum
from typing import Protocol

import msgspec

from grove.api.meta import condition
from grove.api.pod_clique_set import PodCliqueSet
from grove.api.reasons import Reason
from grove.plan.set_status import PROGRESSING, RECONCILING, STALLED


class Phase(StrEnum):
    """Where an update stands."""

    DONE = "done"
    MOVING = "moving"
    PAUSED = "paused"
    STUCK = "stuck"
    ON_DELETE = "on-delete"
    UNSEEN = "unseen"  # the operator has not looked at this spec yet


class Progress(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """An update in numbers and words. `available` tells whether every replica asked for is."""

    phase: Phase
    updated_pods: int
    total_pods: int
    updated_replicas: int
    total_replicas: int
    available_replicas: int
    updating: tuple[int, ...] = ()
    reason: str = ""
    message: str = ""

    @property
    def done(self) -> bool:
        return self.phase is Phase.DONE and self.available_replicas >= self.total_replicas

    @property
    def failed(self) -> bool:
        return self.phase is Phase.STUCK


class _Pod(Protocol):
    @property
    def updated(self) -> bool: ...

    @property
    def ready(self) -> bool: ...

    @property
    def leaving(self) -> bool: ...


def progress(owner: PodCliqueSet, pods: Sequence[_Pod], wanted: int) -> Progress:
    """The update of a set, from its status, its pods, and how many of those there should be."""
    phase, reason, message = _phase(owner, pods)
    status = owner.status
    live = [p for p in pods if not p.leaving]
    record = status.update_progress if status else None
    return Progress(
        phase=phase,
        updated_pods=sum(p.updated and p.ready for p in live),
        total_pods=wanted,
        updated_replicas=status.updated_replicas if status else 0,
        total_replicas=owner.spec.replicas,
        available_replicas=status.available_replicas if status else 0,
        updating=tuple(r.replica_index for r in record.updating_replicas) if record else (),
        reason=reason,
        message=message,
    )


def _phase(owner: PodCliqueSet, pods: Sequence[_Pod]) -> tuple[Phase, str, str]:
    status = owner.status
    if status is None or (status.observed_generation or 0) < owner.metadata.generation:
        return Phase.UNSEEN, "", "the operator has not seen this spec yet"
    moving = condition(status.conditions, PROGRESSING)
    outdated = sum(not p.updated and not p.leaving for p in pods)
    if owner.spec.strategy.type == "OnDelete" and outdated:
        return Phase.ON_DELETE, "OnDelete", f"{outdated} pods keep their old template until you delete them"
    if moving is not None and moving.reason == Reason.DEADLINE:
        stalled = condition(status.conditions, STALLED)
        return Phase.STUCK, moving.reason, f"{moving.message}; {stalled.message}" if stalled else moving.message
    record = status.update_progress
    if record is not None and record.update_ended_at is None:
        if owner.spec.strategy.paused:
            return Phase.PAUSED, str(Reason.PAUSED), Reason.PAUSED.meaning
        waiting = condition(status.conditions, RECONCILING)
        return Phase.MOVING, waiting.reason if waiting else "", waiting.message if waiting else ""
    return Phase.DONE, str(Reason.UPDATE_DONE), ""
