"""The writes that tie a pod to its group."""

from __future__ import annotations

from typing import Any

from grouper_objects import pod

from grove.podgrouper.marks import mark
from grove.testing.patch import json_patch


def applied(name: str, group: str, part: str = "", **fields: Any) -> dict[str, Any]:
    subject = pod(name, **fields)
    patch = mark(subject, group, part)
    assert patch is not None
    before = {"metadata": {"uid": subject.metadata.uid, "resourceVersion": "7", **fields}}
    result: dict[str, Any] = json_patch(before, list(patch.operations))["metadata"]
    return result


def test_pod_without_annotations_gets_the_map() -> None:
    assert applied("p", "g")["annotations"] == {"pod-group-name": "g"}


def test_other_annotations_and_labels_stay() -> None:
    found = applied("p", "g", "part", annotations={"a": "1"}, labels={"b": "2"})
    assert found["annotations"] == {"a": "1", "pod-group-name": "g"}
    assert found["labels"] == {"b": "2", "kai.scheduler/subgroup-name": "part"}


def test_stale_part_is_removed() -> None:
    found = applied("p", "g", labels={"b": "2", "kai.scheduler/subgroup-name": "old"})
    assert found["labels"] == {"b": "2"}


def test_marked_pod_is_not_written() -> None:
    assert mark(pod(annotations={"pod-group-name": "g"}), "g") is None


def test_first_annotation_of_another_writer_cannot_be_lost() -> None:
    patch = mark(pod(), "g")
    assert patch is not None
    assert {"op": "test", "path": "/metadata/resourceVersion", "value": "7"} in patch.operations
