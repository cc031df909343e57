"""Owners whose pods start each for itself: minimum one.

One group holds all pods of the owner, except where pods come and go one by one: a Deployment's and a Job's pods have a
group each, the former owned by the pod. A CronJob's pods are grouped by their Job.
"""

from __future__ import annotations

from dataclasses import replace

from grove.api.core import Pod
from grove.plan.actions import Why
from grove.podgrouper.grouping import Grouping
from grove.podgrouper.inheritance import inherited
from grove.podgrouper.kinds import BUILD, INFERENCE
from grove.podgrouper.subject import Subject, pod_as_owner

_SPARK_NAME = "spark-app-name"
_SPARK_SELECTOR = "spark-app-selector"


def one_group(subject: Subject) -> Grouping | Why:
    """The rule for every kind that has none of its own."""
    return inherited(subject.top, subject.pod, subject.around)


def notebook(subject: Subject) -> Grouping | Why:
    return inherited(subject.top, subject.pod, subject.around, BUILD)


def inference(subject: Subject) -> Grouping | Why:
    return inherited(subject.top, subject.pod, subject.around, INFERENCE)


def bare_pod(subject: Subject) -> Grouping | Why:
    """A group for the pod alone; the pods of one Spark application share the one its selector names."""
    found = inherited(subject.top, subject.pod, subject.around)
    return replace(found, name=spark_application(subject.pod) or found.name)


def spark_application(pod: Pod) -> str:
    """The Spark application that a pod is of; empty for other pods."""
    labels = pod.metadata.labels
    return labels.get(_SPARK_SELECTOR, "") if _SPARK_NAME in labels else ""


def deployment(subject: Subject) -> Grouping | Why:
    meta = subject.pod.metadata
    found = inherited(subject.top, subject.pod, subject.around, INFERENCE)
    return replace(found, name=f"pg-{meta.name}-{meta.uid}", owner=pod_as_owner(subject.pod).reference())


def job(subject: Subject) -> Grouping | Why:
    found = inherited(subject.top, subject.pod, subject.around)
    return replace(found, name=f"pg-{subject.pod.metadata.name}-{subject.top.uid}")


def cron_job(subject: Subject) -> Grouping | Why:
    of_job = subject.ancestor("Job", "batch") or subject.top
    return inherited(of_job, subject.pod, subject.around)


def run_ai_job(subject: Subject) -> Grouping | Why:
    """The pods of one replica share a group: their name without its last part."""
    found = inherited(subject.top, subject.pod, subject.around)
    stem = subject.pod.metadata.name.rpartition("-")[0] or subject.pod.metadata.name
    return replace(found, name=f"pg-{stem}-{subject.top.uid}")
