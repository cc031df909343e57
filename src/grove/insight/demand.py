"""What a gang asks of a cluster: so many pods of each kind, these together in one domain, those in a narrower one.

A demand is a tree of parts. A part may name a node label of which all its pods must share one value; a part with pods
has no parts below it. Pods that already have a node pin their part to the domain they are in.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from grove.api.pod_clique_set import PodCliqueSet
from grove.api.pod_gang import GangTopologyConstraint, PodGang, PodGangSpec, PodGroup
from grove.insight import resources
from grove.insight.kinds import PodDetail
from grove.plan.gangs import gang_spec
from grove.plan.layout import Gang, layout
from grove.plan.settings import Settings


@dataclass(frozen=True, slots=True)
class Part:
    """Pods to place, directly or in parts. `pinned` are nodes that pods of this part are on already."""

    name: str
    key: str | None = None
    count: int = 0
    pod_spec: Mapping[str, Any] = field(default_factory=dict)
    requests: Mapping[str, float] = field(default_factory=dict)
    parts: tuple[Part, ...] = ()
    pinned: frozenset[str] = frozenset()

    def leaves(self) -> Iterator[Part]:
        if not self.parts:
            yield self
        for part in self.parts:
            yield from part.leaves()

    @property
    def pods(self) -> int:
        return sum(leaf.count for leaf in self.leaves())

    @property
    def amounts(self) -> dict[str, float]:
        found: dict[str, float] = {}
        for leaf in self.leaves():
            found = resources.plus(found, leaf.requests, leaf.count)
        return found

    def shape(self) -> str:
        """The pods in few words: `4 x 8 GPUs, 1 x 2 CPU`."""
        counts: dict[str, int] = {}
        for leaf in self.leaves():
            each = resources.all_said({n: v for n, v in leaf.requests.items() if n != resources.PODS}) or "no requests"
            counts[each] = counts.get(each, 0) + leaf.count
        return "; ".join(f"{count} x {each}" for each, count in counts.items() if count)


def of_gang(gang: PodGang, pod_specs: Mapping[str, Mapping[str, Any]], pods: Mapping[str, PodDetail]) -> Part:
    """What is still to be placed for a gang that exists; `pod_specs` by PodClique, `pods` by name."""
    placed = {
        group.name: frozenset(
            pods[r.name].spec.node_name
            for r in group.pod_references
            if r.name in pods and pods[r.name].spec.node_name and not pods[r.name].metadata.terminating
        )
        for group in gang.spec.podgroups
    }
    on_nodes = {
        group.name: sum(
            bool(pods[r.name].spec.node_name) and not pods[r.name].metadata.terminating
            for r in group.pod_references
            if r.name in pods
        )
        for group in gang.spec.podgroups
    }
    leaves = {
        g.name: _leaf(g, max(0, g.min_replicas - on_nodes[g.name]), pod_specs.get(g.name, {}), placed[g.name])
        for g in gang.spec.podgroups
    }
    return _assembled(gang.metadata.name, gang.spec, leaves)


def of_set(owner: PodCliqueSet, settings: Settings, *, whole: bool = False) -> list[tuple[int, Part]]:
    """Every gang a set would have, with its replica's index; minimums, or the `whole` of the replicas."""
    template = owner.spec.template
    indices = {g.name: tuple(range(g.initial_replicas)) for g in template.pod_clique_scaling_groups}
    return [
        (index, _planned(owner, gang, settings, whole))
        for index in range(owner.spec.replicas)
        for gang in layout(owner, index, indices).gangs
    ]


def _planned(owner: PodCliqueSet, gang: Gang, settings: Settings, whole: bool) -> Part:
    spec = gang_spec(owner, gang, {}, settings, None)
    templates = {slot.name: slot.template.spec for slot in gang.slots}
    leaves = {
        g.name: _leaf(
            g, templates[g.name].replicas if whole else g.min_replicas, templates[g.name].pod_spec, frozenset()
        )
        for g in spec.podgroups
    }
    return _assembled(gang.name, spec, leaves)


def _leaf(group: PodGroup, count: int, pod_spec: Mapping[str, Any], pinned: frozenset[str]) -> Part:
    return Part(
        group.name,
        _required(group.topology_constraint),
        count,
        pod_spec,
        resources.pod_requests(pod_spec),
        pinned=pinned,
    )


def _assembled(name: str, spec: PodGangSpec, leaves: Mapping[str, Part]) -> Part:
    grouped: set[str] = set()
    parts: list[Part] = []
    for config in spec.topology_constraint_group_configs:
        members = [leaves[n] for n in config.pod_group_names if n in leaves]
        grouped.update(part.name for part in members)
        parts.append(_above(config.name, _required(config.topology_constraint), members))
    parts.extend(leaf for n, leaf in leaves.items() if n not in grouped)
    return _above(name, _required(spec.topology_constraint), parts)


def _above(name: str, key: str | None, parts: Sequence[Part]) -> Part:
    return Part(name, key, parts=tuple(parts), pinned=frozenset(node for part in parts for node in part.pinned))


def _required(constraint: GangTopologyConstraint | None) -> str | None:
    return constraint.pack_constraint.required if constraint and constraint.pack_constraint else None
