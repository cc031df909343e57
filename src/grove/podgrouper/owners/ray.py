"""Ray: a cluster starts when its head and the minimum of every worker group can be placed together."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from grove.plan.actions import Why
from grove.podgrouper.grouping import Grouping
from grove.podgrouper.inheritance import inherited
from grove.podgrouper.subject import Subject, at, count

GROUP = "ray.io"
_PRIORITY = "ray.io/priority-class-name"
_CLUSTER_TEMPLATES = {"RayJob": "rayClusterSpec", "RayService": "rayClusterConfig"}


def ray(subject: Subject) -> Grouping | Why:
    """RayJob and RayService make a RayCluster, which stands between them and its pods and holds the counts.

    The pod that submits a RayJob is the job's own: it goes with the cluster the job describes, and alone where the job
    uses a cluster that exists already.
    """
    top = subject.top
    cluster = subject.ancestor("RayCluster", GROUP)
    spec = cluster.spec if cluster else at(top.spec, _CLUSTER_TEMPLATES.get(top.kind, ""))
    found = replace(inherited(top, subject.pod, subject.around), min_member=_minimum(spec))
    named = top.metadata.labels.get(_PRIORITY)
    return replace(found, priority_class_name=named) if named else found


def _minimum(cluster_spec: Any) -> int:
    head = at(cluster_spec, "headGroupSpec")
    total = _positive(at(head, "minReplicas")) or _positive(at(head, "replicas")) or 1
    workers: Any = at(cluster_spec, "workerGroupSpecs")
    for group in workers if isinstance(workers, list) else ():
        if at(group, "suspended") is True or at(group, "suspend") is True:
            continue
        hosts = count(at(group, "numOfHosts"))
        total += _workers(group) * (1 if hosts is None else hosts)
    return total


def _workers(group: Any) -> int:
    """Ray itself runs the minimum where fewer replicas are asked for, and never more than the maximum."""
    least = _positive(at(group, "minReplicas")) or _positive(at(group, "replicas"))
    most = count(at(group, "maxReplicas"))
    return least if most is None else min(least, most)


def _positive(value: Any) -> int:
    return max(0, count(value) or 0)
