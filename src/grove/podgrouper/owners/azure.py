"""Azure ML jobs: as many pods as the job has nodes."""

from __future__ import annotations

from dataclasses import replace

from grove.plan.actions import Why
from grove.podgrouper.grouping import Grouping
from grove.podgrouper.inheritance import inherited
from grove.podgrouper.subject import Subject, at, count, unreadable


def azure_job(subject: Subject) -> Grouping | Why:
    nodes = count(at(subject.top.spec, "job", "options", "envs", "AZUREML_NODE_COUNT"))
    if nodes is None:
        return unreadable(subject.top, "spec.job.options.envs.AZUREML_NODE_COUNT is missing")
    return replace(inherited(subject.top, subject.pod, subject.around), min_member=nodes)
