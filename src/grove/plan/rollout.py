"""The next step of bringing numbered units to a revision and a count: one engine for pods, group and set replicas.

It is arithmetic on what is seen, and keeps no state: killed between any two writes, it goes on from what exists.

    floor      replicas - maxUnavailable: as many units as stay available through the whole update
    1 remove   units beyond replicas: at once when no update runs; in an update when all others are done. Before that
               they are cover for what is down, whatever they run: only useless ones go, and those beyond maxSurge as
               long as the floor is kept
    2 create   the lowest free indices below replicas; while outdated units remain there, also up to maxSurge above
    3 replace  outdated units that are unavailable anyway, all of them; then available ones, lowest index first, as long
               as those left available are not fewer than the floor
    4 wait     and say for what

An index is free only when nothing holds it any more, a terminating unit included: two pods never share a hostname.
At rest (all units updated, available, at the indices below replicas) there is no step.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from grove.api.reasons import Reason
from grove.plan.actions import Why
from grove.plan.budget import Budget


@dataclass(frozen=True, slots=True)
class Unit:
    """One numbered unit as it is seen. `leaving` units are shutting down: they only hold their index."""

    index: int
    updated: bool
    available: bool
    placed: bool = True
    leaving: bool = False


@dataclass(frozen=True, slots=True)
class Goal:
    """What the units should become.

    `by_count` units (pods) may keep a hole in their indices outside of updates. Of `independent` units (set replicas)
    broken ones, too, are replaced within the budget: a moment of weakness does not move one up in the queue. Others
    may be parts of one gang that can only start together, so all broken ones are replaced at once.
    """

    replicas: int
    budget: Budget = Budget()
    rolling: bool = False
    paused: bool = False
    by_count: bool = False
    independent: bool = False
    noun: str = "replica"


@dataclass(frozen=True, slots=True)
class Step:
    """What to do now. Indices to remove are given highest first, all others lowest first."""

    create: tuple[int, ...] = ()
    surge: tuple[int, ...] = ()
    take_down: tuple[int, ...] = ()
    remove: tuple[int, ...] = ()
    wait: Why | None = None

    @property
    def at_rest(self) -> bool:
        return not (self.create or self.surge or self.take_down or self.remove or self.wait)


def next_step(units: Iterable[Unit], goal: Goal) -> Step:
    """The next step towards the goal, from what is seen."""
    seen = sorted(units, key=lambda u: u.index)
    live = [u for u in seen if not u.leaving]
    remove = _removals(live, goal)
    staying = [u for u in live if u.index not in remove]
    occupied = {u.index for u in seen}
    create = _creations(staying, occupied, goal)
    surge = _surges(staying, occupied, goal)
    take_down = _replacements(staying, goal)
    acting = create or surge or take_down or remove
    return Step(create, surge, take_down, remove, None if acting else _wait(seen, staying, goal))


def outdated(units: Iterable[Unit]) -> bool:
    """Whether any unit that stays runs an older revision."""
    return any(not u.updated and not u.leaving for u in units)


def _keepers(units: Sequence[Unit], goal: Goal) -> list[Unit]:
    """The units an update leaves at the end."""
    return [u for u in units if u.index < goal.replicas]


def _complete(keepers: Sequence[Unit], goal: Goal) -> bool:
    return len(keepers) >= goal.replicas and all(u.updated and u.available for u in keepers)


def _spare(units: Sequence[Unit], goal: Goal) -> int:
    """How many available units could be missed."""
    return max(0, sum(u.available for u in units) - (goal.replicas - goal.budget.max_unavailable))


def _removals(live: Sequence[Unit], goal: Goal) -> tuple[int, ...]:
    extra = [u for u in reversed(live) if u.index >= goal.replicas]
    if not goal.rolling and goal.by_count:
        # A scale-in takes the least useful first.
        ranked = sorted(live, key=lambda u: (u.placed, u.available, u.updated, -u.index))
        victims = ranked[: max(0, len(live) - goal.replicas)]
    elif not goal.rolling or _complete(_keepers(live, goal), goal):
        victims = extra
    else:
        allowed = goal.replicas + goal.budget.max_surge
        useless = [u for u in extra if not u.available and (not u.updated or u.index >= allowed)]
        beyond = [u for u in extra if u.available and u.index >= allowed]
        victims = useless + beyond[: _spare(live, goal)]
    return tuple(sorted((u.index for u in victims), reverse=True))


def _creations(staying: Sequence[Unit], occupied: set[int], goal: Goal) -> tuple[int, ...]:
    free = [i for i in range(goal.replicas) if i not in occupied]
    if not goal.by_count:
        return tuple(free)
    room = goal.replicas + (goal.budget.max_surge if goal.rolling else 0) - len(staying)
    return tuple(free[: max(0, room)])


def _surges(staying: Sequence[Unit], occupied: set[int], goal: Goal) -> tuple[int, ...]:
    keepers = _keepers(staying, goal)
    if not goal.rolling or goal.paused or not outdated(keepers):
        return ()
    unfinished = goal.replicas - sum(u.updated and u.available for u in keepers)
    wanted = min(goal.budget.max_surge, unfinished) - (len(staying) - len(keepers))
    slots = range(goal.replicas, goal.replicas + goal.budget.max_surge)
    return tuple([i for i in slots if i not in occupied][: max(0, wanted)])


def _replacements(staying: Sequence[Unit], goal: Goal) -> tuple[int, ...]:
    if not goal.rolling or goal.paused:
        return ()
    old = [u for u in _keepers(staying, goal) if not u.updated]
    broken = [u.index for u in old if not u.available]
    if goal.independent:
        under_way = sum(u.updated and not u.available for u in _keepers(staying, goal))
        broken = broken[: max(0, max(1, goal.budget.max_unavailable) - under_way)]
    healthy = [u.index for u in old if u.available][: _spare(staying, goal)]
    return tuple(sorted(broken + healthy))


def _wait(seen: Sequence[Unit], staying: Sequence[Unit], goal: Goal) -> Why | None:
    leaving = [u.index for u in seen if u.leaving]
    if leaving and (goal.rolling or any(i < goal.replicas for i in leaving)):
        return Why(Reason.WAIT_GONE, f"{goal.noun} {_listed(leaving)} still terminating")
    if not goal.rolling:
        return None
    old = [u.index for u in _keepers(staying, goal) if not u.updated]
    if goal.paused and old:
        return Why(Reason.PAUSED, f"the update is paused with {goal.noun} {_listed(old)} on an older revision")
    pending = [u.index for u in staying if u.updated and not u.available]
    if not old and not pending:
        return None
    available = sum(u.available for u in staying)
    floor = goal.replicas - goal.budget.max_unavailable
    surging = [i for i in pending if i >= goal.replicas]
    if old and surging and goal.budget.max_unavailable == 0:
        return Why(Reason.WAIT_SURGE, f"surge {goal.noun} {_listed(surging)} not available yet")
    facts = f"{available} available, at least {floor} must stay available"
    waiting_for = f"{goal.noun} {_listed(pending)} not available yet" if pending else "too few are available"
    return Why(Reason.WAIT_AVAILABLE, f"{waiting_for} ({facts})")


def _listed(indices: Sequence[int]) -> str:
    shown = ", ".join(str(i) for i in indices[:5])
    return shown if len(indices) <= 5 else f"{shown} and {len(indices) - 5} more"


def next_in_turn(units: Iterable[Unit], moving: Iterable[int]) -> int | None:
    """The set replica to update next when they go strictly one by one: unscheduled, then broken, then lowest index."""
    if set(moving):
        return None
    waiting = [u for u in units if not u.updated and not u.leaving]
    first = min(waiting, key=lambda u: (u.placed, u.available, u.index), default=None)
    return first.index if first else None
