"""Start ordering with the real waiting program: pods of simulated nodes, their own identities, a real API server."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from grove.localcluster import ClusterSpec, RunningCluster, Scheduler, reset, restart, up
from grove.localcluster.init_runner import PROCESSES
from grove.localcluster.stages import CRASH, INIT_CONTAINER

LIMIT = 60.0
GANG = "w-0"


def until(what: str, reached: Callable[[], bool]) -> None:
    deadline = time.monotonic() + LIMIT
    while not reached():
        assert time.monotonic() < deadline, f"waited {LIMIT:.0f} s for {what}"
        time.sleep(0.1)


def says(cluster: RunningCluster, pod: str, line: str) -> None:
    """Wait until the program of this pod has said this."""
    log = cluster.files.log("init-runner")
    until(f"{pod} to say {line!r}", lambda: f"{pod}: {line}" in log.read_text())


def pod(name: str, clique: str, *parents: str, gang: str = GANG, **annotations: str) -> dict[str, Any]:
    """A pod as the operator makes them, with a waiting program if it has parents."""
    spec: dict[str, Any] = {"containers": [{"name": "main", "image": "example/main:1"}]}
    if parents:
        program = {
            "name": INIT_CONTAINER,
            "image": "example/grove:1",
            "command": ["grove-initc"],
            "args": [f"--podcliques={parent}" for parent in parents],
            "env": [
                {"name": "POD_NAMESPACE", "valueFrom": {"fieldRef": {"fieldPath": "metadata.namespace"}}},
                {"name": "POD_GANG", "valueFrom": {"fieldRef": {"fieldPath": "metadata.labels['grove.io/podgang']"}}},
            ],
        }
        spec["initContainers"] = [program]
    labels = {"grove.io/podclique": clique, "grove.io/podgang": gang}
    metadata = {"name": name, "labels": labels, "annotations": annotations}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}


class Namespace:
    """What a test does in its namespace."""

    def __init__(self, cluster: RunningCluster, name: str) -> None:
        self.cluster = cluster
        self.name = name

    def create(self, *pods: dict[str, Any]) -> None:
        body = json.dumps({"apiVersion": "v1", "kind": "List", "items": list(pods)})
        self.kubectl("create", "-f", "-", stdin=body)

    def kubectl(self, *arguments: str, stdin: str | None = None) -> str:
        return self.cluster.kubectl("-n", self.name, *arguments, stdin=stdin)

    def conditions(self, name: str) -> dict[str, dict[str, str]]:
        document = json.loads(self.kubectl("get", "pod", name, "-o", "json"))
        return {one["type"]: one for one in document["status"]["conditions"]}

    def become_ready(self, *names: str) -> None:
        self.kubectl("wait", *(f"pod/{name}" for name in names), "--for=condition=Ready", f"--timeout={LIMIT:.0f}s")

    def is_held(self, name: str) -> bool:
        return self.conditions(name)["Initialized"]["status"] == "False"

    def says(self, name: str, line: str) -> None:
        says(self.cluster, f"{self.name}/{name}", line)

    def let_pods_be_read(self) -> None:
        self.kubectl("create", "role", "reader", "--verb=get,list,watch", "--resource=pods")
        self.kubectl("create", "rolebinding", "reader", "--role=reader", f"--serviceaccount={self.name}:default")


@pytest.fixture
def team(cluster: RunningCluster, namespace: str) -> Namespace:
    found = Namespace(cluster, namespace)
    found.let_pods_be_read()
    return found


def test_child_starts_only_when_its_parents_are_ready(team: Namespace) -> None:
    crashing = {CRASH: "true"}
    team.create(
        pod("child", "w-0-c", "w-0-a:2", "w-0-b:1"),
        pod("a-0", "w-0-a"),
        pod("a-1", "w-0-a", **crashing),
        pod("b-0", "w-0-b", **crashing),
    )
    team.says("child", "waiting for w-0-a: 1 of 2 ready, w-0-b: 0 of 1 ready")
    assert team.is_held("child")

    team.kubectl("annotate", "pod/b-0", f"{CRASH}-")
    team.says("child", "waiting for w-0-a: 1 of 2 ready\n")
    assert team.is_held("child")

    team.kubectl("annotate", "pod/a-1", f"{CRASH}-")
    team.become_ready("child")
    times = {name: team.conditions(name)["Ready"]["lastTransitionTime"] for name in ("child", "a-1", "b-0")}
    assert times["child"] >= max(times["a-1"], times["b-0"])


def test_only_pods_of_the_named_clique_in_the_own_gang_release_the_child(team: Namespace) -> None:
    team.create(
        pod("child", "w-0-c", "w-0-pc:1"),
        pod("w-0-pc-a-0", "w-0-pc-a"),
        pod("w-0-pc-0", "w-0-pc", gang="w-0-group-1"),
    )
    team.become_ready("w-0-pc-a-0", "w-0-pc-0")
    team.says("child", "waiting for w-0-pc: 0 of 1 ready")
    assert team.is_held("child")

    team.create(pod("right", "w-0-pc"))
    team.become_ready("child")


def test_program_has_the_rights_of_its_own_pod_and_no_others(cluster: RunningCluster, namespace: str) -> None:
    team = Namespace(cluster, namespace)
    team.create(pod("parent", "w-0-a"), pod("child", "w-0-c", "w-0-a:1"))
    team.become_ready("parent")
    team.says("child", "cannot read pods, trying again: 403 ")
    assert (
        f'User "system:serviceaccount:{namespace}:default" cannot list' in cluster.files.log("init-runner").read_text()
    )
    assert team.is_held("child")

    team.let_pods_be_read()
    team.become_ready("child")


def test_more_programs_than_processes_wait_without_blocking_each_other(team: Namespace) -> None:
    """A chain, last link first: were there a limit on waiting programs, the first link would never get its turn."""
    links = PROCESSES + 8
    team.create(*(pod(f"link-{i}", f"w-0-l{i}", f"w-0-l{i - 1}:1") for i in range(links, 0, -1)))
    team.says("link-1", "waiting for w-0-l0: 0 of 1 ready")
    for i in range(1, links + 1):
        team.says(f"link-{i}", "waiting for ")
    team.create(pod("link-0", "w-0-l0"))
    team.become_ready(*(f"link-{i}" for i in range(links + 1)))


@pytest.fixture
def alone(tmp_path: Path) -> Iterator[Namespace]:
    """A namespace on a cluster of its own: nobody else should have to live with a restart of the API server."""
    spec = ClusterSpec(
        name="alone", nodes=1, racks=1, blocks=1, gpus=0, scheduler=Scheduler.KUBE, data_dir=tmp_path / "alone"
    )
    cluster = up(spec)
    try:
        cluster.kubectl("create", "namespace", "team")
        cluster.kubectl("wait", "--for=create", "serviceaccount/default", "-n", "team", "--timeout=30s")
        found = Namespace(cluster, "team")
        found.let_pods_be_read()
        yield found
    finally:
        reset(spec.name, spec.data_dir)


def test_waiting_goes_on_after_the_runner_and_the_api_server_came_back(alone: Namespace) -> None:
    alone.create(pod("child", "w-0-c", "w-0-a:1"))
    alone.says("child", "waiting for w-0-a: 0 of 1 ready")
    assert restart(alone.cluster, "init-runner").exit_code is None
    alone.says("child", "waiting for w-0-a: 0 of 1 ready")
    restart(alone.cluster, "kube-apiserver")
    alone.create(pod("parent", "w-0-a"))
    alone.become_ready("child")


def test_program_and_token_of_a_deleted_pod_go_with_it(team: Namespace) -> None:
    team.create(pod("child", "w-0-c", "w-0-a:1"))
    team.says("child", "waiting for w-0-a: 0 of 1 ready")
    uid = team.kubectl("get", "pod", "child", "-o", "jsonpath={.metadata.uid}")
    token = team.cluster.files.configuration / "init-tokens" / uid
    assert token.exists()
    team.kubectl("delete", "pod", "child")
    until("the token to be removed", lambda: not token.exists())
