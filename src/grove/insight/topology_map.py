"""The cluster as its topology sees it: domains within domains, their GPUs, where a gang sits, what still fits whole.

Free GPUs say little when they are scattered; `Openings` counts the domains of a level that could still take a gang of
so many equal pods.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

import msgspec

from grove.api.cluster_topology import TopologyLevel
from grove.api.pod_gang import PodGang
from grove.insight import resources
from grove.insight.capacity import Room, rooms
from grove.insight.snapshot import Snapshot

UNLABELLED = "(no label)"
_NAMED = 4


class DomainView(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """One domain. `gang_pods` are pods of the gang asked about that are in it."""

    level: str
    name: str
    nodes: int
    closed: int
    gpus: float
    free: float
    gang_pods: int = 0
    domains: tuple[DomainView, ...] = ()

    @property
    def used(self) -> float:
        return self.gpus - self.free


class Openings(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """How many domains of a level can still take a gang of `pods` pods with `gpus` GPUs each."""

    level: str
    pods: int
    gpus: float
    domains: tuple[str, ...]
    total: int

    def __str__(self) -> str:
        shown = ", ".join(self.domains[:_NAMED]) + (", …" if len(self.domains) > _NAMED else "")
        which = f": {shown}" if self.domains else ""
        return (
            f"{self.level}s that can still take a gang of {self.pods} x {self.gpus:g}: "
            f"{len(self.domains)} of {self.total}{which}"
        )


class GangPlace(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """A gang: how many of its pods are placed, in how many domains of each level."""

    name: str
    namespace: str
    pods: int
    placed: int
    spread: dict[str, dict[str, int]]


class TopologyView(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """Everything `grove topology` shows."""

    name: str
    levels: tuple[str, ...]
    domains: tuple[DomainView, ...]
    openings: tuple[Openings, ...]
    gangs: tuple[GangPlace, ...] = ()


def topology_map(
    snapshot: Snapshot, gangs: Sequence[PodGang] = (), shapes: Sequence[tuple[int, float]] = ()
) -> TopologyView:
    """The map, with the pods of these gangs marked. Without shapes, whole nodes in powers of two are tried."""
    found = rooms(snapshot)
    pods_on = _pods_on(snapshot, gangs)
    return TopologyView(
        name=snapshot.topology.metadata.name if snapshot.topology else "",
        levels=tuple(level.domain for level in snapshot.levels),
        domains=_domains(found, snapshot.levels, pods_on),
        openings=tuple(_openings(snapshot, found, shapes or _usual_shapes(snapshot, found))),
        gangs=tuple(_place(snapshot, gang) for gang in gangs),
    )


def _domains(
    found: Sequence[Room], levels: Sequence[TopologyLevel], pods_on: Mapping[str, int]
) -> tuple[DomainView, ...]:
    if not levels:
        return ()
    level, below = levels[0], levels[1:]
    members: dict[str, list[Room]] = {}
    for room in found:
        members.setdefault(room.labels.get(level.key, UNLABELLED), []).append(room)
    return tuple(
        DomainView(
            level=level.domain,
            name=name,
            nodes=len(inside),
            closed=sum(bool(room.closed) for room in inside),
            gpus=sum(resources.gpus(room.has) for room in inside),
            free=sum(resources.gpus(room.free) for room in inside),
            gang_pods=sum(pods_on.get(room.name, 0) for room in inside),
            domains=_domains(inside, below, pods_on),
        )
        for name, inside in sorted(members.items(), key=lambda item: _natural(item[0]))
    )


def _natural(name: str) -> tuple[object, ...]:
    """Names in the order people count: node-2 before node-10."""
    head = name.rstrip("0123456789")
    tail = name[len(head) :]
    return (head, int(tail) if tail else -1, name)


def _usual_shapes(snapshot: Snapshot, found: Sequence[Room]) -> list[tuple[int, float]]:
    sizes = Counter(resources.gpus(room.has) for room in found if resources.gpus(room.has))
    if not sizes:
        return []
    size = sizes.most_common(1)[0][0]
    level = _packing_level(snapshot)
    largest = max(Counter(room.labels.get(level.key, "") for room in found).values())
    counts = [1]
    while counts[-1] * 2 <= largest:
        counts.append(counts[-1] * 2)
    return [(count, size) for count in counts]


def _packing_level(snapshot: Snapshot) -> TopologyLevel:
    """The narrowest level that holds several nodes: where gangs are usually packed."""
    wider = [level for level in snapshot.levels if level.domain not in ("host", "numa")]
    return wider[-1] if wider else snapshot.levels[-1]


def _openings(snapshot: Snapshot, found: Sequence[Room], shapes: Iterable[tuple[int, float]]) -> Iterable[Openings]:
    level = _packing_level(snapshot)
    members: dict[str, list[Room]] = {}
    for room in found:
        if value := room.labels.get(level.key):
            members.setdefault(value, []).append(room)
    for pods, size in shapes:
        able = [name for name, inside in members.items() if _takes(inside, size) >= pods]
        yield Openings(
            level=level.domain, pods=pods, gpus=size, domains=tuple(sorted(able, key=_natural)), total=len(members)
        )


def _takes(inside: Iterable[Room], size: float) -> int:
    """How many pods of this size the nodes could take."""
    return sum(int(max(0.0, resources.gpus(room.free)) // size) for room in inside if not room.closed and size)


def _pods_on(snapshot: Snapshot, gangs: Sequence[PodGang]) -> dict[str, int]:
    found: dict[str, int] = {}
    for gang in gangs:
        for node in _gang_nodes(snapshot, gang):
            found[node] = found.get(node, 0) + 1
    return found


def _gang_nodes(snapshot: Snapshot, gang: PodGang) -> list[str]:
    listed = {(r.namespace, r.name) for group in gang.spec.podgroups for r in group.pod_references}
    return [
        pod.spec.node_name
        for pod in snapshot.pods
        if (pod.metadata.namespace, pod.metadata.name) in listed and pod.spec.node_name
    ]


def _place(snapshot: Snapshot, gang: PodGang) -> GangPlace:
    nodes = _gang_nodes(snapshot, gang)
    spread: dict[str, dict[str, int]] = {}
    for level in snapshot.levels:
        counts = Counter(snapshot.domains_of(node).get(level.domain, UNLABELLED) for node in nodes)
        spread[level.domain] = dict(sorted(counts.items(), key=lambda item: _natural(item[0])))
    return GangPlace(
        name=gang.metadata.name,
        namespace=gang.metadata.namespace,
        pods=sum(len(group.pod_references) for group in gang.spec.podgroups),
        placed=len(nodes),
        spread=spread,
    )
