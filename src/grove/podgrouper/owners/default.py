"""Every kind that has no rule of its own, ReplicaSets and StatefulSets among them: one group for all pods of the owner,
each pod for itself. Some kinds differ in nothing but the priority they have where none is named.
"""

from __future__ import annotations

from grove.plan.actions import Why
from grove.podgrouper.grouping import Grouping
from grove.podgrouper.inheritance import inherited
from grove.podgrouper.subject import Family, Subject


def one_group(subject: Subject) -> Grouping | Why:
    return inherited(subject.top, subject.pod, subject.around)


def with_priority(priority: str) -> Family:
    """The same at another priority."""

    def group(subject: Subject) -> Grouping | Why:
        return inherited(subject.top, subject.pod, subject.around, priority)

    return group
