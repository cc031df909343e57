"""Run:ai's jobs: the pods of one replica share a group, named by what their names have in common."""

from __future__ import annotations

from dataclasses import replace

from grove.plan.actions import Why
from grove.podgrouper.grouping import Grouping
from grove.podgrouper.inheritance import inherited
from grove.podgrouper.subject import Subject


def run_ai_job(subject: Subject) -> Grouping | Why:
    found = inherited(subject.top, subject.pod, subject.around)
    stem = subject.pod.metadata.name.rpartition("-")[0] or subject.pod.metadata.name
    return replace(found, name=f"pg-{stem}-{subject.top.uid}")
