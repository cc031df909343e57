"""What holds for every update, whatever happens on the way: budgets, progress, and where it ends.

Each case lets users, faults and the cluster act on numbered units in any order, with the engine looking in between,
and at last lets the dust settle.
"""

from __future__ import annotations

from collections.abc import Sequence

from hypothesis import given, settings
from hypothesis import strategies as st
from numbered_units import AVAILABLE, BROKEN, LEAVING, LEVELS, PODS, NumberedUnits

from grove.plan.budget import Budget, resolve
from grove.plan.rollout import next_step

CASES = settings(max_examples=2000, deadline=None, derandomize=True, database=None)

replica_counts = st.integers(0, 6)
allowances = st.integers(0, 3)
levels = st.sampled_from(LEVELS)
picks = st.integers(0, 20)
events = st.tuples(st.just("event"), picks, st.just(0))
disturbances = st.one_of(
    events,
    events,
    st.tuples(st.just("fail"), picks, st.just(0)),
    st.tuples(st.just("template"), st.integers(1, 3), st.just(0)),
    st.tuples(st.just("scale"), replica_counts, st.just(0)),
    st.tuples(st.just("budget"), allowances, allowances),
    st.tuples(st.just("pause"), st.integers(0, 1), st.just(0)),
    st.tuples(st.just("look"), st.just(0), st.just(0)),
)
Disturbance = tuple[str, int, int]


def started(replicas: int, unavailable: int, surge: int, level: str) -> NumberedUnits:
    allowed = resolve(unavailable, surge, replicas)
    return NumberedUnits.running(replicas, allowed.max_unavailable, allowed.max_surge, level)


def disturb(units: NumberedUnits, what: Disturbance, wished: list[int]) -> None:
    """One thing from outside. `wished` holds the budget as written; replicas resolve it anew."""
    kind, first, second = what
    if kind == "event":
        pending = units.pending()
        if pending:
            units.happen(pending[first % len(pending)])
    elif kind == "fail":
        running = sorted(i for i, s in units.state.items() if s == AVAILABLE)
        if running:
            units.state[running[first % len(running)]] = BROKEN
    elif kind == "template":
        units.target = first
    elif kind == "scale":
        units.replicas = first
    elif kind == "budget":
        wished[:] = [first, second]
    elif kind == "pause":
        units.paused = bool(first)
    units.budget = resolve(wished[0], wished[1], units.replicas)


def look_and_check(units: NumberedUnits) -> bool:
    """The engine acts once; what it may never do is checked. True when it acted."""
    goal, step = units.look()
    available, standing, extra = units.available, units.standing, units.extra
    acts = bool(step.create or step.surge or step.take_down or step.remove)
    units.do(goal, step)
    if goal.rolling:
        assert units.available >= min(available, units.floor), "the update took more than maxUnavailable"
    assert units.extra <= max(extra, units.budget.max_surge), "more than maxSurge extra"
    if units.pods:
        assert units.standing <= max(standing, units.replicas + units.budget.max_surge), "more than maxSurge extra"
    if units.paused:
        assert not step.take_down, "a paused update took something down"
        assert not step.surge, "a paused update added something"
    if goal.rolling and not acts:
        in_step = all(s == AVAILABLE for s in units.state.values()) and not any(not u.updated for u in units.units())
        assert step.wait is not None or in_step, "an update that neither acts nor says what it waits for"
    assert acts or step.at_rest or step.wait
    return acts


def settle(units: NumberedUnits, order: Sequence[int]) -> None:
    """Nothing new comes from outside; everything that can happen does, in the given order."""
    for turn in range(400):
        while look_and_check(units):
            pass
        pending = units.pending()
        if not pending:
            return
        units.happen(pending[order[turn % len(order)] % len(pending)])
    raise AssertionError(f"never comes to rest: {units.log[-20:]}")


@CASES
@given(
    replica_counts,
    allowances,
    allowances,
    levels,
    st.lists(disturbances, max_size=16),
    st.lists(picks, min_size=1, max_size=5),
)
def test_budgets_hold_and_the_update_ends_whatever_happens(
    replicas: int, unavailable: int, surge: int, level: str, story: list[Disturbance], order: list[int]
) -> None:
    units = started(replicas, unavailable, surge, level)
    wished = [unavailable, surge]
    for what in story:
        disturb(units, what, wished)
        look_and_check(units)
    units.paused = False
    units.target = 9
    settle(units, order)
    assert sorted(units.state) == list(range(units.replicas))
    assert set(units.revision.values()) <= {9}
    assert next_step(units.units(), units.goal()).at_rest


@settings(CASES, max_examples=1000)
@given(replica_counts, allowances, allowances, levels, st.lists(picks, min_size=1, max_size=8))
def test_an_undisturbed_update_keeps_both_bounds_terminating_units_included(
    replicas: int, unavailable: int, surge: int, level: str, order: list[int]
) -> None:
    units = started(replicas, unavailable, surge, level)
    units.target = 2
    for turn in range(300):
        while look_and_check(units):
            assert len(units.state) <= replicas + units.budget.max_surge
            assert units.available >= units.floor
        pending = units.pending()
        if not pending:
            break
        units.happen(pending[order[turn % len(order)] % len(pending)])
    assert units.state == dict.fromkeys(range(replicas), AVAILABLE)
    assert set(units.revision.values()) <= {2}
    assert units.look()[1].at_rest


@settings(CASES, max_examples=1200)
@given(
    st.integers(1, 6),
    allowances,
    allowances,
    levels,
    st.lists(events, max_size=12),
    st.lists(picks, min_size=1, max_size=5),
)
def test_reverting_midway_ends_where_it_began(
    replicas: int, unavailable: int, surge: int, level: str, story: list[Disturbance], order: list[int]
) -> None:
    units = started(replicas, unavailable, surge, level)
    before = (dict(units.revision), dict(units.state))
    units.target = 2
    look_and_check(units)
    for what in story:
        disturb(units, what, [unavailable, surge])
        look_and_check(units)
    units.target = 1
    settle(units, order)
    assert (units.revision, units.state) == before


@settings(CASES, max_examples=600)
@given(
    st.lists(
        st.tuples(st.integers(0, 9), st.booleans(), st.booleans(), st.booleans()), unique_by=lambda u: u[0], max_size=9
    ),
    replica_counts,
    allowances,
    allowances,
    levels,
    st.lists(picks, min_size=1, max_size=5),
)
def test_every_state_that_can_be_found_leads_to_the_goal(
    found: list[tuple[int, bool, bool, bool]],
    replicas: int,
    unavailable: int,
    surge: int,
    level: str,
    order: list[int],
) -> None:
    """The engine keeps nothing: started on any state at all, holes and strays included, it brings it to the goal."""
    units = NumberedUnits(replicas, resolve(unavailable, surge, replicas), level, target=2, opened=True)
    for index, updated, available, leaving in found:
        units.revision[index] = 2 if updated else 1
        units.state[index] = LEAVING if leaving else AVAILABLE if available else BROKEN
    settle(units, order)
    assert units.state == dict.fromkeys(range(replicas), AVAILABLE)
    assert set(units.revision.values()) <= {2}


@settings(CASES, max_examples=600)
@given(
    st.integers(0, 6),
    st.lists(st.tuples(st.booleans(), st.booleans(), st.booleans()), max_size=9),
    levels,
)
def test_without_an_update_only_the_count_is_brought_right(
    replicas: int, found: list[tuple[bool, bool, bool]], level: str
) -> None:
    """OnDelete, or not this unit's turn: outdated units stay unless there are too many."""
    units = NumberedUnits(replicas, Budget(), level, target=2)
    for index, (updated, available, leaving) in enumerate(found):
        units.revision[index] = 2 if updated else 1
        units.state[index] = LEAVING if leaving else AVAILABLE if available else BROKEN
    goal = units.goal()
    still = type(goal)(replicas, Budget(), by_count=level == PODS)
    step = next_step(units.units(), still)
    assert not step.take_down
    assert not step.surge
    live = [i for i, s in units.state.items() if s != LEAVING]
    surplus = max(0, len(live) - replicas) if level == PODS else sum(i >= replicas for i in live)
    assert len(step.remove) == surplus
