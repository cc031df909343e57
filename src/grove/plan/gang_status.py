"""The status of a PodGang: our conditions and the phase, true at every moment. Conditions of others are left alone."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

import msgspec

from grove.api.meta import Condition, condition
from grove.api.pod_clique_set import PodGangSummary
from grove.api.pod_gang import PodGang, PodGangPhase, PodGangStatus
from grove.api.reasons import Reason
from grove.plan.actions import Notice, Wait, Why
from grove.plan.conditions import ConditionWriter
from grove.plan.views import CliqueView

INITIALIZED = "Initialized"
SCHEDULED = "Scheduled"
READY = "Ready"
SCHEDULED_ONCE = "ScheduledOnce"


def scheduled_once(previous: PodGangStatus, views: Sequence[CliqueView]) -> bool:
    """Whether the gang has had its minimum on nodes since it was made or made anew."""
    recorded = any(c.type == SCHEDULED_ONCE and c.status == "True" for c in previous.conditions)
    return recorded or (bool(views) and all(v.placed for v in views))


def gang_status(
    gang: PodGang, views: Sequence[CliqueView], previous: PodGangStatus, *, reset: bool, now: datetime
) -> PodGangStatus:
    writer = ConditionWriter(previous.conditions, gang.metadata.generation, now)
    expected = sum(len(group.pod_references) for group in gang.spec.podgroups)
    existing = sum(len(v.live) for v in views)
    complete = bool(views) and existing >= expected and all(v.clique for v in views)
    placed = bool(views) and all(v.placed for v in views)
    ready = placed and all(v.available for v in views)
    writer.set(
        INITIALIZED,
        complete,
        Reason.PODS_CREATED if complete else Reason.PODS_PENDING_CREATION,
        "PodGang is fully initialized" if complete else f"{existing} of {expected} pods exist",
    )
    _write_scheduled(writer, gang, views, placed)
    writer.set(READY, ready, Reason.GANG_READY if ready else Reason.GANG_NOT_READY, _short(views, "ready"))
    once = not reset and scheduled_once(previous, views)
    writer.set(
        SCHEDULED_ONCE,
        once,
        Reason.SCHEDULED_ONCE if once else Reason.NEVER_SCHEDULED,
        "the minimum of every pod group was on nodes" if once else _short(views, "scheduled"),
    )
    phase: PodGangPhase = "Running" if ready else "Starting" if placed else "Pending"
    return PodGangStatus(phase=phase, conditions=writer.result())


def _write_scheduled(writer: ConditionWriter, gang: PodGang, views: Sequence[CliqueView], placed: bool) -> None:
    refusal = None if placed else refusal_wait(gang, views)
    if refusal:
        writer.set(SCHEDULED, False, Reason.UNSCHEDULABLE, f"{_short(views, 'scheduled')}; {refusal.why.message}")
    else:
        reason = Reason.GANG_SCHEDULED if placed else Reason.GANG_UNSCHEDULED
        writer.set(SCHEDULED, placed, reason, _short(views, "scheduled"))


def refusal_wait(gang: PodGang, views: Sequence[CliqueView]) -> Wait | None:
    """The wait for a scheduler that has refused pods of this gang, in its words: those that say most."""
    live = [p for v in views for p in v.live]
    refused = [p.refusal for p in live if p.refusal]
    if not refused:
        return None
    packed = gang.spec.topology_constraint.pack_constraint if gang.spec.topology_constraint else None
    where = f" in one {packed.required}" if packed and packed.required else ""
    said = max(refused, key=lambda words: (len(words), words))
    message = f"{len(refused)} of {len(live)} pods cannot be scheduled{where}: {said}"
    return Wait(gang.metadata.name, Why(Reason.UNSCHEDULABLE, message))


def refusal_notice(gang: str, before: PodGangStatus, after: PodGangStatus) -> Notice | None:
    """The event for a gang that the scheduler refuses from now on."""
    told = condition(before.conditions, SCHEDULED)
    now = condition(after.conditions, SCHEDULED)
    if now is None or now.reason != Reason.UNSCHEDULABLE or (told and told.reason == now.reason):
        return None
    return Notice(Why(Reason.UNSCHEDULABLE, f"{gang}: {now.message}"), warning=True)


def _short(views: Sequence[CliqueView], what: str) -> str:
    """Which pod groups are below their minimum, or that none is."""
    counts = [(v.slot.name, v.scheduled if what == "scheduled" else v.ready, v.minimum) for v in views]
    missing = [f"{name} {count}/{minimum}" for name, count, minimum in counts if count < minimum]
    if not missing:
        return f"every pod group has its minimum {what}"
    more = f" and {len(missing) - 3} more" if len(missing) > 3 else ""
    return f"below the minimum {what}: {', '.join(missing[:3])}{more}"


def summary(name: str, status: PodGangStatus) -> PodGangSummary:
    """The gang as its PodCliqueSet repeats it; a running gang needs no more words, a refused one keeps its own."""
    conditions: list[Condition] = [] if status.phase == "Running" else [_brief(c) for c in status.conditions]
    return PodGangSummary(name=name, phase=status.phase, conditions=conditions)


def _brief(told: Condition) -> Condition:
    """Without the scheduler's words: hundreds of refused gangs must fit into one status."""
    if told.reason != Reason.UNSCHEDULABLE:
        return told
    return msgspec.structs.replace(told, message=told.message.partition(";")[0])
