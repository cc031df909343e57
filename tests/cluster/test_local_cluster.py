"""The local cluster is a real one: nodes, kinds, schedulers, pod lives, supervision."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from grove.cli.main import main
from grove.localcluster import (
    ClusterSpec,
    ComponentError,
    LocalClusterError,
    RunningCluster,
    Scheduler,
    components,
    down,
    reset,
    restart,
    service_account_kubeconfig,
    up,
)
from grove.localcluster.components import Component, Probe, Row, Surroundings, Wave
from grove.localcluster.processes import identity_of, marker_for, processes_of, wait_until_gone
from grove.localcluster.stages import CRASH, INIT_CONTAINER, INITC_FINISHED
from grove.localcluster.states import ComponentState


def pod(name: str, **overrides: Any) -> dict[str, Any]:
    metadata = {"name": name, **overrides.pop("metadata", {})}
    spec = {"containers": [{"name": "main", "image": "example/main:1"}], **overrides}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}


def create(cluster: RunningCluster, namespace: str, *documents: dict[str, Any]) -> None:
    for document in documents:
        cluster.kubectl("create", "-n", namespace, "-f", "-", stdin=json.dumps(document))


def wait_for(cluster: RunningCluster, namespace: str, subject: str, condition: str) -> None:
    cluster.kubectl("wait", "-n", namespace, subject, f"--for={condition}", "--timeout=30s")


def get(cluster: RunningCluster, namespace: str, *subject: str) -> Any:
    return json.loads(cluster.kubectl("get", "-n", namespace, *subject, "-o", "json"))


def conditions(document: dict[str, Any]) -> dict[str, str]:
    return {one["type"]: one["status"] for one in document["status"]["conditions"]}


def waiting_init_container() -> dict[str, Any]:
    return {"name": INIT_CONTAINER, "image": "example/initc:1"}


class TestSharedCluster:
    def test_nodes_are_ready_and_carry_their_topology(self, cluster: RunningCluster) -> None:
        nodes = get(cluster, "default", "nodes")["items"]
        assert len(nodes) == 12
        assert all(conditions(node)["Ready"] == "True" for node in nodes)
        places = {
            (
                node["metadata"]["labels"]["topology.kubernetes.io/zone"],
                node["metadata"]["labels"]["topology.kubernetes.io/block"],
                node["metadata"]["labels"]["topology.kubernetes.io/rack"],
            )
            for node in nodes
        }
        assert places == {
            ("zone-0", "block-0", "rack-0"),
            ("zone-0", "block-0", "rack-1"),
            ("zone-1", "block-1", "rack-2"),
            ("zone-1", "block-1", "rack-3"),
        }
        assert {node["status"]["allocatable"]["nvidia.com/gpu"] for node in nodes} == {"8"}
        assert {node["metadata"]["labels"]["kubernetes.io/hostname"] for node in nodes} == {
            node["metadata"]["name"] for node in nodes
        }

    def test_server_is_the_pinned_kubernetes(self, cluster: RunningCluster) -> None:
        assert json.loads(cluster.kubectl("version", "-o", "json"))["serverVersion"]["gitVersion"] == "v1.35.4"

    def test_workload_and_device_apis_are_served(self, cluster: RunningCluster) -> None:
        served = set(cluster.kubectl("api-resources", "-o", "name", "--cached=false").split())
        assert {"workloads.scheduling.k8s.io", "resourceclaims.resource.k8s.io"} <= served
        assert "resource.k8s.io/v1" in cluster.kubectl("api-versions").split()

    def test_kinds_and_default_queue_of_kai_exist(self, cluster: RunningCluster) -> None:
        served = set(cluster.kubectl("api-resources", "-o", "name", "--cached=false").split())
        expected = {"podgroups.scheduling.run.ai", "queues.scheduling.run.ai", "bindrequests.scheduling.run.ai"}
        assert expected | {"topologies.kai.scheduler"} <= served
        queue = json.loads(cluster.kubectl("get", "queues.scheduling.run.ai", "default-queue", "-o", "json"))
        assert queue["spec"]["parentQueue"] == "default-parent-queue"
        priorities = set(cluster.kubectl("get", "priorityclasses", "-o", "name").split())
        assert {f"priorityclass.scheduling.k8s.io/{name}" for name in ("train", "build", "inference")} <= priorities

    def test_pod_becomes_ready(self, cluster: RunningCluster, namespace: str) -> None:
        create(cluster, namespace, pod("plain", initContainers=[{"name": "setup", "image": "example/setup:1"}]))
        wait_for(cluster, namespace, "pod/plain", "condition=Ready")
        status = get(cluster, namespace, "pod", "plain")["status"]
        assert status["phase"] == "Running"
        assert status["podIP"]
        assert status["initContainerStatuses"][0]["state"]["terminated"]["exitCode"] == 0

    def test_deployment_rolls_out_and_scales_to_nothing(self, cluster: RunningCluster, namespace: str) -> None:
        cluster.kubectl("create", "deployment", "web", "-n", namespace, "--image=example/web:1", "--replicas=5")
        cluster.kubectl("rollout", "status", "deployment/web", "-n", namespace, "--timeout=30s")
        cluster.kubectl("scale", "deployment/web", "-n", namespace, "--replicas=0")
        cluster.kubectl("wait", "-n", namespace, "pod", "-l", "app=web", "--for=delete", "--timeout=30s")

    def test_job_completes(self, cluster: RunningCluster, namespace: str) -> None:
        cluster.kubectl("create", "job", "once", "-n", namespace, "--image=example/job:1")
        wait_for(cluster, namespace, "job/once", "condition=Complete")

    def test_waiting_init_container_holds_the_pod_until_it_is_released(
        self, cluster: RunningCluster, namespace: str
    ) -> None:
        others = [{"name": name, "image": "example/setup:1"} for name in ("before", "after")]
        create(cluster, namespace, pod("held", initContainers=[others[0], waiting_init_container(), others[1]]))
        wait_for(cluster, namespace, "pod/held", "jsonpath={.status.podIP}")
        held = get(cluster, namespace, "pod", "held")
        assert held["status"]["phase"] == "Pending"
        assert {kind: conditions(held)[kind] for kind in ("Initialized", "Ready")} == {
            "Initialized": "False",
            "Ready": "False",
        }
        states = {one["name"]: next(iter(one["state"])) for one in held["status"]["initContainerStatuses"]}
        assert states == {"before": "terminated", INIT_CONTAINER: "running", "after": "waiting"}

        cluster.kubectl("annotate", "-n", namespace, "pod/held", f"{INITC_FINISHED}=true")
        wait_for(cluster, namespace, "pod/held", "condition=Ready")
        released = get(cluster, namespace, "pod", "held")
        assert released["status"]["phase"] == "Running"
        assert conditions(released)["Initialized"] == "True"
        assert released["status"]["podIP"] == held["status"]["podIP"]
        exits = [one["state"]["terminated"]["exitCode"] for one in released["status"]["initContainerStatuses"]]
        assert exits == [0, 0, 0]

    def test_held_pod_can_be_deleted(self, cluster: RunningCluster, namespace: str) -> None:
        create(cluster, namespace, pod("held", initContainers=[waiting_init_container()]))
        wait_for(cluster, namespace, "pod/held", "jsonpath={.status.podIP}")
        cluster.kubectl("delete", "pod/held", "-n", namespace, "--timeout=30s")

    def test_a_pod_is_ended_once_and_what_takes_its_name_is_left_alone(
        self, cluster: RunningCluster, namespace: str
    ) -> None:
        for name in ("first", "second", "last"):
            create(cluster, namespace, pod(name))
            wait_for(cluster, namespace, f"pod/{name}", "condition=Ready")
            cluster.kubectl("delete", f"pod/{name}", "-n", namespace, "--timeout=30s")
        told = [line for line in cluster.files.log("kwok").read_text().splitlines() if namespace in line]
        assert sum('"Delete pod"' in line for line in told) == 3
        assert [line for line in told if "failed to apply stage" in line] == []

    def test_crash_annotation_breaks_a_pod_until_it_is_removed(self, cluster: RunningCluster, namespace: str) -> None:
        create(cluster, namespace, pod("fragile"))
        wait_for(cluster, namespace, "pod/fragile", "condition=Ready")
        cluster.kubectl("annotate", "-n", namespace, "pod/fragile", f"{CRASH}=true")
        wait_for(cluster, namespace, "pod/fragile", "condition=Ready=false")
        container = get(cluster, namespace, "pod", "fragile")["status"]["containerStatuses"][0]
        assert container["state"]["waiting"]["reason"] == "CrashLoopBackOff"
        assert container["lastState"]["terminated"]["exitCode"] == 1
        assert container["restartCount"] == 1

        cluster.kubectl("annotate", "-n", namespace, "pod/fragile", f"{CRASH}-")
        wait_for(cluster, namespace, "pod/fragile", "condition=Ready")
        container = get(cluster, namespace, "pod", "fragile")["status"]["containerStatuses"][0]
        assert container["restartCount"] == 1
        assert "running" in container["state"]

    def test_crash_of_a_pod_that_never_restarts_is_final(self, cluster: RunningCluster, namespace: str) -> None:
        create(cluster, namespace, pod("mortal", metadata={"annotations": {CRASH: "true"}}, restartPolicy="Never"))
        wait_for(cluster, namespace, "pod/mortal", "jsonpath={.status.phase}=Failed")

    def test_kai_schedules_a_gang(self, cluster: RunningCluster, namespace: str) -> None:
        group = f"gang-{namespace}"
        create(
            cluster,
            namespace,
            {
                "apiVersion": "scheduling.run.ai/v2alpha2",
                "kind": "PodGroup",
                "metadata": {"name": group},
                "spec": {"minMember": 2, "queue": "default-queue", "priorityClassName": "inference"},
            },
        )
        gpus = {"requests": {"nvidia.com/gpu": "8"}, "limits": {"nvidia.com/gpu": "8"}}
        containers = [{"name": "main", "image": "example/main:1", "resources": gpus}]
        member = {"metadata": {"annotations": {"pod-group-name": group}}, "schedulerName": "kai-scheduler"}
        create(cluster, namespace, *(pod(f"member-{index}", containers=containers, **member) for index in range(2)))
        for index in range(2):
            wait_for(cluster, namespace, f"pod/member-{index}", "condition=Ready")
        hosts = {one["spec"]["nodeName"] for one in get(cluster, namespace, "pods")["items"]}
        assert len(hosts) == 2

    def test_service_account_kubeconfig_has_only_its_own_rights(self, cluster: RunningCluster, namespace: str) -> None:
        cluster.kubectl("create", "serviceaccount", "robot", "-n", namespace)
        path = service_account_kubeconfig(cluster, namespace, "robot")
        as_robot = ("--kubeconfig", str(path))
        user = json.loads(cluster.kubectl("auth", "whoami", "-o", "json", *as_robot))["status"]["userInfo"]["username"]
        assert user == f"system:serviceaccount:{namespace}:robot"
        with pytest.raises(LocalClusterError, match="forbidden"):
            cluster.kubectl("get", "pods", "-n", namespace, *as_robot)
        cluster.kubectl(
            "create",
            "rolebinding",
            "reads",
            "-n",
            namespace,
            "--clusterrole=view",
            f"--serviceaccount={namespace}:robot",
        )
        cluster.kubectl("get", "pods", "-n", namespace, *as_robot)

    def test_second_start_says_so_and_changes_nothing(self, cluster: RunningCluster) -> None:
        before = {name: status.pid for name, status in cluster.components().items()}
        answer = CliRunner().invoke(main, ["local", "up", "--data-dir", str(cluster.spec.folder), "--nodes", "3"])
        assert answer.exit_code == 0, answer.output
        assert "already running" in answer.output
        assert {name: status.pid for name, status in cluster.components().items()} == before
        assert len(get(cluster, "default", "nodes")["items"]) == 12


@pytest.fixture
def small(tmp_path: Path) -> Iterator[ClusterSpec]:
    """A tiny cluster of one test's own, wiped whatever happens."""
    spec = ClusterSpec(
        name="small", nodes=2, racks=1, blocks=1, gpus=0, scheduler=Scheduler.KUBE, data_dir=tmp_path / "small"
    )
    yield spec
    reset(spec.name, spec.data_dir)


class TestLifeOfACluster:
    def test_state_survives_down_and_is_wiped_by_reset(self, small: ClusterSpec) -> None:
        marker = marker_for(small.folder)
        first = up(small)
        first.kubectl("create", "namespace", "keepsake")
        token = service_account_kubeconfig(first, "default", "default").read_text()
        assert processes_of(marker)

        assert down(small.name, small.data_dir)
        assert processes_of(marker) == []
        assert not down(small.name, small.data_dir)

        second = up(small)
        assert not second.was_running
        assert second.url == first.url
        second.kubectl("get", "namespace", "keepsake")
        path = small.folder / "config" / "default.default.kubeconfig"
        assert path.read_text() == token
        second.kubectl("auth", "whoami", "--kubeconfig", str(path))

        stranger = small.folder / "notes.txt"
        stranger.write_text("not the cluster's")
        assert reset(small.name, small.data_dir)
        assert processes_of(marker) == []
        assert list(small.folder.iterdir()) == [stranger]

    def test_killed_component_is_reported_and_can_be_restarted(self, small: ClusterSpec) -> None:
        running = up(small)
        victim = running.components()["kwok"]
        os.kill(victim.pid, signal.SIGKILL)
        assert wait_until_gone([victim.identity], 10) == []
        answer = CliRunner().invoke(main, ["local", "status", "--data-dir", str(small.folder)])
        assert answer.exit_code == 1
        assert "kwok was killed by SIGKILL" in answer.output

        again = CliRunner().invoke(main, ["local", "up", "--data-dir", str(small.folder)])
        assert again.exit_code == 1
        assert "grove local restart kwok" in again.output

        assert restart(running, "kwok").state is ComponentState.READY
        assert CliRunner().invoke(main, ["local", "status", "--data-dir", str(small.folder)]).exit_code == 0

    def test_down_ends_everything_also_when_the_supervisor_was_killed(self, small: ClusterSpec) -> None:
        up(small)
        state = json.loads((small.folder / "state.json").read_text())
        supervisor = identity_of(state["pid"])
        assert supervisor is not None
        os.kill(supervisor.pid, signal.SIGKILL)
        wait_until_gone([supervisor], 10)
        answer = CliRunner().invoke(main, ["local", "status", "--data-dir", str(small.folder)])
        assert answer.exit_code == 1
        assert "kube-apiserver" in answer.output

        assert down(small.name, small.data_dir)
        assert processes_of(marker_for(small.folder)) == []

    def test_component_that_dies_at_start_is_shown_and_nothing_stays(
        self, small: ClusterSpec, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        def broken(_: Surroundings) -> Component:
            probe = Probe("http://127.0.0.1:1/healthz")
            return Component("broken", ("sh", "-c", "echo no luck today; exit 5"), Wave.STORAGE, probe)

        monkeypatch.setattr(components, "TABLE", (*components.TABLE, Row(broken, ())))
        with pytest.raises(ComponentError, match=r"broken exited with status 5.*\n.*no luck today"):
            up(small)
        assert processes_of(marker_for(small.folder)) == []

    def test_nodes_follow_the_spec_of_the_next_start(self, small: ClusterSpec) -> None:
        up(small)
        down(small.name, small.data_dir)
        changed = ClusterSpec(
            name="small", nodes=1, racks=1, blocks=1, gpus=4, scheduler=Scheduler.KUBE, data_dir=small.data_dir
        )
        running = up(changed)
        (node,) = get(running, "default", "nodes")["items"]
        assert node["metadata"]["name"] == "node-0"
        assert node["status"]["allocatable"]["nvidia.com/gpu"] == "4"
