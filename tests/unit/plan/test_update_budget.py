"""Budgets: percentages, clamping, and never both zero."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from grove.api.int_or_percent import resolved
from grove.api.meta import IntOrPercent
from grove.plan.budget import Budget, resolve


@pytest.mark.parametrize(
    ("value", "replicas", "down", "up"),
    [("25%", 10, 2, 3), ("50%", 3, 1, 2), ("100%", 4, 4, 4), ("1%", 10, 0, 1), ("0%", 10, 0, 0), (5, 10, 5, 5)],
)
def test_maximum_unavailable_rounds_down_and_surge_rounds_up(
    value: IntOrPercent, replicas: int, down: int, up: int
) -> None:
    assert resolved(value, replicas, round_up=False) == down
    assert resolved(value, replicas, round_up=True) == up


def test_a_percentage_is_exact_where_floating_point_is_not() -> None:
    assert resolved("29%", 100, round_up=True) == 29
    assert resolved("7%", 100, round_up=True) == 7
    assert resolved("55%", 100, round_up=True) == 55


def test_text_that_is_no_amount_is_refused_by_name() -> None:
    with pytest.raises(ValueError, match="half"):
        resolved("half", 10, round_up=True)


def test_the_default_is_one_missing_and_none_extra() -> None:
    assert resolve(None, None, 3) == Budget(1, 0)


def test_both_zero_after_rounding_falls_back_to_one_missing() -> None:
    assert resolve("10%", 0, 3) == Budget(1, 0)
    assert resolve(0, 0, 3) == Budget(1, 0)


def test_more_missing_than_there_are_is_clamped_after_a_scale_in() -> None:
    assert resolve(5, 0, 2) == Budget(2, 0)
    assert resolve(5, 1, 0) == Budget(0, 1)


@settings(max_examples=300, deadline=None, derandomize=True, database=None)
@given(
    st.one_of(st.none(), st.integers(-3, 20), st.integers(0, 200).map(lambda n: f"{n}%")),
    st.one_of(st.none(), st.integers(-3, 20), st.integers(0, 200).map(lambda n: f"{n}%")),
    st.integers(0, 50),
)
def test_a_resolved_budget_can_always_move(
    unavailable: IntOrPercent | None, surge: IntOrPercent | None, replicas: int
) -> None:
    found = resolve(unavailable, surge, replicas)
    assert found.max_unavailable + found.max_surge >= 1
    assert 0 <= found.max_unavailable <= max(1, replicas)
    assert found.max_surge >= 0
