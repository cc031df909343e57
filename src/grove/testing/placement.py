"""Which nodes a pod may go to, and the order in which they are tried."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from grove.testing import selectors
from grove.testing.capacity import NodeAccount, requests_of
from grove.testing.objects import JsonObject, dig

Domains = Callable[["Gang", Sequence[NodeAccount]], Iterable[Sequence[NodeAccount]]]
"""A hook for topology: the sets of nodes a gang may be placed in, best first."""


@dataclass(frozen=True)
class Gang:
    """A PodGroup with the pods of each of its leaves: those that run and those that wait."""

    group: JsonObject
    minimum: dict[str, int]
    placed: dict[str, list[JsonObject]]
    waiting: dict[str, list[JsonObject]]


def anywhere(_gang: Gang, nodes: Sequence[NodeAccount]) -> Iterable[Sequence[NodeAccount]]:
    """No topology: the whole cluster is one domain."""
    yield nodes


def allows(node: NodeAccount, pod: JsonObject) -> bool:
    """Node selector and required node affinity. Taints are not looked at: lost nodes are closed instead."""
    if not node.open:
        return False
    spec = pod["spec"]
    if any(node.labels.get(key) != value for key, value in (spec.get("nodeSelector") or {}).items()):
        return False
    path = ("affinity", "nodeAffinity", "requiredDuringSchedulingIgnoredDuringExecution", "nodeSelectorTerms")
    terms = dig(spec, *path)
    if not terms:
        return True
    return any(selectors.matches_structured(term, dict(node.labels)) for term in terms)


def first_fit(pod: JsonObject, nodes: Iterable[NodeAccount]) -> NodeAccount | None:
    wanted = requests_of(pod)
    return next((node for node in nodes if node.fits(wanted) and allows(node, pod)), None)


def place_all(pods: Sequence[JsonObject], nodes: Sequence[NodeAccount]) -> list[tuple[JsonObject, str]] | None:
    """A node for every pod, or None; the accounts are charged as it goes."""
    placed = []
    for pod in pods:
        node = first_fit(pod, nodes)
        if node is None:
            return None
        node.take(requests_of(pod))
        placed.append((pod, node.name))
    return placed
