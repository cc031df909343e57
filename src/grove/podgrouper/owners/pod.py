"""Pods without an owner: a group each. The pods of one Spark application share the group its selector names."""

from __future__ import annotations

from dataclasses import replace

from grove.api.core import Pod
from grove.plan.actions import Why
from grove.podgrouper.grouping import Grouping
from grove.podgrouper.inheritance import inherited
from grove.podgrouper.subject import Subject

_SPARK_NAME = "spark-app-name"
_SPARK_SELECTOR = "spark-app-selector"


def bare_pod(subject: Subject) -> Grouping | Why:
    found = inherited(subject.top, subject.pod, subject.around)
    return replace(found, name=spark_application(subject.pod) or found.name)


def spark_application(pod: Pod) -> str:
    """The Spark application that a pod is of; empty for other pods."""
    labels = pod.metadata.labels
    return labels.get(_SPARK_SELECTOR, "") if _SPARK_NAME in labels else ""
