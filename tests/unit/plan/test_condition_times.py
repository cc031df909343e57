"""Conditions: the transition time moves with the status and never with the words."""

from __future__ import annotations

from datetime import timedelta

from sample_sets import LATER, NOW

from grove.api.meta import Condition
from grove.api.reasons import Reason
from grove.plan.conditions import ConditionWriter, moment, timestamp


def test_a_condition_that_keeps_its_status_keeps_its_time_and_takes_new_words() -> None:
    before = Condition(type="Ready", status="True", reason="Old", last_transition_time=timestamp(NOW))
    written = ConditionWriter([before], 7, LATER).set("Ready", True, Reason.ALL_AVAILABLE, "new words")
    assert written.last_transition_time == timestamp(NOW)
    assert (written.reason, written.message, written.observed_generation) == ("AllReplicasAvailable", "new words", 7)


def test_a_condition_that_changes_its_status_takes_the_time_of_now() -> None:
    before = Condition(type="Ready", status="True", last_transition_time=timestamp(NOW))
    written = ConditionWriter([before], 1, LATER).set("Ready", False, Reason.NOT_AVAILABLE)
    assert written.last_transition_time == timestamp(LATER)


def test_since_tells_only_of_the_status_that_was_recorded() -> None:
    before = Condition(type="X", status="True", last_transition_time=timestamp(NOW))
    writer = ConditionWriter([before], 1, LATER)
    assert writer.since("X", "True") == NOW
    assert writer.since("X", "False") is None
    assert writer.since("Y", "True") is None


def test_times_are_whole_seconds_in_utc_and_read_back() -> None:
    written = timestamp(NOW + timedelta(milliseconds=700))
    assert written == "2026-01-01T00:00:00Z"
    assert moment(written) == NOW
