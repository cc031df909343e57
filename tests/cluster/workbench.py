"""What a scenario needs on the cluster with the operator: a namespace, nodes of its own, and words for both.

A node of the workbench has room for exactly one pod of a scenario, so capacity is a number of nodes; cordoning plays
scarcity. Nothing else runs there: nodes are tainted, and pods of the scenario select them.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TypeVar

import yaml
from scenario_objects import Json, condition_of, is_gated, is_ready, is_refused, node_of

from grove.localcluster import ClusterSpec, RunningCluster
from grove.localcluster.nodes import BLOCK_LABEL, RACK_LABEL, ZONE_LABEL, is_schedulable, node_labels
from grove.localcluster.rest import ApiError, ApiServer

T = TypeVar("T")

LIMIT = 60.0
POLL = 0.2
POOL = "test.grove.io/pool"
CAPACITY = {"cpu": "4", "memory": "8Gi", "pods": "10"}
FILLING = "3"  # cores, of which a node has four
EXAMPLES = Path(__file__).parents[2] / "examples"
_ROOTS = {
    "pods": "/api/v1",
    "services": "/api/v1",
    "serviceaccounts": "/api/v1",
    "events": "/api/v1",
    "podcliquesets": "/apis/grove.io/v1alpha1",
    "podcliques": "/apis/grove.io/v1alpha1",
    "podcliquescalinggroups": "/apis/grove.io/v1alpha1",
    "podgangs": "/apis/scheduler.grove.io/v1alpha1",
    "podgroups": "/apis/scheduling.run.ai/v2alpha2",
    "controllerrevisions": "/apis/apps/v1",
    "roles": "/apis/rbac.authorization.k8s.io/v1",
    "rolebindings": "/apis/rbac.authorization.k8s.io/v1",
}
PODS, SETS, CLIQUES, GROUPS = "pods", "podcliquesets", "podcliques", "podcliquescalinggroups"
GANGS, POD_GROUPS = "podgangs", "podgroups"


def eventually(what: str, found: Callable[[], T], limit: float = LIMIT) -> T:
    """Look until there is something, and give it back."""
    deadline = time.monotonic() + limit
    while True:
        value = found()
        if value:
            return value
        assert time.monotonic() < deadline, f"waited {limit:.0f} s for {what}"
        time.sleep(POLL)


class Workbench:
    """One test's namespace and nodes."""

    def __init__(self, cluster: RunningCluster, api: ApiServer, namespace: str) -> None:
        self.cluster = cluster
        self.api = api
        self.namespace = namespace
        self.nodes: list[str] = []

    # Objects.

    def path(self, kind: str, name: str = "", subresource: str = "") -> str:
        parts = [_ROOTS[kind], "namespaces", self.namespace, kind, name, subresource]
        return "/".join(part for part in parts if part)

    def create(self, pod_clique_set: Json) -> Json:
        return self.api.create(self.path(SETS), pod_clique_set)

    def get(self, kind: str, name: str) -> Json:
        return self.api.get(self.path(kind, name))

    def all(self, kind: str) -> list[Json]:
        items: list[Json] = self.api.get(self.path(kind))["items"]
        return items

    def delete(self, kind: str, name: str) -> None:
        self.api.delete(self.path(kind, name))

    def patch(self, kind: str, name: str, changes: Json) -> Json:
        return self.api.merge(self.path(kind, name), changes)

    def scale(self, kind: str, name: str, replicas: int) -> None:
        self.api.merge(self.path(kind, name, "scale"), {"spec": {"replicas": replicas}})

    def edit(self, name: str, change: Callable[[Json], None]) -> Json:
        """Change the spec of a PodCliqueSet, as a person with an editor does."""
        spec = self.get(SETS, name)["spec"]
        change(spec)
        return self.patch(SETS, name, {"spec": spec})

    def set_image(self, name: str, image: str, *cliques: str) -> None:
        """Give the named cliques, or all of them, a new pod template."""

        def change(spec: Json) -> None:
            for clique in spec["template"]["cliques"]:
                if not cliques or clique["name"] in cliques:
                    clique["spec"]["podSpec"]["containers"][0]["image"] = image

        self.edit(name, change)

    # What is seen.

    def pods(self, **wanted: str) -> list[Json]:
        """Pods that are not going away; by clique, group or replica index if asked."""
        keys = {
            "clique": "grove.io/podclique",
            "group": "grove.io/podcliquescalinggroup",
            "replica": "grove.io/podcliqueset-replica-index",
            "gang": "grove.io/podgang",
        }
        return [
            pod
            for pod in self.all(PODS)
            if "deletionTimestamp" not in pod["metadata"]
            and all(pod["metadata"]["labels"].get(keys[name]) == value for name, value in wanted.items())
        ]

    def ready(self, **wanted: str) -> list[Json]:
        return [pod for pod in self.pods(**wanted) if is_ready(pod)]

    def scheduled(self, **wanted: str) -> list[Json]:
        return [pod for pod in self.pods(**wanted) if node_of(pod)]

    def condition(self, kind: str, name: str, wanted: str) -> Json:
        """The condition of this type; empty while it has not been written."""
        return condition_of(self.get(kind, name), wanted)

    def events(self, kind: str, name: str, reason: str) -> list[str]:
        return [
            event["message"]
            for event in self.all("events")
            if event["involvedObject"]["kind"] == kind
            and event["involvedObject"]["name"] == name
            and event["reason"] == reason
        ]

    # Waiting.

    def until(self, what: str, found: Callable[[], T], limit: float = LIMIT) -> T:
        try:
            return eventually(what, found, limit)
        except AssertionError as late:
            raise AssertionError(f"{late}\n{self.picture()}") from None

    def until_counts(self, *, total: int, running: int, limit: float = LIMIT) -> None:
        """Wait until so many pods exist and so many of them are ready on nodes of their own."""
        self.until(
            f"{running} of {total} pods to run",
            lambda: (len(self.pods()), len(self.ready())) == (total, running),
            limit,
        )
        assert len({node_of(pod) for pod in self.ready()}) == running

    def until_running(self, total: int) -> None:
        """Wait until there are so many pods and all of them are ready, wherever they are."""
        self.until(f"{total} pods to run", lambda: (len(self.pods()), len(self.ready())) == (total, total))

    def until_refused(self, *, total: int, running: int) -> None:
        """As `until_counts`, and the scheduler has looked at every other pod and found no room."""
        self.until_counts(total=total, running=running)
        self.until(
            f"the scheduler to refuse {total - running} pods or hold them back",
            lambda: all(is_ready(pod) or is_refused(pod) or is_gated(pod) for pod in self.pods()),
        )
        assert len(self.ready()) == running

    def until_updated(self, name: str, limit: float = LIMIT) -> Json:
        """Wait until the update that was asked for has ended; the set's status then."""
        return self.until(f"the update of {name} to end", lambda: self.updated(name), limit) or {}

    def updated(self, name: str) -> Json | None:
        """The set's status if the update that was asked for has ended."""
        found = self.get(SETS, name)
        status: Json = found.get("status", {})
        progress = status.get("updateProgress") or {}
        current = status.get("observedGeneration") == found["metadata"]["generation"]
        settled = condition_of(found, "Reconciling").get("status") == "False"
        return status if current and settled and progress.get("updateEndedAt") else None

    def until_settled(self, name: str, limit: float = LIMIT) -> Json:
        """Wait until everything asked for is there."""

        def settled() -> Json | None:
            found = self.get(SETS, name)
            current = found.get("status", {}).get("observedGeneration") == found["metadata"]["generation"]
            return found if current and condition_of(found, "Reconciling").get("status") == "False" else None

        return self.until(f"{name} to settle", settled, limit) or {}

    def picture(self) -> str:
        """What a person would look at first when a wait fails."""
        lines = []
        for pod in self.all(PODS):
            told = condition_of(pod, "PodScheduled").get("message", "")[:200]
            going = " terminating" if "deletionTimestamp" in pod["metadata"] else ""
            lines.append(f"{pod['metadata']['name']} on {node_of(pod)} ready={is_ready(pod)}{going} {told}")
        lines.extend(json.dumps(found.get("status", {}), indent=1) for found in self.all(SETS))
        return "\n".join(lines)

    # Nodes.

    def add_nodes(self, count: int, *, cordoned: int = 0, racks: int = 1, blocks: int = 1, zones: int = 1) -> None:
        """Nodes for one pod each, dealt evenly to racks, blocks and zones of this test's own."""
        shape = ClusterSpec(name="pool", nodes=count, racks=racks, blocks=blocks, zones=zones)
        self.nodes = [f"{self.namespace}-{i}" for i in range(count)]
        documents = [self._node(shape, i, unschedulable=i >= count - cordoned) for i in range(count)]
        self.api.each(lambda document: self.api.create("/api/v1/nodes", document), documents)
        self.until("the nodes to be ready", lambda: all(is_schedulable(node) for node in self._own_nodes()))

    def _node(self, shape: ClusterSpec, index: int, *, unschedulable: bool) -> Json:
        labels = node_labels(shape, index)
        labels.pop("local.grove.io/node")
        for key in (RACK_LABEL, BLOCK_LABEL, ZONE_LABEL):
            labels[key] = f"{self.namespace}-{labels[key]}"
        name = self.nodes[index]
        labels |= {"kubernetes.io/hostname": name, POOL: self.namespace}
        return {
            "apiVersion": "v1",
            "kind": "Node",
            "metadata": {"name": name, "labels": labels, "annotations": {"kwok.x-k8s.io/node": "fake"}},
            "spec": {
                "taints": [{"key": POOL, "value": self.namespace, "effect": "NoSchedule"}],
                **({"unschedulable": True} if unschedulable else {}),
            },
            "status": {"capacity": CAPACITY, "allocatable": CAPACITY},
        }

    def _own_nodes(self) -> list[Json]:
        items: list[Json] = self.api.get(f"/api/v1/nodes?labelSelector={POOL}%3D{self.namespace}")["items"]
        return items

    def cordon(self, *names: str) -> None:
        for name in names:
            self.api.merge(f"/api/v1/nodes/{name}", {"spec": {"unschedulable": True}})

    def uncordon(self, count: int | None = None) -> None:
        """Let so many more nodes take pods; all that are left when no number is given."""
        closed = [node["metadata"]["name"] for node in self._own_nodes() if node["spec"].get("unschedulable")]
        assert count is None or count <= len(closed)
        for name in closed[:count]:
            self.api.merge(f"/api/v1/nodes/{name}", {"spec": {"unschedulable": None}})

    def domain(self, pod: Json, label: str = RACK_LABEL) -> str:
        """The rack, or another domain, a pod sits in."""
        labels = self.api.get(f"/api/v1/nodes/{node_of(pod)}")["metadata"]["labels"]
        found: str = labels[label]
        return found

    def domains(self, pods: Iterable[Json], label: str = RACK_LABEL) -> set[str]:
        return {self.domain(pod, label) for pod in pods}

    def clean_up(self) -> None:
        """Workloads first: a pod whose node is gone takes long to die. No node stays for the tests that follow."""
        try:
            for one in self.all(SETS):
                self._remove(self.path(SETS, one["metadata"]["name"]))
            if self.nodes:
                eventually("the test's pods to go", lambda: not self.all(PODS))
        finally:
            self.api.each(lambda name: self._remove(f"/api/v1/nodes/{name}"), self.nodes)

    def _remove(self, path: str) -> None:
        """Delete what may be gone already."""
        try:
            self.api.delete(path)
        except ApiError as error:
            if error.status != 404:
                raise

    # Manifests.

    def workload(self, number: int) -> Json:
        """One of the six sample workloads, on this workbench's nodes."""
        return self.placed(yaml.safe_load((EXAMPLES / "workloads" / f"wl{number}.yaml").read_text()))

    def placed(self, pod_clique_set: Json, cpu: str = FILLING) -> Json:
        """The set with its pods bound to this workbench's nodes, one pod to a node unless they are made smaller."""
        for clique in pod_clique_set["spec"]["template"]["cliques"]:
            spec = clique["spec"]["podSpec"]
            spec["nodeSelector"] = {POOL: self.namespace}
            spec["tolerations"] = [{"key": POOL, "operator": "Exists"}]
            for container in spec["containers"]:
                # KAI counts how many such pods every node could hold, one by one: tiny ones on huge nodes cost seconds.
                container.setdefault("resources", {})["requests"] = {"cpu": cpu}
        return pod_clique_set
