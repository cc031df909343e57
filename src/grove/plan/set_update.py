"""Whose turn it is: which replicas of a PodCliqueSet an update works on next.

RollingRecreate takes one replica at a time (unscheduled first, then broken, then the lowest index) and leaves the rest
to the budgets inside it. ReplicaRecreate asks the rollout engine with the set's own budget and recreates whole
replicas, with extra ones above `replicas` if it may. A replica that was selected and not touched yet is released when
the budget has no room for it any more: because the strategy or the budget changed, or another replica broke. OnDelete
selects nothing.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from grove.api.pod_clique_set import PodCliqueSet, RollingUpdate, UpdatingReplica
from grove.api.reasons import Reason
from grove.plan import budget, rollout
from grove.plan.actions import Wait, Why
from grove.plan.budget import Budget
from grove.plan.conditions import timestamp
from grove.plan.revision import Revision
from grove.plan.rollout import Goal, Unit
from grove.plan.turn import selected_replicas, selection_stands
from grove.plan.worlds import ReplicaSummary, SetWorld


@dataclass(frozen=True, slots=True)
class SetUpdate:
    """The update of a set after this pass. `moved` tells that the record changes and must be written at once."""

    open: bool
    updating: tuple[UpdatingReplica, ...] = ()
    moved: bool = False
    changed: bool = False
    wait: Wait | None = None


def decide(world: SetWorld, latest: Revision, now: datetime) -> SetUpdate:
    """Whose turn it is now."""
    owner = world.owner
    summaries = world.replicas or {}
    before = owner.status.current_generation_hash if owner.status else None
    changed = before is not None and before != latest.hash
    if owner.spec.strategy.type == "OnDelete":
        return SetUpdate(open=False, moved=changed or bool(selected_replicas(owner)), changed=changed)
    standing = [summary for summary in summaries.values() if summary.exists]
    selected = _upheld(owner, standing)
    units = [_unit(owner, summary, selected) for summary in standing]
    chosen, wait = _chosen(owner, units, selected)
    unfinished = bool(chosen) or any(not u.updated and not u.leaving for u in units)
    moved = changed or chosen != selected_replicas(owner) or _recorded_open(owner) != unfinished
    # Replicas whose turn it is may wait to hear that it still is, under this spec.
    moved = moved or (bool(chosen) and not selection_stands(owner))
    updating = _record(owner, chosen, now)
    subject = owner.metadata.name
    return SetUpdate(unfinished, updating, moved, changed, Wait(subject, wait) if wait and unfinished else None)


def _recorded_open(owner: PodCliqueSet) -> bool:
    progress = owner.status.update_progress if owner.status else None
    return progress is not None and progress.update_ended_at is None


def _held(owner: PodCliqueSet, index: int) -> bool:
    """Below the partition a replica keeps its revision, so it has nothing to be updated to."""
    partition = owner.spec.strategy.partition
    return partition is not None and index < partition


def _done(summary: ReplicaSummary) -> bool:
    return summary.fresh and summary.available and summary.at_rest


def _unit(owner: PodCliqueSet, summary: ReplicaSummary, selected: frozenset[int]) -> Unit:
    """A replica as a unit. One that is selected is on its way: no candidate, and available only when it is done.

    An extra one is cover for others, whatever it runs.
    """
    turn_has_come = summary.index in selected
    wanted = summary.index < owner.spec.replicas or turn_has_come
    if turn_has_come:
        extra = summary.index >= owner.spec.replicas
        updated, available = True, summary.available if extra else _done(summary)
    else:
        updated = summary.fresh or _held(owner, summary.index)
        available = summary.available
    return Unit(summary.index, updated, available, summary.placed, leaving=not wanted)


def _upheld(owner: PodCliqueSet, standing: list[ReplicaSummary]) -> frozenset[int]:
    """The recorded selection without those that serve, are untouched, and would bring the set below its floor."""
    selected = selected_replicas(owner)
    if owner.spec.strategy.type != "ReplicaRecreate":
        return selected
    floor = owner.spec.replicas - _allowed(owner).max_unavailable
    missing = floor - sum(unit.available for unit in (_unit(owner, s, selected) for s in standing))
    untouched = [s.index for s in standing if s.available and not s.fresh and not s.begun and s.index in selected]
    spared = sorted((i for i in untouched if i < owner.spec.replicas), reverse=True)
    return selected - set(spared[: max(0, missing)])


def _allowed(owner: PodCliqueSet) -> Budget:
    wish = owner.spec.strategy.rolling_update or RollingUpdate()
    return budget.resolve(wish.max_unavailable, wish.max_surge, owner.spec.replicas)


def _chosen(owner: PodCliqueSet, units: list[Unit], selected: frozenset[int]) -> tuple[frozenset[int], Why | None]:
    done = {u.index for u in units if u.index in selected and u.available}
    if owner.spec.strategy.type == "ReplicaRecreate":
        return _by_budget(owner, units, selected, done)
    existing = {u.index for u in units if not u.leaving}
    moving = {i for i in selected - done if i in existing and i < owner.spec.replicas}
    outdated = [u for u in units if not u.updated]
    if owner.spec.strategy.paused:
        return frozenset(moving), Why(Reason.PAUSED, "updateStrategy.paused is set") if moving or outdated else None
    if moving:
        wait = Why(Reason.WAIT_REPLICA, f"replica {min(moving)} is being updated") if outdated else None
        return frozenset(moving), wait
    following = rollout.next_in_turn(units, moving)
    return frozenset(() if following is None else (following,)), None


def _by_budget(
    owner: PodCliqueSet, units: list[Unit], selected: frozenset[int], done: set[int]
) -> tuple[frozenset[int], Why | None]:
    replicas = owner.spec.replicas
    goal = Goal(
        replicas,
        _allowed(owner),
        rolling=_recorded_open(owner) or rollout.outdated(units),
        paused=owner.spec.strategy.paused,
        independent=True,
    )
    step = rollout.next_step(units, goal)
    surge = {i for i in selected if i >= replicas} - set(step.remove)
    moving = {i for i in selected - done if i < replicas}
    return frozenset({*moving, *surge, *step.take_down, *step.surge}), step.wait


def _record(owner: PodCliqueSet, chosen: frozenset[int], now: datetime) -> tuple[UpdatingReplica, ...]:
    progress = owner.status.update_progress if owner.status else None
    known = {r.replica_index: r for r in progress.updating_replicas} if progress else {}
    return tuple(
        known.get(i) or UpdatingReplica(replica_index=i, update_started_at=timestamp(now)) for i in sorted(chosen)
    )
