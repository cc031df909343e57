"""Jobs: a group for each pod, owned by the Job. The pods of a CronJob share the group of the Job that made them."""

from __future__ import annotations

from dataclasses import replace

from grove.plan.actions import Why
from grove.podgrouper.grouping import Grouping
from grove.podgrouper.inheritance import inherited
from grove.podgrouper.subject import Subject


def job(subject: Subject) -> Grouping | Why:
    found = inherited(subject.top, subject.pod, subject.around)
    return replace(found, name=f"pg-{subject.pod.metadata.name}-{subject.top.uid}")


def cron_job(subject: Subject) -> Grouping | Why:
    of_job = subject.ancestor("Job", "batch") or subject.top
    return inherited(of_job, subject.pod, subject.around)
