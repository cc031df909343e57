"""Owners of other projects' kinds on the real API server, through the definitions those projects publish.

An owner is created strictly: a field its schema does not know is an error, so what a test writes is what a user of
that project could write. kube-controller-manager makes the pods of Jobs, StatefulSets and Deployments; where another
controller makes pods, the test makes them in its place, with the labels that controller gives them.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Any

from grouper_on_cluster import PODS, ROOT, Bench, Document, Json, pod_spec

from grove.localcluster import RunningCluster
from grove.runtime import requests
from grove.runtime.resource import Resource
from grove.schedulers import kai

DEFINITIONS = ROOT / "tests/data/owner_definitions"


def _kind(api_version: str, plural: str, kind: str) -> Resource[Document]:
    group, _, version = api_version.rpartition("/")
    return Resource(group, version, plural, kind, Document)


JOB_SETS = _kind("jobset.x-k8s.io/v1alpha2", "jobsets", "JobSet")
LEADER_WORKER_SETS = _kind("leaderworkerset.x-k8s.io/v1", "leaderworkersets", "LeaderWorkerSet")
PYTORCH_JOBS = _kind("kubeflow.org/v1", "pytorchjobs", "PyTorchJob")
TF_JOBS = _kind("kubeflow.org/v1", "tfjobs", "TFJob")
XGBOOST_JOBS = _kind("kubeflow.org/v1", "xgboostjobs", "XGBoostJob")
JAX_JOBS = _kind("kubeflow.org/v1", "jaxjobs", "JAXJob")
MPI_JOBS = _kind("kubeflow.org/v2beta1", "mpijobs", "MPIJob")
NOTEBOOKS = _kind("kubeflow.org/v1beta1", "notebooks", "Notebook")
TRAIN_JOBS = _kind("trainer.kubeflow.org/v1alpha1", "trainjobs", "TrainJob")
RAY_CLUSTERS = _kind("ray.io/v1", "rayclusters", "RayCluster")
RAY_JOBS = _kind("ray.io/v1", "rayjobs", "RayJob")
RAY_SERVICES = _kind("ray.io/v1", "rayservices", "RayService")
WORKFLOWS = _kind("argoproj.io/v1alpha1", "workflows", "Workflow")
KNATIVE_SERVICES = _kind("serving.knative.dev/v1", "services", "Service")
KNATIVE_CONFIGURATIONS = _kind("serving.knative.dev/v1", "configurations", "Configuration")
KNATIVE_REVISIONS = _kind("serving.knative.dev/v1", "revisions", "Revision")
SPARK_APPLICATIONS = _kind("sparkoperator.k8s.io/v1beta2", "sparkapplications", "SparkApplication")
JOBS = _kind("batch/v1", "jobs", "Job")
STATEFUL_SETS = _kind("apps/v1", "statefulsets", "StatefulSet")
DEPLOYMENTS = _kind("apps/v1", "deployments", "Deployment")


def define(cluster: RunningCluster) -> None:
    """Installs all definitions."""
    files = sorted(DEFINITIONS.glob("*.yaml"))
    cluster.kubectl("apply", "--server-side", "--force-conflicts", *(f"--filename={file}" for file in files))
    names = [f"crd/{file.stem}" for file in files]
    cluster.kubectl("wait", "--for=condition=Established", *names, "--timeout=60s")


class Made:
    """An object that may own others."""

    def __init__(self, resource: Resource[Document], document: Document) -> None:
        self.uid = document.metadata.uid
        self.name = document.metadata.name
        self.reference = {
            "apiVersion": resource.api_version,
            "kind": resource.kind,
            "name": self.name,
            "uid": self.uid,
            "controller": True,
        }


async def make(
    bench: Bench, resource: Resource[Document], name: str, spec: Json, owner: Made | None = None, **metadata: Json
) -> Made:
    """Creates an object as its schema wants it."""
    owners = {"ownerReferences": [owner.reference]} if owner else {}
    body = {"metadata": {"name": name, "namespace": bench.namespace, **metadata, **owners}, "spec": spec}
    request = requests.create(resource, body)
    strict = replace(request, query=(*request.query, ("fieldValidation", "Strict")))
    return Made(resource, await bench.client.send(strict))


async def pods(
    bench: Bench, owner: Made | None, names: Iterable[str], scheduler: str = kai.NAME, **metadata: Json
) -> list[Made]:
    """Pods as the owner's controller would make them."""
    return [await make(bench, PODS, name, pod_spec(scheduler=scheduler), owner, **metadata) for name in names]


def template(labels: Json | None = None, **spec: Any) -> Json:
    """A pod template, of KAI's unless it says otherwise."""
    return {"metadata": {"labels": labels or {}}, "spec": {**pod_spec(), **spec}}


def job(labels: Json | None = None, **spec: Any) -> Json:
    return {**spec, "template": template(labels, restartPolicy="Never")}


def stateful_set(name: str, labels: Json | None = None, **spec: Any) -> Json:
    shown = {"app": name, **(labels or {})}
    selector = {"matchLabels": {"app": name}}
    return {"serviceName": name, "selector": selector, "template": template(shown), **spec}


def roles(**replicas: int | None) -> Json:
    """The replicas of a Kubeflow job by role; None leaves the number out."""
    return {
        role: {"template": template(), **({} if number is None else {"replicas": number})}
        for role, number in replicas.items()
    }


def ray_cluster(**worker_group: int) -> Json:
    workers = {"groupName": "workers", "rayStartParams": {}, "template": template(), **worker_group}
    return {"headGroupSpec": {"rayStartParams": {}, "template": template()}, "workerGroupSpecs": [workers]}
