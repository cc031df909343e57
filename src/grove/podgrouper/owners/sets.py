"""Owners that run several gangs at once: one PodGroup per group of a LeaderWorkerSet, per replicated job of a JobSet,
per revision of a Knative service.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from grove.plan.actions import Why
from grove.podgrouper.grouping import Grouping, Owner
from grove.podgrouper.inheritance import inherited
from grove.podgrouper.kinds import INFERENCE
from grove.podgrouper.subject import Subject, at, count, unreadable

_LWS = "leaderworkerset.sigs.k8s.io"
_REPLICATED_JOB = "jobset.sigs.k8s.io/replicatedjob-name"
_MIN_SCALE = "autoscaling.knative.dev/min-scale"


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


def job_set(subject: Subject) -> Grouping | Why:
    """Jobs that start in order are gangs of their own, since a later one is made only when the earlier ones run.

    The order is the set's, or is said by what a job depends on; a set whose jobs depend on others is in any order
    otherwise.
    """
    top = subject.top
    listed: Any = at(top.spec, "replicatedJobs")
    jobs = listed if isinstance(listed, list) else []
    sizes = {each.get("name", ""): _pods(each) for each in jobs}
    found = inherited(top, subject.pod, subject.around)
    in_order = (at(top.spec, "startupPolicy", "startupPolicyOrder") or "InOrder") == "InOrder"
    if not in_order and not any(at(each, "dependsOn") for each in jobs):
        total = sum(sizes.values())
        return (
            replace(found, min_member=total) if total > 0 else unreadable(top, "spec.replicatedJobs asks for no pods")
        )
    name = subject.pod.metadata.labels.get(_REPLICATED_JOB, "")
    if sizes.get(name, 0) <= 0:
        return unreadable(top, f"spec.replicatedJobs asks for no pods of '{name}'")
    return replace(found, name=f"{found.name}-{name}", min_member=sizes[name])


def _pods(replicated_job: Any) -> int:
    spec = at(replicated_job, "template", "spec")
    replicas, parallelism = count(at(replicated_job, "replicas")), count(at(spec, "parallelism"))
    at_once = 1 if parallelism is None else parallelism
    completions = count(at(spec, "completions"))
    return (1 if replicas is None else replicas) * (at_once if completions is None else min(at_once, completions))


def knative_service(subject: Subject) -> Grouping | Why:
    revision = subject.ancestor("Revision", "serving.knative.dev")
    if revision is None:
        return inherited(subject.top, subject.pod, subject.around, INFERENCE)
    found = inherited(revision, subject.pod, subject.around, INFERENCE)
    return replace(found, min_member=_scale(revision))


def _scale(revision: Owner) -> int:
    noted = revision.metadata.annotations.get(_MIN_SCALE, "")
    return max(1, int(noted)) if noted.isdigit() else 1


def azure_job(subject: Subject) -> Grouping | Why:
    nodes = count(at(subject.top.spec, "job", "options", "envs", "AZUREML_NODE_COUNT"))
    if nodes is None:
        return unreadable(subject.top, "spec.job.options.envs.AZUREML_NODE_COUNT is missing")
    return replace(inherited(subject.top, subject.pod, subject.around), min_member=nodes)
