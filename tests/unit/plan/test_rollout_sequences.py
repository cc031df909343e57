"""Golden step sequences: what an update does, in which order, for every worked example of the design."""

from __future__ import annotations

import pytest
from numbered_units import GROUP_REPLICAS, LEVELS, SET_REPLICAS, NumberedUnits

REPLICAS = (GROUP_REPLICAS, SET_REPLICAS)


def roll(units: NumberedUnits, target: int = 2) -> list[str]:
    """The update to a revision, with one thing happening at a time, the oldest first."""
    units.target = target
    for _ in range(200):
        goal, step = units.look()
        units.do(goal, step)
        pending = units.pending()
        if step.at_rest:
            assert not pending
            return units.log
        if pending and not (step.create or step.surge or step.take_down or step.remove):
            assert step.wait is not None
            units.happen(pending[0] if units.state[pending[0]] == "leaving" else pending[-1])
    raise AssertionError(f"the update does not end: {units.log}")


def test_pods_with_one_extra_and_none_missing_surge_first_and_fill_the_lowest_free_index() -> None:
    assert roll(NumberedUnits.running(3, unavailable=0, surge=1)) == [
        "surge 3",
        "available 3",
        "take down 0",
        "gone 0",
        "create 0",
        "available 0",
        "take down 1",
        "gone 1",
        "create 1",
        "available 1",
        "take down 2",
        "gone 2",
        "create 2",
        "available 2",
        "remove 3",
        "gone 3",
    ]


@pytest.mark.parametrize("level", REPLICAS)
def test_replicas_with_one_extra_and_none_missing_are_recreated_one_after_the_other(level: str) -> None:
    """The example for scaling groups (all replicas in the base gang) and the one for set replicas, same numbers."""
    assert roll(NumberedUnits.running(3, unavailable=0, surge=1, level=level)) == [
        "surge 3",
        "available 3",
        "take down 0",
        "available 0",
        "take down 1",
        "available 1",
        "take down 2",
        "available 2",
        "remove 3",
        "gone 3",
    ]


@pytest.mark.parametrize("level", REPLICAS)
def test_two_replicas_with_one_extra_never_miss_one(level: str) -> None:
    units = NumberedUnits.running(2, unavailable=0, surge=1, level=level)
    assert roll(units) == [
        "surge 2",
        "available 2",
        "take down 0",
        "available 0",
        "take down 1",
        "available 1",
        "remove 2",
        "gone 2",
    ]


@pytest.mark.parametrize("level", REPLICAS)
def test_two_replicas_that_may_both_be_missing_go_at_once(level: str) -> None:
    assert roll(NumberedUnits.running(2, unavailable=2, surge=0, level=level)) == [
        "take down 0",
        "take down 1",
        "available 1",
        "available 0",
    ]


@pytest.mark.parametrize("level", LEVELS)
def test_the_default_is_one_at_a_time_lowest_index_first(level: str) -> None:
    log = roll(NumberedUnits.running(3, unavailable=1, surge=0, level=level))
    assert [entry for entry in log if entry.startswith("take down")] == ["take down 0", "take down 1", "take down 2"]
    between = log[log.index("take down 0") : log.index("take down 1")]
    assert between[-1] == "available 0"


@pytest.mark.parametrize("level", LEVELS)
def test_five_with_two_missing_and_one_extra_use_both_at_once(level: str) -> None:
    log = roll(NumberedUnits.running(5, unavailable=2, surge=1, level=level))
    assert log[:3] == ["take down 0", "take down 1", "surge 5"]
    assert log[-2:] == ["remove 5", "gone 5"]
    taken = [entry for entry in log if entry.startswith("take down")]
    assert taken == [f"take down {i}" for i in range(5)]


@pytest.mark.parametrize("level", REPLICAS)
def test_four_with_two_missing_go_in_pairs(level: str) -> None:
    log = roll(NumberedUnits.running(4, unavailable=2, surge=0, level=level))
    assert log[:2] == ["take down 0", "take down 1"]
    assert [entry for entry in log if entry.startswith("take down")][2:] == ["take down 2", "take down 3"]


@pytest.mark.parametrize("level", LEVELS)
def test_a_broken_unit_goes_first_and_costs_no_healthy_one(level: str) -> None:
    units = NumberedUnits.running(3, unavailable=1, surge=0, level=level)
    units.state[2] = "broken"
    assert roll(units)[0] == "take down 2"
    between = units.log[: units.log.index("take down 0")]
    assert "available 2" in between


@pytest.mark.parametrize("level", LEVELS)
def test_reverting_keeps_the_extra_unit_as_cover_until_what_was_taken_down_is_back(level: str) -> None:
    """Removing it at once would leave fewer available than the budget allows."""
    units = NumberedUnits.running(3, unavailable=0, surge=1, level=level)
    units.target = 2
    while "take down 0" not in units.log:
        units.do(*units.look())
        if units.state.get(3) == "starting":
            units.happen(3)
    units.log.clear()
    log = roll(units, target=1)
    assert log.index("available 0") < log.index("remove 3")
    assert not any(entry.startswith("surge") for entry in log)


@pytest.mark.parametrize("level", LEVELS)
def test_an_extra_unit_that_never_came_up_is_replaced_by_a_corrected_template(level: str) -> None:
    units = NumberedUnits.running(3, unavailable=0, surge=1, level=level)
    units.target = 2
    units.do(*units.look())
    assert units.log == ["surge 3"]
    units.log.clear()
    assert roll(units, target=3)[:4] == ["remove 3", "gone 3", "surge 3", "available 3"]


@pytest.mark.parametrize("level", LEVELS)
def test_a_stuck_surge_gives_way_when_the_budget_is_changed_to_one_missing(level: str) -> None:
    units = NumberedUnits.running(3, unavailable=0, surge=1, level=level)
    units.target = 2
    units.do(*units.look())
    units.budget = type(units.budget)(1, 0)
    units.log.clear()
    log = roll(units)
    assert log[:2] == ["remove 3", "take down 0"]


@pytest.mark.parametrize("level", REPLICAS)
def test_a_wait_names_the_unit_it_waits_for(level: str) -> None:
    units = NumberedUnits.running(2, unavailable=0, surge=1, level=level)
    units.target = 2
    units.do(*units.look())
    _, step = units.look()
    assert step.wait is not None
    assert step.wait.reason == "WaitingForSurge"
    assert "2" in step.wait.message
    units.happen(2)
    units.do(*units.look())
    _, step = units.look()
    assert step.wait is not None
    assert step.wait.reason == "WaitingForAvailability"
    assert "unit 0 not available yet (2 available, at least 2 must stay available)" in step.wait.message
