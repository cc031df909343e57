"""LeaderWorkerSets: a gang for each group of a leader and its workers."""

from __future__ import annotations

from dataclasses import replace

from grove.plan.actions import Why
from grove.podgrouper.grouping import Grouping
from grove.podgrouper.inheritance import inherited
from grove.podgrouper.subject import Subject, at, count, unreadable

_LWS = "leaderworkerset.sigs.k8s.io"


def leader_worker_set(subject: Subject) -> Grouping | Why:
    """A group starts whole. With LeaderReady its workers come only after the leader runs, so it starts alone."""
    top, meta = subject.top, subject.pod.metadata
    size = count(at(top.spec, "leaderWorkerTemplate", "size"))
    if size is None or size <= 0:
        return unreadable(top, "spec.leaderWorkerTemplate.size is not above 0")
    if at(top.spec, "startupPolicy") == "LeaderReady":
        leads = meta.labels.get(f"{_LWS}/worker-index") == "0"
        noted = meta.annotations.get(f"{_LWS}/size", "")
        size = 1 if leads and not subject.pod.spec.node_name else int(noted) if noted.isdigit() else size
    found = replace(inherited(top, subject.pod, subject.around), min_member=size)
    index = meta.labels.get(f"{_LWS}/group-index", "")
    return replace(found, name=f"{found.name}-group-{int(index)}") if index.isdigit() else found
