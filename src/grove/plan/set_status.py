"""The status of a PodCliqueSet: counters from its replicas, the record of the update, and conditions tools understand.

`Ready`, `Reconciling` and `Stalled` follow the convention that kubectl wait, Helm and Argo CD read. Events are told
only for what this status changes.
"""

from __future__ import annotations

from datetime import datetime, timedelta

import msgspec

from grove.api import labels
from grove.api.meta import LastError
from grove.api.pod_clique_set import PodCliqueSet, PodCliqueSetStatus, PodCliqueSetUpdateProgress
from grove.api.reasons import Reason
from grove.plan import topology
from grove.plan.actions import Notice, Wait, Why
from grove.plan.conditions import ConditionWriter, moment, timestamp
from grove.plan.revision import Revision
from grove.plan.set_update import SetUpdate
from grove.plan.worlds import ReplicaSummary, SetWorld

READY, RECONCILING, STALLED = "Ready", "Reconciling", "Stalled"
PROGRESSING = "Progressing"
TOPOLOGY_CONSTRAINTS = "TopologyConstraints"
ERRORS_KEPT = 10


def set_status(
    world: SetWorld, latest: Revision, update: SetUpdate, now: datetime
) -> tuple[PodCliqueSetStatus, tuple[Notice, ...]]:
    """The status to write, and the events its changes deserve."""
    owner = world.owner
    before = owner.status or PodCliqueSetStatus()
    summaries = list((world.replicas or {}).values())
    counted = [s for s in summaries if s.index < owner.spec.replicas and s.exists]
    progress = _progress(owner, before, update, summaries, now)
    errors = [e for s in summaries for e in s.errors] + list(world.errors)
    status = PodCliqueSetStatus(
        observed_generation=owner.metadata.generation,
        last_errors=errors[:ERRORS_KEPT],
        replicas=len(counted),
        updated_replicas=sum(s.fresh and s.available for s in counted),
        available_replicas=sum(s.available for s in counted),
        hpa_pod_selector=labels.selector(labels.managed(owner.metadata.name)),
        pod_gang_statuses=[gang for s in sorted(summaries, key=lambda s: s.index) for gang in s.gangs],
        current_generation_hash=latest.hash,
        update_progress=progress,
    )
    writer = ConditionWriter(before.conditions, owner.metadata.generation, now)
    overdue = _overdue(owner, progress, now)
    _write_conditions(writer, world, status, update, overdue)
    status.conditions = writer.result()
    return status, _notices(before, status, update, overdue)


def refused_status(world: SetWorld, now: datetime) -> PodCliqueSetStatus:
    """The status as it was, with what was refused."""
    before = world.owner.status or PodCliqueSetStatus()
    writer = ConditionWriter(before.conditions, world.owner.metadata.generation, now)
    stalled = writer.set(STALLED, True, Reason.WRITE_REFUSED, world.errors[0].description)
    others = [c for c in before.conditions if c.type != STALLED]
    return msgspec.structs.replace(before, last_errors=list(world.errors[:ERRORS_KEPT]), conditions=[*others, stalled])


def _progress(
    owner: PodCliqueSet,
    before: PodCliqueSetStatus,
    update: SetUpdate,
    summaries: list[ReplicaSummary],
    now: datetime,
) -> PodCliqueSetUpdateProgress | None:
    last = before.update_progress
    if not update.open and not update.changed and last is None:
        return None
    fresh_start = update.changed or last is None or (update.open and last.update_ended_at is not None)
    started = timestamp(now) if fresh_start or last is None else last.update_started_at
    ended = None if update.open else (timestamp(now) if fresh_start or last is None else last.update_ended_at)
    progress = PodCliqueSetUpdateProgress(
        update_started_at=started,
        update_ended_at=ended or (None if update.open else timestamp(now)),
        updated_pod_cliques_count=sum(s.updated_cliques for s in summaries),
        total_pod_cliques_count=sum(s.cliques for s in summaries),
        updated_pod_clique_scaling_groups_count=sum(s.updated_groups for s in summaries),
        total_pod_clique_scaling_groups_count=sum(s.groups for s in summaries),
        updating_replicas=list(update.updating),
        updated_pods=sum(s.updated_pods for s in summaries),
        total_pods=sum(s.pods for s in summaries),
    )
    progress.most_updated_pods, moved = _mark(None if fresh_start else last, progress)
    progress.last_progress_at = timestamp(now) if last is None or moved else last.last_progress_at
    return progress


def _mark(before: PodCliqueSetUpdateProgress | None, after: PodCliqueSetUpdateProgress) -> tuple[int, bool]:
    """The most updated pods so far, and whether the update has moved: it took up other replicas, or has more than ever.

    A pod that comes and goes moves nothing, however often it does. What was reached before a scale measures nothing.
    """
    if before is None or _turns(before) != _turns(after) or before.update_ended_at != after.update_ended_at:
        return after.updated_pods, True
    if before.total_pods != after.total_pods:
        return after.updated_pods, False
    return max(before.most_updated_pods, after.updated_pods), after.updated_pods > before.most_updated_pods


def _turns(progress: PodCliqueSetUpdateProgress) -> list[int]:
    return [replica.replica_index for replica in progress.updating_replicas]


def _overdue(owner: PodCliqueSet, progress: PodCliqueSetUpdateProgress | None, now: datetime) -> bool:
    allowed = owner.spec.strategy.progress_deadline_seconds
    if allowed is None or progress is None or progress.update_ended_at or owner.spec.strategy.paused:
        return False
    since = progress.last_progress_at or progress.update_started_at
    return since is not None and now - moment(since) >= timedelta(seconds=allowed)


def deadline_in(owner: PodCliqueSet, progress: PodCliqueSetUpdateProgress | None, now: datetime) -> float | None:
    """Seconds until the progress deadline passes, if an update is under way and has one."""
    allowed = owner.spec.strategy.progress_deadline_seconds
    if allowed is None or progress is None or progress.update_ended_at or owner.spec.strategy.paused:
        return None
    since = progress.last_progress_at or progress.update_started_at
    remaining = (moment(since) + timedelta(seconds=allowed) - now).total_seconds() if since else None
    return remaining if remaining is not None and remaining > 0 else None


def _write_conditions(
    writer: ConditionWriter, world: SetWorld, status: PodCliqueSetStatus, update: SetUpdate, overdue: bool
) -> None:
    replicas = world.owner.spec.replicas
    waits = [wait for s in (world.replicas or {}).values() for wait in s.waits]
    ready = status.available_replicas >= replicas
    counts = f"{status.available_replicas} of {replicas} replicas available"
    detail = f"; {waits[0].subject}: {waits[0].why.message}" if waits and not ready else ""
    reason = Reason.SCALED_TO_ZERO if replicas == 0 else Reason.ALL_AVAILABLE if ready else Reason.NOT_AVAILABLE
    writer.set(READY, ready, reason, counts + detail)
    settled = ready and not update.open and status.replicas == replicas
    if settled:
        writer.set(RECONCILING, False, Reason.IN_STEP, counts)
    else:
        why = update.wait.why if update.wait else waits[0].why if waits else Why(Reason.CONVERGING, counts)
        writer.set(RECONCILING, True, why.reason, why.message)
    if overdue:
        writer.set(STALLED, True, Reason.DEADLINE, _stuck(update, waits))
    elif status.last_errors:
        writer.set(STALLED, True, Reason.WRITE_REFUSED, status.last_errors[0].description)
    else:
        writer.set(STALLED, False, Reason.NOT_STALLED, "nothing blocks progress")
    _write_progressing(writer, world.owner, status, update, overdue)
    found = topology.verdict(world.owner.spec.template, world.settings.topology)
    if found:
        writer.set(TOPOLOGY_CONSTRAINTS, found[0], found[1].reason, found[1].message)


def _write_progressing(
    writer: ConditionWriter, owner: PodCliqueSet, status: PodCliqueSetStatus, update: SetUpdate, overdue: bool
) -> None:
    done = f"{status.updated_replicas} of {owner.spec.replicas} replicas updated"
    if overdue:
        message = f"no progress for {owner.spec.strategy.progress_deadline_seconds} s; {done}"
        writer.set(PROGRESSING, False, Reason.DEADLINE, message)
    elif update.open and owner.spec.strategy.paused:
        writer.set(PROGRESSING, False, Reason.PAUSED, done)
    elif update.open:
        writer.set(PROGRESSING, True, Reason.UPDATE_IN_PROGRESS, done)
    else:
        writer.set(PROGRESSING, True, Reason.UPDATE_DONE, done)


def _stuck(update: SetUpdate, waits: list[Wait]) -> str:
    first = waits[0] if waits else update.wait
    return f"{first.subject}: {first.why.message}" if first else "nothing moves"


def _notices(
    before: PodCliqueSetStatus, after: PodCliqueSetStatus, update: SetUpdate, overdue: bool
) -> tuple[Notice, ...]:
    found: list[Notice] = []
    if update.changed:
        found.append(Notice(Why(Reason.NEW_REVISION, f"revision {after.current_generation_hash} is rolled out")))
    was_open = before.update_progress is not None and before.update_progress.update_ended_at is None
    if was_open and not update.open:
        found.append(Notice(Why(Reason.UPDATE_DONE, f"{after.updated_replicas} replicas run the latest templates")))
    was_overdue = any(c.type == STALLED and c.reason == Reason.DEADLINE for c in before.conditions)
    if overdue and not was_overdue:
        found.append(Notice(Why(Reason.DEADLINE, "the update makes no progress"), warning=True))
    return tuple(found)


def errors_from(code: str, descriptions: list[str], now: datetime) -> tuple[LastError, ...]:
    """Errors of a pass, as a status reports them."""
    return tuple(LastError(code=code, description=text, observed_at=timestamp(now)) for text in descriptions)
