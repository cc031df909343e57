"""Ray: a cluster starts when its head and the minimum of every worker group can be placed together."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from grove.plan.actions import Why
from grove.podgrouper.grouping import Grouping, Owner
from grove.podgrouper.inheritance import inherited
from grove.podgrouper.subject import Subject, at, count, unreadable

GROUP = "ray.io"
_PRIORITY = "ray.io/priority-class-name"


def ray(subject: Subject) -> Grouping | Why:
    """RayJob and RayService make a RayCluster, which stands between them and the pod and holds the counts."""
    top = subject.top
    cluster = subject.ancestor("RayCluster", GROUP)
    if cluster is None:
        return unreadable(top, "no RayCluster stands between it and the pod")
    minimum = _minimum(cluster)
    if isinstance(minimum, Why):
        return minimum
    found = replace(inherited(top, subject.pod, subject.around), min_member=minimum)
    named = top.metadata.labels.get(_PRIORITY)
    return replace(found, priority_class_name=named) if named else found


def _minimum(cluster: Owner) -> int | Why:
    head = at(cluster.spec, "headGroupSpec")
    total = _positive(at(head, "minReplicas")) or _positive(at(head, "replicas")) or 1
    workers: Any = at(cluster.spec, "workerGroupSpecs")
    for index, group in enumerate(workers if isinstance(workers, list) else ()):
        if at(group, "suspended") is True or at(group, "suspend") is True:
            continue
        wanted, least = count(at(group, "replicas")) or 0, count(at(group, "minReplicas")) or 0
        if least > wanted:
            problem = f"spec.workerGroupSpecs[{index}] asks for {wanted} replicas and at least {least}"
            return unreadable(cluster, problem)
        hosts = count(at(group, "numOfHosts"))
        total += (least or wanted) * (1 if hosts is None else hosts)
    return total


def _positive(value: Any) -> int:
    return max(0, count(value) or 0)
