"""Kubeflow's training jobs: all replicas start together, unless the job's scheduling policy names a smaller minimum.

A role that does not say how many replicas it has, has one: that is what the jobs' own controllers run.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Any

from grove.plan.actions import Why
from grove.podgrouper.grouping import Grouping, Owner
from grove.podgrouper.inheritance import inherited
from grove.podgrouper.subject import Family, Subject, at, count, unreadable

JOB_NAME = "training.kubeflow.org/job-name"
JOB_ROLE = "training.kubeflow.org/job-role"
_LAUNCHER = "launcher"


def training_job(replica_field: str, required: Iterable[str] = ()) -> Family:
    """A job whose replicas stand under `spec.<replica_field>`, with the roles that must be there."""
    roles = tuple(required)

    def group(subject: Subject) -> Grouping | Why:
        minimum = _minimum(subject.top, replica_field, roles)
        return _with_minimum(subject, minimum)

    return group


def pytorch(subject: Subject) -> Grouping | Why:
    """An elastic job may start with fewer workers than it would like."""
    top = subject.top
    minimum = _minimum(top, "pytorchReplicaSpecs", ())
    elastic = count(at(top.spec, "elasticPolicy", "minReplicas"))
    if not isinstance(minimum, Why) and elastic is not None and _policy_minimum(top) is None:
        minimum = elastic
    return _with_minimum(subject, minimum)


def mpi(subject: Subject) -> Grouping | Why:
    """A launcher that waits for its workers does not exist yet when they must be placed, so it does not count then."""
    top = subject.top
    minimum = _minimum(top, "mpiReplicaSpecs", ("Launcher", "Worker"))
    waits = at(top.spec, "launcherCreationPolicy") == "WaitForWorkersReady"
    if not isinstance(minimum, Why) and waits and _LAUNCHER not in subject.peer_roles:
        minimum -= _replicas(at(top.spec, "mpiReplicaSpecs", "Launcher"))
    return _with_minimum(subject, minimum)


def _with_minimum(subject: Subject, minimum: int | Why) -> Grouping | Why:
    if isinstance(minimum, Why):
        return minimum
    return replace(inherited(subject.top, subject.pod, subject.around), min_member=minimum)


def _policy_minimum(job: Owner) -> int | None:
    return count(at(job.spec, "runPolicy", "schedulingPolicy", "minAvailable"))


def _minimum(job: Owner, field: str, required: tuple[str, ...]) -> int | Why:
    named = _policy_minimum(job)
    if named is not None:
        return named
    specs: Any = at(job.spec, field)
    if not isinstance(specs, dict) or not specs:
        return unreadable(job, f"spec.{field} is missing")
    for role in required:
        if role not in specs:
            return unreadable(job, f"spec.{field}.{role} is missing")
    replicas = {role: _replicas(spec) for role, spec in specs.items()}
    empty = next((role for role, number in replicas.items() if number <= 0), None)
    if empty is not None:
        return unreadable(job, f"spec.{field}.{empty}.replicas is not above 0")
    return sum(replicas.values())


def _replicas(role: Any) -> int:
    number = count(at(role, "replicas"))
    return 1 if number is None else number
