"""Knative services: a gang for each revision, of as many pods as the revision starts with."""

from __future__ import annotations

from dataclasses import replace

from grove.plan.actions import Why
from grove.podgrouper.grouping import Grouping, Owner
from grove.podgrouper.inheritance import inherited
from grove.podgrouper.kinds import INFERENCE
from grove.podgrouper.subject import Subject

_MIN_SCALE = "autoscaling.knative.dev/min-scale"


def knative_service(subject: Subject) -> Grouping | Why:
    revision = subject.ancestor("Revision", "serving.knative.dev")
    if revision is None:
        return inherited(subject.top, subject.pod, subject.around, INFERENCE)
    found = inherited(revision, subject.pod, subject.around, INFERENCE)
    return replace(found, min_member=_scale(revision))


def _scale(revision: Owner) -> int:
    noted = revision.metadata.annotations.get(_MIN_SCALE, "")
    return max(1, int(noted)) if noted.isdigit() else 1
