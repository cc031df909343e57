"""Which family an owner belongs to. A kind that is not here is grouped as a whole, each pod for itself."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import msgspec

from grove.plan.actions import Why
from grove.podgrouper.grouping import Grouping, Owner, fitted
from grove.podgrouper.owners import kubeflow, ray, sets, single
from grove.podgrouper.subject import Family, Subject

FAMILIES: Mapping[tuple[str, str], Family] = {
    ("", "Pod"): single.bare_pod,
    ("apps", "Deployment"): single.deployment,
    ("batch", "Job"): single.job,
    ("batch", "CronJob"): single.cron_job,
    ("jobset.x-k8s.io", "JobSet"): sets.job_set,
    ("leaderworkerset.x-k8s.io", "LeaderWorkerSet"): sets.leader_worker_set,
    ("kubeflow.org", "PyTorchJob"): kubeflow.pytorch,
    ("kubeflow.org", "MPIJob"): kubeflow.mpi,
    ("kubeflow.org", "TFJob"): kubeflow.training_job("tfReplicaSpecs"),
    ("kubeflow.org", "XGBoostJob"): kubeflow.training_job("xgbReplicaSpecs", ("Master", "Worker")),
    ("kubeflow.org", "JAXJob"): kubeflow.training_job("jaxReplicaSpecs", ("Worker",)),
    ("kubeflow.org", "Notebook"): single.notebook,
    ("ray.io", "RayCluster"): ray.ray,
    ("ray.io", "RayJob"): ray.ray,
    ("ray.io", "RayService"): ray.ray,
    ("serving.knative.dev", "Service"): sets.knative_service,
    ("egx.nvidia.io", "SPOTRequest"): single.inference,
    ("run.ai", "RunaiJob"): single.run_ai_job,
    ("amlarc.azureml.com", "AmlJob"): sets.azure_job,
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

# Kinds of which more than the metadata is read.
READ_IN_FULL = frozenset(
    key
    for key, family in FAMILIES.items()
    if family not in {single.bare_pod, single.deployment, single.job, single.cron_job, single.notebook}
    and family not in {single.inference, single.run_ai_job, sets.knative_service}
)


def by_owner(subject: Subject) -> Grouping | Why:
    """The PodGroup that the pod's owners ask for."""
    top = subject.top
    if (top.group, top.kind) in WRAPPERS and subject.owners:
        return by_owner(subject.below(_filled(subject.below().top, top)))
    found = FAMILIES.get((top.group, top.kind), single.one_group)(subject)
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
