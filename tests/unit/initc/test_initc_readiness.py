"""Which pods count for which parent."""

from __future__ import annotations

from typing import Any

import pytest

from grove.initc.arguments import Parent
from grove.initc.readiness import Readiness, counts


def pod(name: str, clique: str | None, *, ready: str = "True", **metadata: Any) -> dict[str, Any]:
    labels = {} if clique is None else {"grove.io/podclique": clique}
    return {
        "metadata": {"name": name, "labels": labels, **metadata},
        "status": {"conditions": [{"type": "Initialized", "status": "True"}, {"type": "Ready", "status": ready}]},
    }


@pytest.mark.parametrize(
    ("seen", "expected"),
    [
        (pod("a", "a"), True),
        (pod("a", "a", ready="False"), False),
        (pod("a", "a", ready="Unknown"), False),
        (pod("a", "a", deletionTimestamp="2026-01-01T00:00:00Z"), False),
        ({"metadata": {"name": "a"}}, False),
        ({"metadata": {"name": "a"}, "status": {}}, False),
        ({"metadata": {"name": "a"}, "status": {"conditions": None}}, False),
    ],
)
def test_pod_counts_when_it_is_ready_and_stays(seen: dict[str, Any], expected: bool) -> None:
    assert counts(seen) is expected


def test_every_parent_needs_its_own_minimum() -> None:
    readiness = Readiness([Parent("a", 2), Parent("b", 1)])
    readiness.see(pod("a-0", "a"))
    readiness.see(pod("b-0", "b"))
    assert not readiness.complete
    assert str(readiness) == "a: 1 of 2 ready"
    readiness.see(pod("a-1", "a"))
    assert readiness.complete


def test_parent_is_named_by_the_label_not_by_the_beginning_of_the_name() -> None:
    readiness = Readiness([Parent("w-0-pc", 1)])
    readiness.see(pod("w-0-pc-a-0", "w-0-pc-a"))
    readiness.see(pod("w-0-pc-0", None))
    assert not readiness.complete
    readiness.see(pod("anything", "w-0-pc"))
    assert readiness.complete


@pytest.mark.parametrize(
    "later", [pod("a-0", "a", ready="False"), pod("a-0", "a", deletionTimestamp="2026-01-01T00:00:00Z")]
)
def test_pod_that_stops_being_ready_or_staying_stops_counting(later: dict[str, Any]) -> None:
    readiness = Readiness([Parent("a", 1)])
    readiness.see(pod("a-0", "a"))
    readiness.see(later)
    assert not readiness.complete


def test_pod_that_is_gone_or_changed_its_clique_stops_counting() -> None:
    readiness = Readiness([Parent("a", 1), Parent("b", 1)])
    readiness.see(pod("x", "a"))
    readiness.see(pod("x", "b"))
    assert str(readiness) == "a: 0 of 1 ready"
    readiness.forget(pod("x", "a"))
    assert str(readiness) == "a: 0 of 1 ready, b: 0 of 1 ready"
