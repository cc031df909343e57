"""Deployments: their pods come and go one by one, so each has a group of its own, which goes with the pod."""

from __future__ import annotations

from dataclasses import replace

from grove.plan.actions import Why
from grove.podgrouper.grouping import Grouping
from grove.podgrouper.inheritance import inherited
from grove.podgrouper.kinds import INFERENCE
from grove.podgrouper.subject import Subject, pod_as_owner


def deployment(subject: Subject) -> Grouping | Why:
    meta = subject.pod.metadata
    found = inherited(subject.top, subject.pod, subject.around, INFERENCE)
    return replace(found, name=f"pg-{meta.name}-{meta.uid}", owner=pod_as_owner(subject.pod).reference())
