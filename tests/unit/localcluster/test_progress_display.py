"""Plain progress: a line when a step begins, a line when it ends, with what became of it."""

from __future__ import annotations

import io

import pytest

from grove.localcluster.progress import PlainProgress, reporting


def test_step_is_reported_at_both_ends() -> None:
    stream = io.StringIO()
    with reporting(PlainProgress(stream), "starting etcd"):
        pass
    begin, end = stream.getvalue().splitlines()
    assert begin.endswith("starting etcd ...")
    assert "starting etcd done (" in end


def test_failing_step_is_reported_and_the_error_passed_on() -> None:
    stream = io.StringIO()
    with pytest.raises(ValueError, match="broken"), reporting(PlainProgress(stream), "starting etcd"):
        raise ValueError("broken")
    assert "starting etcd FAILED (" in stream.getvalue()


def test_quick_succession_of_details_stays_silent() -> None:
    stream = io.StringIO()
    progress = PlainProgress(stream)
    progress.begin("building")
    for index in range(100):
        progress.detail("building", f"package {index}")
    assert len(stream.getvalue().splitlines()) == 1
