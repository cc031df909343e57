"""Owners of other projects: what their pods become, from their published schemas to pods on nodes."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from grouper_on_cluster import Bench, Json, grouping, install, watching
from owner_kinds import (
    DEPLOYMENTS,
    JAX_JOBS,
    JOB_SETS,
    JOBS,
    KNATIVE_CONFIGURATIONS,
    KNATIVE_REVISIONS,
    KNATIVE_SERVICES,
    LEADER_WORKER_SETS,
    MPI_JOBS,
    NOTEBOOKS,
    PYTORCH_JOBS,
    RAY_CLUSTERS,
    RAY_JOBS,
    RAY_SERVICES,
    SPARK_APPLICATIONS,
    STATEFUL_SETS,
    TF_JOBS,
    TRAIN_JOBS,
    WORKFLOWS,
    XGBOOST_JOBS,
    Document,
    Made,
    define,
    job,
    make,
    pods,
    ray_cluster,
    roles,
    stateful_set,
    template,
)

from grove.localcluster import RunningCluster
from grove.runtime import errors
from grove.runtime.resource import Resource

LWS = "leaderworkerset.sigs.k8s.io"
REPLICATED_JOB = "jobset.sigs.k8s.io/replicatedjob-name"
JOB_NAME, JOB_ROLE = "training.kubeflow.org/job-name", "training.kubeflow.org/job-role"


@pytest.fixture(scope="module")
def identity(cluster: RunningCluster) -> Path:
    define(cluster)
    return install(cluster)


@pytest.fixture
async def bench(cluster: RunningCluster, namespace: str, identity: Path) -> AsyncIterator[Bench]:
    """A namespace of this test's own, with the pod-grouper at work."""
    async with grouping(identity), watching(cluster, namespace) as bench:
        yield bench


async def run(bench: Bench, number: int, groups: dict[str, int]) -> None:
    """Waits until so many pods run, in exactly these groups."""
    await bench.until(lambda: len(bench.running) == number and bench.groups == groups, f"{number} pods in {groups}")


def priorities(bench: Bench) -> set[str]:
    return {bench.group(name).spec["priorityClassName"] for name in bench.groups}


def replicated_jobs(*, depends: bool) -> list[Json]:
    wait = {"dependsOn": [{"name": "driver", "status": "Ready"}]} if depends else {}
    return [
        {"name": "driver", "template": {"spec": job({REPLICATED_JOB: "driver"})}},
        {
            "name": "workers",
            "replicas": 2,
            "template": {"spec": job({REPLICATED_JOB: "workers"}, parallelism=2, completions=2)},
            **wait,
        },
    ]


async def jobs_of(bench: Bench, owner: Made, jobs: list[Json]) -> None:
    """The Jobs of a JobSet, as its controller makes them."""
    for each in jobs:
        for index in range(each.get("replicas", 1)):
            await make(bench, JOBS, f"{owner.name}-{each['name']}-{index}", each["template"]["spec"], owner)


class TestJobSets:
    @pytest.mark.parametrize("order", ["InOrder", "AnyOrder"])
    async def test_jobs_in_order_are_gangs_apart_and_in_any_order_one(self, bench: Bench, order: str) -> None:
        jobs = replicated_jobs(depends=False)
        spec = {"replicatedJobs": jobs, "startupPolicy": {"startupPolicyOrder": order}}
        made = await make(bench, JOB_SETS, "set", spec)
        await jobs_of(bench, made, jobs)
        name = f"pg-set-{made.uid}"
        await run(bench, 5, {f"{name}-driver": 1, f"{name}-workers": 4} if order == "InOrder" else {name: 5})

    async def test_job_that_others_depend_on_runs_before_they_exist(self, bench: Bench) -> None:
        jobs = replicated_jobs(depends=True)
        # This order is what the set's own admission writes where none is named.
        made = await make(
            bench, JOB_SETS, "set", {"replicatedJobs": jobs, "startupPolicy": {"startupPolicyOrder": "AnyOrder"}}
        )
        await jobs_of(bench, made, jobs[:1])
        await run(bench, 1, {f"pg-set-{made.uid}-driver": 1})
        await jobs_of(bench, made, jobs[1:])
        await run(bench, 5, {f"pg-set-{made.uid}-driver": 1, f"pg-set-{made.uid}-workers": 4})

    async def test_train_job_is_grouped_by_its_job_set(self, bench: Bench) -> None:
        top = await make(bench, TRAIN_JOBS, "train", {"runtimeRef": {"name": "torch"}, "trainer": {"numNodes": 2}})
        node = {"name": "node", "template": {"spec": job({REPLICATED_JOB: "node"}, parallelism=2, completions=2)}}
        made = await make(bench, JOB_SETS, "train", {"replicatedJobs": [node]}, top)
        await jobs_of(bench, made, [node])
        await run(bench, 2, {f"pg-train-{made.uid}-node": 2})


async def test_leader_worker_set_has_a_gang_per_group_below_its_leader(bench: Bench) -> None:
    shape = {"size": 3, "workerTemplate": template(), "leaderTemplate": template()}
    top = await make(bench, LEADER_WORKER_SETS, "lws", {"replicas": 1, "leaderWorkerTemplate": shape})
    labels = {f"{LWS}/name": "lws", f"{LWS}/group-index": "0"}
    leaders = stateful_set("lws", {**labels, f"{LWS}/worker-index": "0"}, replicas=1)
    await make(bench, STATEFUL_SETS, "lws", leaders, top)
    await bench.until(lambda: "lws-0" in bench.marks, "the leader exists")
    assert bench.running == set()
    leader = Made(Resource("", "v1", "pods", "Pod", Document), bench.pods["lws-0"])
    workers = stateful_set("lws-0", labels, replicas=2, ordinals={"start": 1}, podManagementPolicy="Parallel")
    await make(bench, STATEFUL_SETS, "lws-0", workers, leader)
    await run(bench, 3, {f"pg-lws-{top.uid}-group-0": 3})


@pytest.mark.parametrize(
    ("resource", "spec", "minimum"),
    [
        (PYTORCH_JOBS, {"pytorchReplicaSpecs": roles(Master=None, Worker=2)}, 3),
        (PYTORCH_JOBS, {"pytorchReplicaSpecs": roles(Worker=3), "elasticPolicy": {"minReplicas": 2}}, 2),
        (TF_JOBS, {"tfReplicaSpecs": roles(Chief=1, Worker=2)}, 3),
        (
            TF_JOBS,
            {"tfReplicaSpecs": roles(Worker=3), "runPolicy": {"schedulingPolicy": {"minAvailable": 2}}},
            2,
        ),
        (XGBOOST_JOBS, {"xgbReplicaSpecs": roles(Master=1, Worker=2)}, 3),
        (JAX_JOBS, {"jaxReplicaSpecs": roles(Worker=3)}, 3),
    ],
    ids=["pytorch", "pytorch-elastic", "tf", "tf-policy", "xgboost", "jax"],
)
async def test_training_job_is_a_gang(bench: Bench, resource: Resource[Document], spec: Json, minimum: int) -> None:
    made = await make(bench, resource, "train", spec)
    names = [f"train-{index}" for index in range(3)]
    await pods(bench, made, names, labels={JOB_NAME: "train", JOB_ROLE: "worker"})
    await run(bench, 3, {f"pg-train-{made.uid}": minimum})
    assert priorities(bench) == {"train"}


async def test_launcher_that_waits_for_its_workers_joins_them_later(bench: Bench) -> None:
    spec = {"mpiReplicaSpecs": roles(Launcher=1, Worker=2), "launcherCreationPolicy": "WaitForWorkersReady"}
    made = await make(bench, MPI_JOBS, "mpi", spec)
    workers = {JOB_NAME: "mpi", JOB_ROLE: "worker"}
    await pods(bench, made, ["mpi-worker-0", "mpi-worker-1"], labels=workers)
    await run(bench, 2, {f"pg-mpi-{made.uid}": 2})
    await make(bench, JOBS, "mpi-launcher", job({JOB_NAME: "mpi", JOB_ROLE: "launcher"}), made)
    await run(bench, 3, {f"pg-mpi-{made.uid}": 3})


class TestRay:
    async def test_cluster_starts_with_its_head_and_the_minimum_of_its_workers(self, bench: Bench) -> None:
        # The number of replicas is left to Ray's autoscaler; the schema makes it 0.
        made = await make(bench, RAY_CLUSTERS, "ray", ray_cluster(minReplicas=2, numOfHosts=2))
        await pods(bench, made, ["ray-head", *(f"ray-worker-{index}" for index in range(4))])
        await run(bench, 5, {f"pg-ray-{made.uid}": 5})

    async def test_pod_that_submits_a_job_goes_with_the_cluster_of_the_job(self, bench: Bench) -> None:
        shape = ray_cluster(replicas=1)
        top = await make(
            bench,
            RAY_JOBS,
            "ray",
            {"entrypoint": "python main.py", "rayClusterSpec": shape},
            labels={"ray.io/priority-class-name": "inference"},
        )
        made = await make(bench, RAY_CLUSTERS, "ray-abc", shape, top)
        await pods(bench, made, ["ray-head", "ray-worker"])
        await run(bench, 2, {f"pg-ray-{top.uid}": 2})
        await make(bench, JOBS, "ray-submit", job(), top)
        await run(bench, 3, {f"pg-ray-{top.uid}": 2})
        assert priorities(bench) == {"inference"}

    async def test_job_on_a_cluster_that_exists_has_its_submitter_only(self, bench: Bench) -> None:
        spec = {"entrypoint": "python main.py", "clusterSelector": {"ray.io/cluster": "other"}}
        top = await make(bench, RAY_JOBS, "ray", spec)
        await make(bench, JOBS, "ray-submit", job(), top)
        await run(bench, 1, {f"pg-ray-{top.uid}": 1})

    async def test_service_is_grouped_by_its_cluster(self, bench: Bench) -> None:
        shape = ray_cluster(replicas=2)
        top = await make(bench, RAY_SERVICES, "ray", {"rayClusterConfig": shape})
        made = await make(bench, RAY_CLUSTERS, "ray-abc", shape, top)
        await pods(bench, made, ["ray-head", "ray-worker-0", "ray-worker-1"])
        await run(bench, 3, {f"pg-ray-{top.uid}": 3})


async def test_notebook_runs_alone_with_its_own_priority(bench: Bench) -> None:
    top = await make(bench, NOTEBOOKS, "book", {"template": {"spec": template()["spec"]}})
    await make(bench, STATEFUL_SETS, "book", stateful_set("book", replicas=1), top)
    await run(bench, 1, {f"pg-book-{top.uid}": 1})
    assert priorities(bench) == {"build"}


async def test_steps_of_a_workflow_have_groups_of_their_own_with_its_labels(bench: Bench) -> None:
    steps = [{"name": "main", "container": {"image": "example/main:1"}}]
    top = await make(bench, WORKFLOWS, "flow", {"entrypoint": "main", "templates": steps}, labels={"team": "a"})
    made = await pods(bench, top, ["flow-1", "flow-2"])
    await run(bench, 2, {f"pg-{each.name}-{each.uid}": 1 for each in made})
    assert {bench.group(name).metadata.labels["team"] for name in bench.groups} == {"a"}


async def test_training_job_that_a_workflow_makes_is_still_a_gang(bench: Bench) -> None:
    top = await make(bench, WORKFLOWS, "flow", {"entrypoint": "main"}, labels={"kai.scheduler/queue": "default-queue"})
    made = await make(bench, JAX_JOBS, "train", {"jaxReplicaSpecs": roles(Worker=2)}, top)
    await pods(bench, made, ["train-0", "train-1"])
    await run(bench, 2, {f"pg-train-{made.uid}": 2})


async def test_revision_of_a_knative_service_starts_with_its_minimum_scale(bench: Bench) -> None:
    container = {"containers": [{"image": "example/main:1"}]}
    shape = {"template": {"metadata": {"annotations": {"autoscaling.knative.dev/min-scale": "2"}}, "spec": container}}
    service = await make(bench, KNATIVE_SERVICES, "web", shape)
    configuration = await make(bench, KNATIVE_CONFIGURATIONS, "web", shape, service)
    scale = {"autoscaling.knative.dev/min-scale": "2"}
    revision = await make(bench, KNATIVE_REVISIONS, "web-00001", container, configuration, annotations=scale)
    labels = {"serving.knative.dev/revision": "web-00001"}
    spec = {"replicas": 2, "selector": {"matchLabels": labels}, "template": template(labels)}
    await make(bench, DEPLOYMENTS, "web-00001-deployment", spec, revision)
    await run(bench, 2, {f"pg-web-00001-{revision.uid}": 2})
    assert priorities(bench) == {"inference"}


async def test_pods_of_a_spark_application_share_the_group_its_selector_names(bench: Bench) -> None:
    program = {"type": "Python", "mode": "cluster", "sparkVersion": "3.5.0", "mainApplicationFile": "local:///main.py"}
    top = await make(bench, SPARK_APPLICATIONS, "app", {**program, "driver": {}, "executor": {"instances": 2}})
    selector = f"spark-{bench.namespace}"
    labels = {"spark-app-name": "app", "spark-app-selector": selector}
    (driver,) = await pods(bench, top, ["app-driver"], labels={**labels, "spark-role": "driver"})
    await pods(bench, driver, ["app-exec-1", "app-exec-2"], labels={**labels, "spark-role": "executor"})
    await run(bench, 3, {selector: 1})


async def test_definitions_refuse_what_their_projects_do_not_know(bench: Bench) -> None:
    """A misspelt field must not pass for a minimum."""
    for resource, spec in (
        (PYTORCH_JOBS, {"pytorchReplicaSpecs": {"Worker": {"replica": 3}}}),
        (JOB_SETS, {"replicatedJobs": [{"name": "a", "template": {"spec": {"parallel": 1}}}]}),
        (RAY_CLUSTERS, ray_cluster(minimum=2)),
        (LEADER_WORKER_SETS, {"leaderWorkerTemplate": {"sizes": 2, "workerTemplate": template()}}),
    ):
        with pytest.raises(errors.BadRequest, match="unknown field"):
            await make(bench, resource, "wrong", spec)
