"""What ties a pod to its PodGroup: KAI finds the group by an annotation and the part of it by a label.

A label without a part, or a part without a label, makes the pod invisible to KAI, so both are corrected together.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from grove.api.core import Pod
from grove.api.kinds import PODS
from grove.api.reasons import Reason
from grove.plan.actions import Patch, Why
from grove.schedulers import kai

Marks = tuple[str | None, str | None]
"""The group and the part a pod points at."""


def marks_of(pod: Pod) -> Marks:
    return pod.metadata.annotations.get(kai.POD_GROUP_ANNOTATION), pod.metadata.labels.get(kai.SUBGROUP_LABEL)


def same_but_for_marks(old: Pod, new: Pod) -> bool:
    """Whether labels and annotations differ in nothing but the marks."""
    before, after = old.metadata, new.metadata
    return _without(before.annotations, kai.POD_GROUP_ANNOTATION) == _without(
        after.annotations, kai.POD_GROUP_ANNOTATION
    ) and _without(before.labels, kai.SUBGROUP_LABEL) == _without(after.labels, kai.SUBGROUP_LABEL)


def _without(values: Mapping[str, str], key: str) -> Mapping[str, str]:
    return {k: v for k, v in values.items() if k != key} if key in values else values


def mark(pod: Pod, group: str, part: str = "") -> Patch | None:
    """The write that makes the pod point at this group and part; None when it does already."""
    meta = pod.metadata
    wrong_group = meta.annotations.get(kai.POD_GROUP_ANNOTATION) != group
    wrong_part = meta.labels.get(kai.SUBGROUP_LABEL, "") != part
    if not wrong_group and not wrong_part:
        return None
    operations: list[Mapping[str, Any]] = [{"op": "test", "path": "/metadata/uid", "value": meta.uid}]
    if wrong_group:
        operations += _set(meta.resource_version, "annotations", meta.annotations, kai.POD_GROUP_ANNOTATION, group)
    if wrong_part and part:
        operations += _set(meta.resource_version, "labels", meta.labels, kai.SUBGROUP_LABEL, part)
    elif wrong_part:
        operations.append({"op": "remove", "path": _path("labels", kai.SUBGROUP_LABEL)})
    place = f"part {part} of PodGroup {group}" if part else f"PodGroup {group}"
    why = Why(Reason.POD_UNGROUPED, f"pod {meta.name} belongs to {place}")
    return Patch(PODS, meta.namespace, meta.name, tuple(operations), why)


def unmark(pod: Pod, why: Why) -> Patch | None:
    """The write that takes a pod out of its group, so that it waits; None when it is in none."""
    meta = pod.metadata
    operations: list[Mapping[str, Any]] = [{"op": "test", "path": "/metadata/uid", "value": meta.uid}]
    if kai.POD_GROUP_ANNOTATION in meta.annotations:
        operations.append({"op": "remove", "path": _path("annotations", kai.POD_GROUP_ANNOTATION)})
    if kai.SUBGROUP_LABEL in meta.labels:
        operations.append({"op": "remove", "path": _path("labels", kai.SUBGROUP_LABEL)})
    return Patch(PODS, meta.namespace, meta.name, tuple(operations), why) if len(operations) > 1 else None


def _set(version: str, field: str, present: Mapping[str, str], key: str, value: str) -> list[Mapping[str, Any]]:
    if present:
        return [{"op": "add", "path": _path(field, key), "value": value}]
    # The whole map is added here, so the pod must be the one seen: another writer's first entry would be lost.
    return [
        {"op": "test", "path": "/metadata/resourceVersion", "value": version},
        {"op": "add", "path": f"/metadata/{field}", "value": {key: value}},
    ]


def _path(field: str, key: str) -> str:
    return f"/metadata/{field}/{key.replace('~', '~0').replace('/', '~1')}"
