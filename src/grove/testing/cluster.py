"""A cluster around the in-memory server: nodes, a scheduler and kubelets, with the accidents tests ask for.

cluster = Cluster(server, seed=7)
cluster.add_nodes(4, gpus=8, labels=lambda i: {"rack": f"r{i // 2}"})
cluster.behave = lambda pod: PodBehaviour(crash_loops=name_of(pod) == "bad")
cluster.lose_node("node-1")
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

from grove.testing import podstatus
from grove.testing.apiserver import ApiServer
from grove.testing.capacity import Capacity
from grove.testing.hands import Hands, Span
from grove.testing.kubelet import Behave, Kubelet, MayStart, PodBehaviour
from grove.testing.objects import JsonObject, is_deleting, metadata, name_of, uid_of
from grove.testing.ownership import Writer, of_new
from grove.testing.scheduler import Scheduler
from grove.testing.storage import Stored


@dataclass(frozen=True, slots=True)
class Timing:
    """Spans of simulated seconds that the cluster draws its delays from."""

    schedule: Span = (0.01, 0.2)
    eviction: Span = (300.0, 305.0)
    """From the loss of a node to the deletion of its pods."""
    orphaned_pods: Span = (20.0, 40.0)
    """From the removal of a node to the end of its pods."""


class Cluster:
    """Create it inside a running loop; it acts on what the server already holds and on everything that follows."""

    def __init__(
        self,
        server: ApiServer,
        *,
        seed: int = 0,
        timing: Timing | None = None,
        behaviour: PodBehaviour | None = None,
        gang_scheduler: str = "kai-scheduler",
    ) -> None:
        usual = behaviour or PodBehaviour()
        self.server = server
        self.timing = timing or Timing()
        self._hands = Hands(server.state, seed)
        self._capacity = Capacity(server.storage)
        self.scheduler = Scheduler(self._hands, self._capacity, self.timing.schedule, gang_scheduler)
        self._kubelet = Kubelet(self._hands, lambda _: usual, lambda _: True)

    @property
    def behave(self) -> Behave:
        """How each pod lives."""
        return self._kubelet.behave

    @behave.setter
    def behave(self, behave: Behave) -> None:
        self._kubelet.behave = behave
        self.poke()

    @property
    def may_start(self) -> MayStart:
        """Whether a pod whose init container waits for others may start; asked again whenever a pod changes."""
        return self._kubelet.may_start

    @may_start.setter
    def may_start(self, predicate: MayStart) -> None:
        self._kubelet.may_start = predicate
        self.poke()

    def poke(self) -> None:
        """Lets the kubelets look at every pod again, after the rules of a test have changed."""
        for stored in self._hands.pods.sorted():
            self._kubelet.look(stored)

    def add_nodes(
        self,
        count: int,
        *,
        prefix: str = "node-",
        cpu: int = 64,
        gpus: int = 8,
        labels: Callable[[int], Mapping[str, str]] = lambda _: {},
    ) -> list[str]:
        names = [f"{prefix}{index}" for index in range(count)]
        for index, name in enumerate(names):
            capacity = {"cpu": str(cpu), "memory": "512Gi", "pods": "110", "nvidia.com/gpu": str(gpus)}
            self.add_node(name, capacity, labels(index))
        return names

    def add_node(self, name: str, capacity: Mapping[str, str], labels: Mapping[str, str] | None = None) -> None:
        state = self.server.state
        stamp = state.timestamp()
        meta: JsonObject = {"name": name, "uid": state.identifiers.uid(), "creationTimestamp": stamp}
        meta["labels"] = {"kubernetes.io/hostname": name, **(labels or {})}
        node: JsonObject = {
            "apiVersion": "v1",
            "kind": "Node",
            "metadata": meta,
            "spec": {},
            "status": {
                "capacity": dict(capacity),
                "allocatable": dict(capacity),
                "conditions": [
                    {"type": "Ready", "status": "True", "reason": "KubeletReady", "lastTransitionTime": stamp}
                ],
            },
        }
        resource = state.registry.of_kind("v1", "Node")
        if resource is not None:
            owners = of_new(Writer("kubelet", "Update", "", "v1"), node, resource.merge_type, stamp)
            state.storage.put(self._hands.nodes, node, owners)

    def lose_node(self, name: str, *, evict: bool = True) -> None:
        """The node stops answering: it is NotReady, its pods lose Ready and are deleted later, but do not end."""
        self._kubelet.silent.add(name)
        self._set_node_ready(name, "Unknown", "NodeStatusUnknown")
        for stored in self._pods_on(name):
            if podstatus.is_ready(stored.obj):
                new = podstatus.lost(stored.obj, self._hands.now())
                self._hands.write(self._hands.pods, stored, new, "kube-controller-manager")
        if evict:
            self._hands.later(self.timing.eviction, lambda: self._evict_from(name))

    def recover_node(self, name: str) -> None:
        self._kubelet.silent.discard(name)
        self._set_node_ready(name, "True", "KubeletReady")
        for stored in self._pods_on(name):
            self._kubelet.look(stored)

    def remove_node(self, name: str) -> None:
        """The node object goes; what ran there is force-deleted a little later."""
        self._kubelet.silent.add(name)
        node = self._hands.nodes.objects.get(("", name))
        if node is not None:
            self.server.storage.remove(self._hands.nodes, node)
        self._hands.later(self.timing.orphaned_pods, lambda: self._force_delete_on(name))

    def crash_pod(self, namespace: str, name: str, exit_code: int = 1) -> None:
        """The containers exit with an error; the kubelet restarts them."""
        self._kubelet.crash(self._pod(namespace, name), exit_code)

    def fail_pod(self, namespace: str, name: str, reason: str = "", exit_code: int = 1) -> None:
        """The pod is over for good, phase Failed."""
        stored = self._pod(namespace, name)
        new = podstatus.finished(stored.obj, self._hands.now(), phase="Failed", exit_code=exit_code, reason=reason)
        self._hands.write(self._hands.pods, stored, new, "kubelet")

    def finish_pod(self, namespace: str, name: str) -> None:
        """The pod is over, phase Succeeded."""
        stored = self._pod(namespace, name)
        new = podstatus.finished(stored.obj, self._hands.now(), phase="Succeeded", exit_code=0)
        self._hands.write(self._hands.pods, stored, new, "kubelet")

    def set_ready(self, namespace: str, name: str, ready: bool) -> None:
        """Sets a pod's readiness by hand. An unready pod becomes ready again unless its behaviour says otherwise."""
        stored = self._pod(namespace, name)
        change = podstatus.ready if ready else podstatus.unready
        self._hands.write(self._hands.pods, stored, change(stored.obj, self._hands.now()), "kubelet")

    def kill_pod(self, namespace: str, name: str) -> None:
        """The pod disappears at once, as after a forced delete."""
        self._hands.delete_pod(self._pod(namespace, name), grace=0)

    def _pod(self, namespace: str, name: str) -> Stored:
        stored = self._hands.pod((namespace, name))
        if stored is None:
            raise LookupError(f"pod {namespace}/{name} does not exist")
        return stored

    def _pods_on(self, node: str) -> Iterable[Stored]:
        return [stored for stored in self._hands.pods.sorted() if stored.obj["spec"].get("nodeName") == node]

    def _set_node_ready(self, name: str, status: str, reason: str) -> None:
        node = self._hands.nodes.objects[("", name)]
        condition = {
            "type": "Ready",
            "status": status,
            "reason": reason,
            "lastTransitionTime": self._hands.now(),
        }
        others = [c for c in node.obj["status"]["conditions"] if c["type"] != "Ready"]
        new = {**node.obj, "status": {**node.obj["status"], "conditions": [*others, condition]}}
        self._hands.write(self._hands.nodes, node, new, "kube-controller-manager")

    def _evict_from(self, node: str) -> None:
        if node not in self._kubelet.silent:
            return
        for stored in self._pods_on(node):
            if not is_deleting(stored.obj):
                self._hands.delete_pod(stored)

    def _force_delete_on(self, node: str) -> None:
        for stored in self._pods_on(node):
            current = self._hands.pod(stored.key, uid_of(stored.obj))
            if current is not None:
                self._hands.delete_pod(current, grace=0)


def pods_by_name(server: ApiServer, namespace: str = "default") -> dict[str, JsonObject]:
    """The pods of a namespace, for assertions."""
    return {name_of(pod): pod for pod in server.objects("v1", "Pod", namespace)}


def is_ready(pod: JsonObject) -> bool:
    return podstatus.is_ready(pod) and not metadata(pod).get("deletionTimestamp")
