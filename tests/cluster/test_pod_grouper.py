"""The pod-grouper with the real API server, kube-controller-manager, KAI scheduler and binder."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from grouper_on_cluster import (
    CRON_JOBS,
    DEPLOYMENTS,
    GANGS,
    GRAPHS,
    JOBS,
    PODS,
    STATEFUL_SETS,
    WORKLOADS,
    Bench,
    Document,
    Json,
    free_port,
    grouping,
    install,
    kais_pod_grouper,
    pod_spec,
    watching,
)
from own_namespace import own_namespace

from grove.localcluster import RunningCluster
from grove.localcluster.rest import ApiServer
from grove.runtime import requests

IGNORE = "kai.scheduler/ignore-workload-api"
POOL = {"kai.scheduler/node-pool": "pool"}


@pytest.fixture(scope="module")
def identity(cluster: RunningCluster) -> Path:
    return install(cluster)


@pytest.fixture
async def bench(cluster: RunningCluster, namespace: str, identity: Path) -> AsyncIterator[Bench]:
    """A namespace of this test's own, with the pod-grouper at work."""
    async with grouping(identity), watching(cluster, namespace) as bench:
        yield bench


def unique(namespace: str, stem: str) -> str:
    """KAI 0.12 takes PodGroups of one name in two namespaces for one, so tests do not share names."""
    return f"{stem}-{namespace.removeprefix('test-')}"


def ref(workload: str, group: str, key: str = "") -> Json:
    return {"name": workload, "podGroup": group} | ({"podGroupReplicaKey": key} if key else {})


def selector(name: str, **spec: object) -> Json:
    """The spec of a Deployment or StatefulSet of KAI pods."""
    labels = {"app": name}
    return {
        "selector": {"matchLabels": labels},
        "template": {"metadata": {"labels": labels}, "spec": pod_spec()},
        **spec,
    }


class TestWorkloads:
    async def test_example_of_driver_and_two_worker_gangs_is_scheduled_as_three_gangs(self, bench: Bench) -> None:
        await bench.workload("my-training", driver=1, workers=4)
        await bench.pod("driver", ref("my-training", "driver"))
        for key in "01":
            for index in range(4):
                await bench.pod(f"worker-{key}-{index}", ref("my-training", "workers", key), gpus=1)
        await bench.until(lambda: len(bench.running) == 9, "all nine pods on nodes")
        assert bench.groups == {"my-training-driver": 1, "my-training-workers-0": 4, "my-training-workers-1": 4}
        assert bench.marks["worker-1-3"] == "my-training-workers-1"

    async def test_gang_larger_than_the_cluster_runs_not_at_all(self, bench: Bench) -> None:
        name = unique(bench.namespace, "huge")
        await bench.workload(name, small=1, large=13)
        for index in range(13):
            await bench.pod(f"large-{index}", ref(name, "large"), gpus=8)
        await bench.pod("small", ref(name, "small"))

        def unschedulable() -> bool:
            large = f"{name}-large"
            return large in bench.groups and "schedulingConditions" in bench.group(large).status

        await bench.until(unschedulable, "KAI says that the large gang does not fit")
        await bench.until(lambda: bench.running == {"small"}, "the small gang runs")
        assert bench.running == {"small"}

    async def test_gang_waits_until_its_minimum_exists(self, bench: Bench) -> None:
        name = unique(bench.namespace, "late")
        await bench.workload(name, g=3)
        for index in range(2):
            await bench.pod(f"p-{index}", ref(name, "g"))
        await bench.until(lambda: "NotReady" in bench.told(f"{name}-g"), "KAI says that the gang is too small")
        assert bench.running == set()
        await bench.pod("p-2", ref(name, "g"))
        await bench.until(lambda: len(bench.running) == 3, "the whole gang runs")

    async def test_pods_of_a_missing_workload_stay_pending_and_go_on_when_it_arrives(self, bench: Bench) -> None:
        name = unique(bench.namespace, "awaited")
        for index in range(3):
            await bench.pod(f"p-{index}", ref(name, "g"))
        await bench.until(lambda: all("WorkloadMissing" in bench.told(p) for p in bench.pods), "events on all pods")
        assert bench.groups == {}
        await bench.workload(name, g=3)
        await bench.until(lambda: len(bench.running) == 3, "all pods run")

    async def test_missing_pod_group_is_told(self, bench: Bench) -> None:
        name = unique(bench.namespace, "partial")
        await bench.workload(name, other=1)
        await bench.pod("p", ref(name, "g"))
        await bench.until(lambda: "WorkloadPodGroupMissing" in bench.told("p"), "the event on the pod")
        assert bench.groups == {}

    async def test_basic_policy_collapses_replica_keys_and_lets_pods_run_alone(self, bench: Bench) -> None:
        name = unique(bench.namespace, "basic")
        await bench.workload(name, g=0)
        await bench.pod("a", ref(name, "g", "0"))
        await bench.pod("b", ref(name, "g", "1"))
        await bench.until(lambda: len(bench.running) == 2, "both pods run")
        assert bench.groups == {f"{name}-g": 1}

    async def test_stale_subgroup_label_does_not_hide_a_pod(self, bench: Bench) -> None:
        name = unique(bench.namespace, "stale")
        await bench.workload(name, g=1)
        await bench.pod("p", ref(name, "g"), labels={"kai.scheduler/subgroup-name": "old"})
        await bench.until(lambda: bench.running == {"p"}, "the pod runs")
        assert "kai.scheduler/subgroup-name" not in bench.pods["p"].metadata.labels

    async def test_ambiguous_name_is_refused_with_an_event(self, bench: Bench) -> None:
        name = unique(bench.namespace, "a")
        await bench.workload(f"{name}-b", c=1)
        await bench.workload(name, **{"b-c": 1})
        await bench.pod("first", ref(f"{name}-b", "c"))
        await bench.until(lambda: bench.running == {"first"}, "the first pod runs")
        await bench.pod("second", ref(name, "b-c"))
        await bench.until(lambda: "PodGroupNameTaken" in bench.told("second"), "the event on the second")
        assert bench.marks["second"] is None

    async def test_opting_out_and_back_moves_the_pods_and_leaves_no_orphan(self, bench: Bench) -> None:
        name = unique(bench.namespace, "toggle")
        await bench.workload(name, g=2)
        spec = selector("s", replicas=2, serviceName="s", podManagementPolicy="Parallel")
        spec["template"]["spec"]["workloadRef"] = ref(name, "g")
        made = await bench.create(STATEFUL_SETS, "s", spec=spec)
        await bench.until(lambda: len(bench.running) == 2, "both pods run")
        assert bench.groups == {f"{name}-g": 2}
        for value, group in (("true", f"pg-s-{made.metadata.uid}"), (None, f"{name}-g")):
            patch = {"metadata": {"annotations": {IGNORE: value}}}
            await bench.client.send(requests.merge_patch(STATEFUL_SETS, bench.namespace, "s", patch))
            await bench.until(lambda group=group: set(bench.groups) == {group}, f"only {group} is left")
            assert set(bench.marks.values()) == {group}

    async def test_workload_made_anew_with_another_policy_leaves_no_orphan(self, bench: Bench) -> None:
        name = unique(bench.namespace, "anew")
        await bench.workload(name, g=1)
        spec = selector("s", replicas=1, serviceName="s")
        spec["template"]["spec"]["workloadRef"] = ref(name, "g", "k")
        await bench.create(STATEFUL_SETS, "s", spec=spec)
        await bench.until(lambda: set(bench.groups) == {f"{name}-g-k"} and len(bench.running) == 1, "the gang runs")
        await bench.client.delete(WORKLOADS, bench.namespace, name)
        await bench.workload(name, g=0)
        await bench.until(lambda: set(bench.groups) == {f"{name}-g"}, "only the group of the basic policy is left")

    async def test_group_shared_by_two_owners_outlives_one_of_them(self, bench: Bench) -> None:
        name = unique(bench.namespace, "shared")
        await bench.workload(name, g=2)
        for owner in ("one", "two"):
            template = {"spec": {**pod_spec(), "restartPolicy": "Never", "workloadRef": ref(name, "g")}}
            await bench.create(JOBS, owner, spec={"template": template})
        await bench.until(lambda: len(bench.running) == 2, "both jobs' pods run")
        group = bench.group(f"{name}-g")
        assert [owner.kind for owner in group.metadata.owner_references] == ["Workload"]
        await bench.client.delete(JOBS, bench.namespace, "one", propagation="Background")
        await bench.until(lambda: len(bench.pods) == 1, "the first job's pod is gone")
        assert bench.group(f"{name}-g").metadata.uid == group.metadata.uid


class TestOwners:
    async def test_stateful_set_pods_share_a_group(self, bench: Bench) -> None:
        spec = selector("s", replicas=3, serviceName="s", podManagementPolicy="Parallel")
        made = await bench.create(STATEFUL_SETS, "s", metadata={"labels": {"team": "a"}}, spec=spec)
        await bench.until(lambda: len(bench.running) == 3, "all pods run")
        name = f"pg-s-{made.metadata.uid}"
        assert bench.groups == {name: 1}
        group = bench.group(name)
        assert group.metadata.labels == {"team": "a"}
        assert (group.spec["queue"], group.spec["priorityClassName"]) == ("default-queue", "train")

    async def test_deployment_pods_have_a_group_each(self, bench: Bench) -> None:
        await bench.create(DEPLOYMENTS, "d", spec=selector("d", replicas=2))
        await bench.until(lambda: len(bench.running) == 2, "both pods run")
        names = {f"pg-{name}-{pod.metadata.uid}" for name, pod in bench.pods.items()}
        assert set(bench.groups) == names
        assert {bench.group(name).spec["priorityClassName"] for name in names} == {"inference"}

    async def test_job_pods_have_a_group_each_and_cron_job_pods_that_of_their_job(
        self, bench: Bench, cluster: RunningCluster
    ) -> None:
        template = {"spec": {**pod_spec(), "restartPolicy": "Never"}}
        job = await bench.create(JOBS, "j", spec={"parallelism": 2, "completions": 2, "template": template})
        cron = {"schedule": "0 0 1 1 *", "jobTemplate": {"spec": {"template": template}}}
        await bench.create(CRON_JOBS, "c", spec=cron)
        cluster.kubectl("create", "job", "from-cron", "--from=cronjob/c", "-n", bench.namespace)
        await bench.until(lambda: len(bench.running) == 3, "all pods run")
        from_cron = await bench.client.send(requests.get(JOBS, bench.namespace, "from-cron"))
        of_job = {f"pg-{name}-{job.metadata.uid}" for name in bench.pods if name.startswith("j-")}
        assert set(bench.groups) == {*of_job, f"pg-from-cron-{from_cron.metadata.uid}"}

    async def test_bare_pod_has_a_group_of_its_own(self, bench: Bench) -> None:
        made = await bench.pod("p")
        await bench.until(lambda: bench.running == {"p"}, "the pod runs")
        assert set(bench.groups) == {f"pg-p-{made.metadata.uid}"}


class TestProcess:
    async def test_command_groups_pods_and_ends_well_when_told_to(
        self, cluster: RunningCluster, namespace: str, identity: Path
    ) -> None:
        ports = [f"--metrics-port={free_port()}", f"--probe-port={free_port()}", "--bind-address=127.0.0.1"]
        arguments = ["-m", "grove.cli.main", "pod-grouper", f"--kubeconfig={identity}", *ports]
        process = await asyncio.create_subprocess_exec(
            sys.executable, *arguments, "--lease-namespace=grove-system", stderr=subprocess.DEVNULL
        )
        try:
            async with watching(cluster, namespace) as bench:
                await bench.pod("p")
                await bench.until(lambda: bench.running == {"p"}, "the pod runs")
        finally:
            process.terminate()
        assert await process.wait() == 0


def gang_spec(namespace: str, **parts: int) -> Json:
    return {
        "podgroups": [
            {
                "name": f"g-0-{part}",
                "minReplicas": count,
                "podReferences": [{"namespace": namespace, "name": f"g-0-{part}-{i}"} for i in range(count)],
            }
            for part, count in parts.items()
        ]
    }


async def gang(
    bench: Bench, spec: Json, scheduler: str = "kai-scheduler", pod_labels: Json | None = None, **metadata: Json
) -> Document:
    """A PodGang and its pods, which something above PodCliqueSets owns."""
    made = await bench.create(GANGS, "g-0", metadata=metadata, spec=spec)
    top = await bench.create(GRAPHS, "graph")
    owner = {"apiVersion": "nvidia.com/v1alpha1", "kind": "DynamoGraphDeployment", "name": "graph"}
    for group in spec["podgroups"]:
        for reference in group["podReferences"]:
            meta = {
                "labels": {"grove.io/podgang": "g-0", "user": "somebody", **(pod_labels or {})},
                "annotations": {"user": "somebody"},
                "ownerReferences": [{**owner, "uid": top.metadata.uid}],
            }
            pod = {**pod_spec(scheduler=scheduler), "priorityClassName": "build"}
            await bench.create(PODS, reference["name"], metadata=meta, spec=pod)
    return made


@pytest.fixture(scope="module")
def graphs(cluster: RunningCluster) -> None:
    """A kind of owner for the pods of hand-made gangs."""
    schema = {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}}
    names = {"plural": GRAPHS.plural, "kind": GRAPHS.kind, "singular": GRAPHS.kind.lower(), "listKind": "GraphList"}
    document = {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": "dynamographdeployments.nvidia.com"},
        "spec": {
            "group": "nvidia.com",
            "scope": "Namespaced",
            "names": names,
            "versions": [{"name": "v1alpha1", "served": True, "storage": True, "schema": schema}],
        },
    }
    with cluster.api() as api:
        api.apply("/apis/apiextensions.k8s.io/v1/customresourcedefinitions/dynamographdeployments.nvidia.com", document)
    cluster.kubectl("wait", "--for=condition=Established", "crd/dynamographdeployments.nvidia.com", "--timeout=60s")


@pytest.mark.usefixtures("graphs")
class TestGangs:
    async def test_gang_without_marks_on_its_pods_is_scheduled(self, bench: Bench) -> None:
        made = await gang(bench, gang_spec(bench.namespace, a=1, b=2))
        await bench.until(lambda: len(bench.running) == 3, "the whole gang runs")
        assert bench.groups == {f"pg-g-0-{made.metadata.uid}": 3}

    async def test_packing_of_parts_beside_a_plain_part_is_obeyed(self, bench: Bench, cluster: RunningCluster) -> None:
        rack = "topology.kubernetes.io/rack"
        levels = [{"nodeLabel": key} for key in ("topology.kubernetes.io/zone", rack, "kubernetes.io/hostname")]
        topology = unique(bench.namespace, "topology")
        kind = {"apiVersion": "kai.scheduler/v1alpha1", "kind": "Topology"}
        with cluster.api() as api:
            nodes = {node["metadata"]["name"]: node for node in api.get("/api/v1/nodes")["items"]}
            document = {**kind, "metadata": {"name": topology}, "spec": {"levels": levels}}
            api.create("/apis/kai.scheduler/v1alpha1/topologies", document)
        spec = gang_spec(bench.namespace, front=1, a=2, b=3)
        packed = {"packConstraint": {"required": rack, "preferred": rack}}
        spec["topologyConstraintGroupConfigs"] = [
            {"name": "g-0-sg-0", "podGroupNames": ["g-0-a", "g-0-b"], "topologyConstraint": packed}
        ]
        await gang(bench, spec, annotations={"grove.io/topology-name": topology})
        await bench.until(lambda: len(bench.running) == 6, "the whole gang runs")
        racks = {
            nodes[pod.spec["nodeName"]]["metadata"]["labels"][rack]
            for name, pod in bench.pods.items()
            if "front" not in name
        }
        assert len(racks) == 1

    @pytest.mark.parametrize(
        ("labels", "annotations", "extra"),
        [
            ({}, {}, {}),
            ({"kai.scheduler/queue": "q1", "team": "a"}, {"note": "x"}, {}),
            ({"project": "p"}, {}, {}),
            ({"priorityClassName": "inference", "kai.scheduler/preemptibility": "preemptible"}, {}, {}),
            ({"priorityClassName": "absent", "kai.scheduler/preemptibility": "maybe"}, {}, {}),
            ({"priorityClassName": "inference"}, {}, {"priorityClassName": "train"}),
            ({"user": "another"}, {"user": "another"}, {}),
        ],
        ids=["bare", "queue", "project", "labels", "unknown", "spec-priority", "user"],
    )
    async def test_group_of_a_gang_equals_that_of_kais_own_pod_grouper(
        self,
        cluster: RunningCluster,
        api: ApiServer,
        bench: Bench,
        labels: dict[str, str],
        annotations: dict[str, str],
        extra: Json,
    ) -> None:
        with (
            own_namespace(cluster, api, f"{bench.namespace}-kai") as other,
            kais_pod_grouper(cluster, "differential"),
        ):
            async with watching(cluster, other) as theirs:
                for where, scheduler in ((bench, "kai-scheduler"), (theirs, "differential")):
                    spec = gang_spec(where.namespace, a=1, b=2) | extra
                    await gang(where, spec, scheduler, POOL, labels=labels, annotations=annotations)
                    await where.until(lambda where=where: len(where.groups) == 1, "the group exists")
                    await where.until(lambda where=where: None not in where.marks.values(), "all pods are marked")
                assert plain(bench) == plain(theirs)


def plain(bench: Bench) -> Json:
    """The only PodGroup of a namespace, without what two objects can never share."""
    (name,) = bench.groups
    group = bench.group(name)
    meta = group.metadata
    (owner,) = meta.owner_references
    spec = {key: value for key, value in group.spec.items() if value not in ({}, [])}
    return {
        "name": meta.name.replace(owner.uid, "UID"),
        "labels": meta.labels,
        "annotations": {key: value.replace(owner.uid, "UID") for key, value in meta.annotations.items()},
        "owner": (owner.api_version, owner.kind, owner.name, owner.controller, owner.block_owner_deletion),
        "spec": spec,
        "parts": {pod: found.metadata.labels.get("kai.scheduler/subgroup-name") for pod, found in bench.pods.items()},
    }
