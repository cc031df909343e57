"""The room on nodes: what each has, what is left, and whether anything may go there at all."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from grove.api.core import Node
from grove.api.meta import condition
from grove.insight import resources
from grove.insight.kinds import PodDetail
from grove.insight.snapshot import Snapshot

_KEEPS_OUT = frozenset({"NoSchedule", "NoExecute"})
# Taints that come and go with a node's health; a look at an ideal cluster ignores them.
_HEALTH = "node.kubernetes.io/"


@dataclass(frozen=True, slots=True)
class Room:
    """One node. `closed` says why nothing new goes there; taints are those a pod must tolerate."""

    name: str
    labels: Mapping[str, str]
    taints: Sequence[Mapping[str, Any]]
    has: Mapping[str, float]
    free: Mapping[str, float]
    closed: str = ""


def rooms(
    snapshot: Snapshot, *, drained: Collection[str] = (), leaving: Callable[[PodDetail], bool] | None = None
) -> list[Room]:
    """The nodes as they are now. Pods for which `leaving` holds are taken as gone."""
    used: dict[str, dict[str, float]] = {}
    for pod in snapshot.pods:
        if takes_room(pod) and not (leaving and leaving(pod)):
            node = pod.spec.node_name
            used[node] = resources.plus(used.get(node, {}), requests_of(pod))
    return [_room(node, used.get(node.metadata.name, {}), node.metadata.name in drained) for node in snapshot.nodes]


def ideal_rooms(snapshot: Snapshot) -> list[Room]:
    """The same nodes healthy, open and empty: what does not fit here never fits."""
    return [
        Room(
            name=node.metadata.name,
            labels=node.metadata.labels,
            taints=[t for t in _taints(node) if not str(t.get("key", "")).startswith(_HEALTH)],
            has=resources.amounts(node.status.allocatable),
            free=resources.amounts(node.status.allocatable),
        )
        for node in snapshot.nodes
    ]


def takes_room(pod: PodDetail) -> bool:
    """Whether the pod holds its node's resources: until its containers have ended, shutting down included."""
    return bool(pod.spec.node_name) and pod.status.phase not in ("Succeeded", "Failed")


def requests_of(pod: PodDetail) -> dict[str, float]:
    spec = {
        "containers": pod.spec.containers,
        "initContainers": pod.spec.init_containers,
        "overhead": pod.spec.overhead,
    }
    return resources.pod_requests(spec)


def _room(node: Node, used: Mapping[str, float], drained: bool) -> Room:
    has = resources.amounts(node.status.allocatable)
    ready = condition(node.status.conditions, "Ready")
    closed = "drained" if drained else "cordoned" if node.spec.unschedulable else ""
    if not closed and ready is not None and ready.status != "True":
        closed = "not ready"
    return Room(
        name=node.metadata.name,
        labels=node.metadata.labels,
        taints=_taints(node),
        has=has,
        free=resources.plus(has, used, -1.0),
        closed=closed,
    )


def _taints(node: Node) -> list[dict[str, Any]]:
    return [t for t in node.spec.taints if t.get("effect") in _KEEPS_OUT]


def refusal(room: Room, pod_spec: Mapping[str, Any]) -> str:
    """Why a pod of this spec may not go to this node, whatever is free there; empty when it may."""
    if room.closed:
        return room.closed
    selector = pod_spec.get("nodeSelector") or {}
    if any(room.labels.get(key) != value for key, value in selector.items()):
        return "not matched by nodeSelector"
    if not _affinity_allows(room, pod_spec.get("affinity") or {}):
        return "not matched by node affinity"
    for taint in room.taints:
        if not any(_tolerates(t, taint) for t in pod_spec.get("tolerations") or ()):
            return f"tainted {taint.get('key')}"
    return ""


def _tolerates(toleration: Mapping[str, Any], taint: Mapping[str, Any]) -> bool:
    if toleration.get("effect") not in (None, "", taint.get("effect")):
        return False
    if toleration.get("operator") == "Exists":
        return toleration.get("key") in (None, "", taint.get("key"))
    return toleration.get("key") == taint.get("key") and toleration.get("value", "") == taint.get("value", "")


def _affinity_allows(room: Room, affinity: Mapping[str, Any]) -> bool:
    required = (affinity.get("nodeAffinity") or {}).get("requiredDuringSchedulingIgnoredDuringExecution") or {}
    terms = required.get("nodeSelectorTerms") or ()
    return not terms or any(
        all(_expression_holds(room, e) for e in term.get("matchExpressions") or ()) for term in terms
    )


def _expression_holds(room: Room, expression: Mapping[str, Any]) -> bool:
    value, values = room.labels.get(expression.get("key", "")), expression.get("values") or ()
    operator = expression.get("operator")
    if operator == "In":
        return value in values
    if operator == "NotIn":
        return value not in values
    if operator == "Exists":
        return value is not None
    if operator == "DoesNotExist":
        return value is None
    return True  # Gt and Lt are rare; assume the best
