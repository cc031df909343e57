"""What each kind of owner makes of its pods: how many groups, which minimum, whose, at which priority."""

from __future__ import annotations

from typing import Any

import pytest
from grouper_objects import owner, pod

from grove.api.meta import OwnerReference
from grove.api.reasons import Reason
from grove.plan.actions import Why
from grove.podgrouper.grouping import Grouping, Owner
from grove.podgrouper.inheritance import KindDefaults, Surroundings
from grove.podgrouper.kind_defaults import UnreadableDefaults, kind_defaults
from grove.podgrouper.owners.table import by_owner
from grove.podgrouper.subject import Subject, first_owner, next_owner

AROUND = Surroundings(frozenset({"train", "build", "inference", "high"}))


def grouped(*owners: Owner, roles: frozenset[str] = frozenset(), **pod_fields: Any) -> Grouping:
    found = by_owner(Subject(pod("p-0", **pod_fields), owners, AROUND, roles))
    assert isinstance(found, Grouping), found
    return found


def refused(*owners: Owner, **pod_fields: Any) -> str:
    found = by_owner(Subject(pod("p-0", **pod_fields), owners, AROUND))
    assert isinstance(found, Why), found
    assert found.reason is Reason.OWNER_UNREADABLE
    return found.message


def replicas(**roles: int | None) -> dict[str, Any]:
    return {role: {"replicas": number} if number is not None else {} for role, number in roles.items()}


TF, TORCH, MPI = "TFJob", "PyTorchJob", "MPIJob"
POLICY = {"runPolicy": {"schedulingPolicy": {"minAvailable": 2}}}
LWS = {"leaderWorkerTemplate": {"size": 4}}
READY = {**LWS, "startupPolicy": "LeaderReady"}
LEADER = {"leaderworkerset.sigs.k8s.io/group-index": "1", "leaderworkerset.sigs.k8s.io/worker-index": "0"}
WORKER = {**LEADER, "leaderworkerset.sigs.k8s.io/worker-index": "2"}
JOBS = [
    {"name": "a", "replicas": 2, "template": {"spec": {"parallelism": 3, "completions": 2}}},
    {"name": "b", "template": {"spec": {"parallelism": 5}}},
]
ANY_ORDER = {"startupPolicyOrder": "AnyOrder"}
WORKERS = [
    {"replicas": 3, "minReplicas": 2, "numOfHosts": 2},
    {"replicas": 4},
    {"replicas": 9, "suspend": True},
    {"replicas": 0},
]


@pytest.mark.parametrize(
    ("kind", "api_version", "spec", "labels", "minimum"),
    [
        (TF, "kubeflow.org/v1", {"tfReplicaSpecs": replicas(PS=1, Worker=3)}, {}, 4),
        (TF, "kubeflow.org/v1", {"tfReplicaSpecs": replicas(PS=1, Worker=3), **POLICY}, {}, 2),
        (TORCH, "kubeflow.org/v1", {"pytorchReplicaSpecs": replicas(Master=1, Worker=7)}, {}, 8),
        (TORCH, "kubeflow.org/v1", {"pytorchReplicaSpecs": replicas(Master=None, Worker=7)}, {}, 8),
        (
            TORCH,
            "kubeflow.org/v1",
            {"pytorchReplicaSpecs": replicas(Worker=7), "elasticPolicy": {"minReplicas": 3}},
            {},
            3,
        ),
        (
            TORCH,
            "kubeflow.org/v1",
            {"pytorchReplicaSpecs": replicas(Worker=7), "elasticPolicy": {"minReplicas": 3}, **POLICY},
            {},
            2,
        ),
        ("XGBoostJob", "kubeflow.org/v1", {"xgbReplicaSpecs": replicas(Master=1, Worker=2)}, {}, 3),
        ("JAXJob", "kubeflow.org/v1", {"jaxReplicaSpecs": replicas(Worker=2)}, {}, 2),
        (MPI, "kubeflow.org/v2beta1", {"mpiReplicaSpecs": replicas(Launcher=1, Worker=2)}, {}, 3),
        ("LeaderWorkerSet", "leaderworkerset.x-k8s.io/v1", LWS, LEADER, 4),
        ("LeaderWorkerSet", "leaderworkerset.x-k8s.io/v1", READY, LEADER, 1),
        ("LeaderWorkerSet", "leaderworkerset.x-k8s.io/v1", READY, WORKER, 4),
        ("RayCluster", "ray.io/v1", {"headGroupSpec": {}, "workerGroupSpecs": WORKERS}, {}, 1 + 4 + 4),
        ("RayCluster", "ray.io/v1alpha1", {"headGroupSpec": {"replicas": 2}}, {}, 2),
        ("RayCluster", "ray.io/v1", {"workerGroupSpecs": [{"replicas": 0, "minReplicas": 2}]}, {}, 1 + 2),
        ("RayCluster", "ray.io/v1", {"workerGroupSpecs": [{"replicas": 5, "maxReplicas": 3}]}, {}, 1 + 3),
        ("RayJob", "ray.io/v1", {"rayClusterSpec": {"workerGroupSpecs": WORKERS}}, {}, 1 + 4 + 4),
        ("RayService", "ray.io/v1", {"rayClusterConfig": {"workerGroupSpecs": WORKERS}}, {}, 1 + 4 + 4),
        ("RayJob", "ray.io/v1", {"clusterSelector": {"ray.io/cluster": "other"}}, {}, 1),
        (
            "JobSet",
            "jobset.x-k8s.io/v1alpha2",
            {"replicatedJobs": JOBS},
            {"jobset.sigs.k8s.io/replicatedjob-name": "a"},
            4,
        ),
        (
            "JobSet",
            "jobset.x-k8s.io/v1alpha2",
            {"replicatedJobs": JOBS, "startupPolicy": ANY_ORDER},
            {},
            9,
        ),
        (
            "JobSet",
            "jobset.x-k8s.io/v1alpha2",
            {"replicatedJobs": [JOBS[0], {**JOBS[1], "dependsOn": [{"name": "a"}]}], "startupPolicy": ANY_ORDER},
            {"jobset.sigs.k8s.io/replicatedjob-name": "b"},
            5,
        ),
        ("AmlJob", "amlarc.azureml.com/v1alpha1", {"job": {"options": {"envs": {"AZUREML_NODE_COUNT": 3}}}}, {}, 3),
        ("Unknown", "example.com/v1", {"replicas": 5}, {}, 1),
        ("StatefulSet", "apps/v1", {"replicas": 5}, {}, 1),
    ],
)
def test_minimum(kind: str, api_version: str, spec: dict[str, Any], labels: dict[str, str], minimum: int) -> None:
    assert grouped(owner(kind, api_version, spec=spec), labels=labels).min_member == minimum


def test_launcher_that_waits_for_its_workers_counts_once_it_exists() -> None:
    spec = {"mpiReplicaSpecs": replicas(Launcher=1, Worker=4), "launcherCreationPolicy": "WaitForWorkersReady"}
    job = owner(MPI, "kubeflow.org/v1", spec=spec)
    assert grouped(job).min_member == 4
    assert grouped(job, roles=frozenset({"launcher", "worker"})).min_member == 5


def test_scheduled_leader_needs_its_whole_group() -> None:
    found = grouped(
        owner("LeaderWorkerSet", "leaderworkerset.x-k8s.io/v1", spec=READY), labels=LEADER, spec={"nodeName": "n"}
    )
    assert (found.min_member, found.name) == (4, "pg-o-uid-o-group-1")


@pytest.mark.parametrize(
    ("kind", "api_version", "spec", "problem"),
    [
        (TF, "kubeflow.org/v1", {}, "spec.tfReplicaSpecs is missing"),
        (TF, "kubeflow.org/v1", {"tfReplicaSpecs": replicas(Worker=0)}, "spec.tfReplicaSpecs.Worker.replicas"),
        (
            "XGBoostJob",
            "kubeflow.org/v1",
            {"xgbReplicaSpecs": replicas(Worker=1)},
            "spec.xgbReplicaSpecs.Master is missing",
        ),
        ("LeaderWorkerSet", "leaderworkerset.x-k8s.io/v1", {}, "spec.leaderWorkerTemplate.size"),
        ("JobSet", "jobset.x-k8s.io/v1alpha2", {"replicatedJobs": []}, "asks for no pods"),
    ],
)
def test_owner_that_does_not_say_its_size_is_told_so(
    kind: str, api_version: str, spec: dict[str, Any], problem: str
) -> None:
    assert problem in refused(owner(kind, api_version, spec=spec))


def test_deployment_pods_have_groups_of_their_own() -> None:
    found = grouped(owner("ReplicaSet", name="rs"), owner("Deployment", name="d", labels={"a": "b"}))
    assert found.name == "pg-p-0-uid-p-0"
    assert (found.owner.kind, found.owner.uid, found.labels, found.priority_class_name) == (
        "Pod",
        "uid-p-0",
        {"a": "b"},
        "inference",
    )


def test_job_pods_have_groups_of_their_own_that_the_job_owns() -> None:
    found = grouped(owner("Job", "batch/v1", name="j"))
    assert (found.name, found.owner.kind) == ("pg-p-0-uid-j", "Job")


def test_cron_job_pods_are_grouped_by_their_job() -> None:
    found = grouped(owner("Job", "batch/v1", name="j"), owner("CronJob", "batch/v1", name="c"))
    assert (found.name, found.owner.name) == ("pg-j-uid-j", "j")


def test_spark_pods_share_the_group_their_selector_names() -> None:
    assert grouped(labels={"spark-app-name": "n", "spark-app-selector": "spark-1"}).name == "spark-1"
    assert grouped().name == "pg-p-0-uid-p-0"


def test_ray_job_takes_the_counts_of_its_cluster_and_rays_own_priority() -> None:
    cluster = owner("RayCluster", "ray.io/v1", name="c", spec={"workerGroupSpecs": [{"replicas": 3}]})
    found = grouped(cluster, owner("RayJob", "ray.io/v1", name="j", labels={"ray.io/priority-class-name": "mine"}))
    assert (found.name, found.min_member, found.priority_class_name) == ("pg-j-uid-j", 4, "mine")


@pytest.mark.parametrize(("noted", "minimum"), [("3", 3), ("0", 1), ("many", 1), (None, 1)])
def test_knative_pods_are_grouped_by_revision(noted: str | None, minimum: int) -> None:
    notes = {"autoscaling.knative.dev/min-scale": noted} if noted else {}
    revision = owner("Revision", "serving.knative.dev/v1", name="r", annotations=notes)
    service = owner("Service", "serving.knative.dev/v1", name="s")
    found = grouped(owner("ReplicaSet"), owner("Deployment"), revision, service)
    assert (found.name, found.min_member, found.priority_class_name) == ("pg-r-uid-r", minimum, "inference")


def test_notebook_and_spot_request_have_priorities_of_their_own() -> None:
    assert grouped(owner("Notebook", "kubeflow.org/v1beta1")).priority_class_name == "build"
    assert grouped(owner("SPOTRequest", "egx.nvidia.io/v1")).priority_class_name == "inference"


def test_replicas_of_a_run_ai_job_share_a_group() -> None:
    assert grouped(owner("RunaiJob", "run.ai/v1")).name == "pg-p-uid-o"


def test_wrapper_lends_its_labels_to_the_owner_below_it() -> None:
    wrapper = owner("Workflow", "argoproj.io/v1alpha1", name="flow", labels={"kai.scheduler/queue": "q", "a": "flow"})
    job = owner("Job", "batch/v1", name="j", labels={"a": "job"})
    found = grouped(job, wrapper)
    assert (found.queue, found.labels["a"], found.owner.name) == ("q", "job", "j")
    alone = grouped(wrapper)
    assert (alone.queue, alone.name, alone.owner.kind) == ("q", "pg-p-0-uid-p-0", "Pod")


def test_defaults_of_a_kind_count_after_labels_and_before_the_built_in_ones() -> None:
    kinds = {"StatefulSet.apps": KindDefaults("high", "Preemptible"), "Job": KindDefaults("unknown")}
    around = Surroundings(AROUND.priority_classes, kinds)
    found = by_owner(Subject(pod(), (owner("StatefulSet"),), around))
    assert isinstance(found, Grouping)
    assert (found.priority_class_name, found.preemptibility) == ("high", "preemptible")
    other = by_owner(Subject(pod(), (owner("Job", "batch/v1"),), around))
    assert isinstance(other, Grouping)
    assert other.priority_class_name == "train"


def test_defaults_are_read_in_the_form_kai_reads_them() -> None:
    types = """[
        {"typeName": "Deployment", "group": "apps", "priorityName": "build", "preemptibility": "preemptible"},
        {"typeName": "Notebook", "priorityName": "train"},
        {"typeName": "Notebook", "priorityName": "build", "unknown": 1}
    ]"""
    assert kind_defaults({"types": types}) == {
        "Deployment.apps": KindDefaults("build", "preemptible"),
        "Notebook": KindDefaults("build"),
    }


@pytest.mark.parametrize("data", [{}, {"types": "{"}, {"types": '{"typeName": "A"}'}, {"types": "[1]"}])
def test_defaults_in_another_form_are_told(data: dict[str, str]) -> None:
    with pytest.raises(UnreadableDefaults, match="types"):
        kind_defaults(data)


@pytest.mark.parametrize(
    ("owner_labels", "pod_labels", "queue"),
    [
        ({"project": "a"}, {}, "a"),
        ({"project": "a"}, {"kai.scheduler/node-pool": "x"}, "a-x"),
        ({}, {"project": "b"}, "b"),
        ({"project": "a"}, {"kai.scheduler/queue": "q"}, "q"),
        ({}, {}, "default-queue"),
    ],
)
def test_queue_of_a_project(owner_labels: dict[str, str], pod_labels: dict[str, str], queue: str) -> None:
    assert grouped(owner("StatefulSet", labels=owner_labels), labels=pod_labels).queue == queue


class TestClimb:
    def reference(self, name: str, *, controller: bool = False) -> OwnerReference:
        return OwnerReference(kind="Thing", name=name, uid=name, controller=controller or None)

    def test_controller_speaks_for_an_object(self) -> None:
        found = next_owner([self.reference("a"), self.reference("b", controller=True)], "x")
        assert isinstance(found, OwnerReference)
        assert found.name == "b"

    def test_several_equal_owners_cannot(self) -> None:
        found = next_owner([self.reference("a"), self.reference("b")], "Job x")
        assert isinstance(found, Why)
        assert "Job x is owned by Thing a, Thing b" in found.message

    def test_pod_takes_its_first_owner_where_none_is_its_controller(self) -> None:
        references = [{"kind": "A", "name": "a", "uid": "a"}, {"kind": "B", "name": "b", "uid": "b"}]
        found = first_owner(pod(ownerReferences=references))
        assert found is not None
        assert found.name == "a"


def test_name_too_long_for_an_object_is_cut_and_stays_distinct() -> None:
    one, two = (grouped(owner("StatefulSet", name="x" * 250, uid=uid)).name for uid in ("a", "b"))
    assert len(one) == 253
    assert one != two
