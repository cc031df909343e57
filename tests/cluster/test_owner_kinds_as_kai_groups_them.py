"""Owner kinds that KAI 0.12 knows: our PodGroups are those of its own pod-grouper, label by label.

Each row is built twice, in two namespaces, for two schedulers: ours groups one, KAI's the other.
"""

from __future__ import annotations

import re
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from pathlib import Path

import pytest
from grouper_on_cluster import Bench, Json, grouping, install, kais_pod_grouper, watching
from own_namespace import own_namespace
from owner_kinds import (
    DEPLOYMENTS,
    JOBS,
    LEADER_WORKER_SETS,
    MPI_JOBS,
    NOTEBOOKS,
    PYTORCH_JOBS,
    RAY_CLUSTERS,
    STATEFUL_SETS,
    TF_JOBS,
    WORKFLOWS,
    define,
    make,
    pods,
    ray_cluster,
    roles,
    template,
)

from grove.localcluster import RunningCluster
from grove.localcluster.rest import ApiServer
from grove.schedulers import kai

OTHER = "compared"
LABELS = {"team": "a", "kai.scheduler/queue": "q", "kai.scheduler/preemptibility": "preemptible"}
NOTES = {"kai.scheduler/topology": "t", "kai.scheduler/topology-required-placement": "rack", "note": "x"}
POD_LABELS = {"user": "somebody", "kai.scheduler/node-pool": "pool", "priorityClassName": "build"}
# Written by others at their own time, so that one of the two may have it and the other not. The last four are written
# on a pod that is scheduled; KAI's takes them over where it looks at such a pod again, and ours never does.
_PASSING = (
    "deployment.kubernetes.io/revision",
    "kai.scheduler/last-start-timestamp",
    "pod-group-name",
    "received-resource-type",
    "topology.kubernetes.io/zone",
    "topology.kubernetes.io/region",
)
_UID = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")
Build = Callable[[Bench, str], Awaitable[None]]


async def bare(bench: Bench, scheduler: str) -> None:
    await pods(bench, None, ["p"], scheduler, labels={**POD_LABELS, "kai.scheduler/queue": "q"}, annotations=NOTES)


async def spark(bench: Bench, scheduler: str) -> None:
    labels = {"spark-app-name": "app", "spark-app-selector": "spark-compared"}
    (driver,) = await pods(bench, None, ["driver"], scheduler, labels=labels)
    await bench.until(lambda: bench.marks.get("driver") is not None, "the driver has its group")
    await pods(bench, driver, ["executor"], scheduler, labels=labels)


async def stateful(bench: Bench, scheduler: str) -> None:
    spec = {"serviceName": "s", "selector": {"matchLabels": {"app": "s"}}, "replicas": 2}
    shape = template({"app": "s", **POD_LABELS}, schedulerName=scheduler)
    await make(bench, STATEFUL_SETS, "s", {**spec, "template": shape}, labels=LABELS, annotations=NOTES)


async def deployed(bench: Bench, scheduler: str) -> None:
    shape = template({"app": "d", **POD_LABELS}, schedulerName=scheduler)
    spec = {"selector": {"matchLabels": {"app": "d"}}, "replicas": 1, "template": shape}
    await make(bench, DEPLOYMENTS, "d", spec, labels=LABELS, annotations=NOTES)


async def batch(bench: Bench, scheduler: str) -> None:
    shape = template(POD_LABELS, schedulerName=scheduler, restartPolicy="Never")
    await make(bench, JOBS, "j", {"template": shape}, labels=LABELS, annotations=NOTES)


async def torch(bench: Bench, scheduler: str) -> None:
    spec = {"pytorchReplicaSpecs": roles(Master=1, Worker=2), "elasticPolicy": {"minReplicas": 2}}
    owner = await make(bench, PYTORCH_JOBS, "t", spec, labels=LABELS, annotations=NOTES)
    await pods(bench, owner, ["t-0", "t-1"], scheduler, labels=POD_LABELS)


async def tensorflow(bench: Bench, scheduler: str) -> None:
    spec = {"tfReplicaSpecs": roles(Chief=1, Worker=2), "runPolicy": {"schedulingPolicy": {"minAvailable": 2}}}
    owner = await make(bench, TF_JOBS, "t", spec)
    await pods(bench, owner, ["t-0"], scheduler)


async def mpi(bench: Bench, scheduler: str) -> None:
    spec = {"mpiReplicaSpecs": roles(Launcher=1, Worker=2), "launcherCreationPolicy": "WaitForWorkersReady"}
    owner = await make(bench, MPI_JOBS, "m", spec)
    labels = {"training.kubeflow.org/job-name": "m", "training.kubeflow.org/job-role": "worker"}
    await pods(bench, owner, ["m-0", "m-1"], scheduler, labels=labels)


async def ray(bench: Bench, scheduler: str) -> None:
    owner = await make(bench, RAY_CLUSTERS, "r", ray_cluster(replicas=3, minReplicas=2, numOfHosts=2))
    await pods(bench, owner, ["r-head"], scheduler)


async def leader_worker(bench: Bench, scheduler: str) -> None:
    shape = {"size": 3, "workerTemplate": template()}
    spec = {"replicas": 1, "startupPolicy": "LeaderReady", "leaderWorkerTemplate": shape}
    owner = await make(bench, LEADER_WORKER_SETS, "l", spec)
    labels = {"leaderworkerset.sigs.k8s.io/group-index": "0", "leaderworkerset.sigs.k8s.io/worker-index": "0"}
    await pods(bench, owner, ["l-0"], scheduler, labels=labels)


async def notebook(bench: Bench, scheduler: str) -> None:
    owner = await make(bench, NOTEBOOKS, "n", {"template": {"spec": {}}})
    await pods(bench, owner, ["n-0"], scheduler)


async def workflow(bench: Bench, scheduler: str) -> None:
    owner = await make(bench, WORKFLOWS, "w", {"entrypoint": "main"}, labels={"team": "a"})
    await pods(bench, owner, ["w-0"], scheduler)


@pytest.fixture(scope="module")
def identity(cluster: RunningCluster) -> Iterator[Path]:
    define(cluster)
    with kais_pod_grouper(cluster, OTHER):
        yield install(cluster)


@pytest.fixture
async def ours(cluster: RunningCluster, namespace: str, identity: Path) -> AsyncIterator[Bench]:
    async with grouping(identity), watching(cluster, namespace) as bench:
        yield bench


@pytest.fixture
async def theirs(cluster: RunningCluster, api: ApiServer, namespace: str) -> AsyncIterator[Bench]:
    with own_namespace(cluster, api, f"{namespace}-kai") as other:
        async with watching(cluster, other) as bench:
            yield bench


@pytest.mark.parametrize(
    "build",
    [bare, spark, stateful, deployed, batch, torch, tensorflow, mpi, ray, leader_worker, notebook, workflow],
    ids=lambda build: build.__name__,
)
async def test_groups_equal_those_of_kais_own_pod_grouper(ours: Bench, theirs: Bench, build: Build) -> None:
    for bench, scheduler in ((ours, kai.NAME), (theirs, OTHER)):
        await build(bench, scheduler)
        await bench.until(
            lambda bench=bench: bool(bench.marks) and None not in bench.marks.values() and bool(bench.groups),
            "all pods have groups",
        )
    assert described(ours) == described(theirs)


def described(bench: Bench) -> list[Json]:
    """The PodGroups of a namespace, without what two objects can never share."""
    by_chance = [name for name in bench.pods if name.startswith(("d-", "j-"))]

    def plain(text: str) -> str:
        for name in by_chance:
            text = text.replace(name, "POD")
        return _UID.sub("UID", text)

    found = []
    for name in bench.groups:
        group = bench.group(name)
        (owner,) = group.metadata.owner_references
        labels, notes = group.metadata.labels.items(), group.metadata.annotations.items()
        found.append(
            {
                "name": plain(name),
                "labels": {key: value for key, value in labels if key not in _PASSING},
                "annotations": {key: plain(value) for key, value in notes if key not in _PASSING},
                "owner": (owner.api_version, owner.kind, plain(owner.name)),
                "spec": {key: value for key, value in group.spec.items() if value not in ({}, [])},
            }
        )
    return sorted(found, key=lambda each: str(each["name"]))
