"""Which rule holds for an owner, by its kind. A kind that is not here is grouped as a whole, each pod for itself."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import msgspec

from grove.plan.actions import Why
from grove.podgrouper.grouping import Grouping, Owner, fitted
from grove.podgrouper.kinds import BUILD, INFERENCE
from grove.podgrouper.owners import (
    azure,
    default,
    deployment,
    job,
    job_set,
    knative,
    kubeflow,
    leader_worker_set,
    pod,
    ray,
    run_ai,
)
from grove.podgrouper.subject import Family, Subject

FAMILIES: Mapping[tuple[str, str], Family] = {
    ("", "Pod"): pod.bare_pod,
    ("apps", "Deployment"): deployment.deployment,
    ("batch", "Job"): job.job,
    ("batch", "CronJob"): job.cron_job,
    ("jobset.x-k8s.io", "JobSet"): job_set.job_set,
    ("leaderworkerset.x-k8s.io", "LeaderWorkerSet"): leader_worker_set.leader_worker_set,
    ("kubeflow.org", "PyTorchJob"): kubeflow.pytorch,
    ("kubeflow.org", "MPIJob"): kubeflow.mpi,
    ("kubeflow.org", "TFJob"): kubeflow.training_job("tfReplicaSpecs"),
    ("kubeflow.org", "XGBoostJob"): kubeflow.training_job("xgbReplicaSpecs", ("Master", "Worker")),
    ("kubeflow.org", "JAXJob"): kubeflow.training_job("jaxReplicaSpecs", ("Worker",)),
    ("kubeflow.org", "Notebook"): default.with_priority(BUILD),
    ("ray.io", "RayCluster"): ray.ray,
    ("ray.io", "RayJob"): ray.ray,
    ("ray.io", "RayService"): ray.ray,
    ("serving.knative.dev", "Service"): knative.knative_service,
    ("egx.nvidia.io", "SPOTRequest"): default.with_priority(INFERENCE),
    ("run.ai", "RunaiJob"): run_ai.run_ai_job,
    ("amlarc.azureml.com", "AmlJob"): azure.azure_job,
}

# Owners that only wrap another: the one below them says how its pods belong together.
WRAPPERS = frozenset(
    {
        ("argoproj.io", "Workflow"),
        ("trainer.kubeflow.org", "TrainJob"),
        ("nvidia.com", "DynamoGraphDeployment"),
        ("nvidia.com", "DynamoComponentDeployment"),
        ("run.ai", "InferenceWorkload"),
        ("run.ai", "TrainingWorkload"),
        ("run.ai", "DistributedWorkload"),
        ("run.ai", "InteractiveWorkload"),
        ("run.ai", "DistributedInferenceWorkload"),
    }
)

# Kinds of which more than the metadata is read: those whose spec says how many pods belong together.
READ_IN_FULL = frozenset(
    {
        ("jobset.x-k8s.io", "JobSet"),
        ("leaderworkerset.x-k8s.io", "LeaderWorkerSet"),
        ("kubeflow.org", "PyTorchJob"),
        ("kubeflow.org", "MPIJob"),
        ("kubeflow.org", "TFJob"),
        ("kubeflow.org", "XGBoostJob"),
        ("kubeflow.org", "JAXJob"),
        ("ray.io", "RayCluster"),
        ("ray.io", "RayJob"),
        ("ray.io", "RayService"),
        ("amlarc.azureml.com", "AmlJob"),
    }
)


def by_owner(subject: Subject) -> Grouping | Why:
    """The PodGroup that the pod's owners ask for."""
    top = subject.top
    if (top.group, top.kind) in WRAPPERS and subject.owners:
        return by_owner(subject.below(_filled(subject.below().top, top)))
    found = FAMILIES.get((top.group, top.kind), default.one_group)(subject)
    return found if isinstance(found, Why) else replace(found, name=fitted(found.name))


def _filled(owner: Owner, wrapper: Owner) -> Owner:
    """The owner below a wrapper, with the wrapper's labels and annotations where it has none of its own."""
    meta = owner.metadata
    joined = msgspec.structs.replace(
        meta,
        labels={**wrapper.metadata.labels, **meta.labels},
        annotations={**wrapper.metadata.annotations, **meta.annotations},
    )
    return replace(owner, metadata=joined)
