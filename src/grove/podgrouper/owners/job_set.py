"""JobSets: one gang for all jobs, or a gang for each replicated job where jobs wait for others."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from grove.plan.actions import Why
from grove.podgrouper.grouping import Grouping
from grove.podgrouper.inheritance import inherited
from grove.podgrouper.subject import Subject, at, count, unreadable

_REPLICATED_JOB = "jobset.sigs.k8s.io/replicatedjob-name"


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
