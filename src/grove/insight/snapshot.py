"""Everything a question needs, as it was at one moment. Whoever talks to the cluster fills it; nobody changes it.

Kinds that the cluster does not serve, or that the person asking may not read, are empty and named in `unread`, so that
an answer can say what it could not see.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from functools import cached_property
from typing import Protocol, TypeVar

from grove.api import labels
from grove.api.cluster_topology import ClusterTopology, TopologyLevel
from grove.api.core import ControllerRevision, Node
from grove.api.pod_clique import PodClique
from grove.api.pod_clique_set import PodCliqueSet
from grove.api.pod_gang import PodGang
from grove.api.scaling_group import ScalingGroup
from grove.insight.kinds import Event, KaiPodGroup, PodDetail, Queue, ResourceClaim, ResourceQuota
from grove.plan.settings import Settings, TopologySettings
from grove.runtime.objects import ObjectMeta

_HOST = TopologyLevel(domain="host", key="kubernetes.io/hostname")


class _Object(Protocol):
    @property
    def metadata(self) -> ObjectMeta: ...


T = TypeVar("T", bound=_Object)


@dataclass(frozen=True)
class Snapshot:
    """Objects of one moment."""

    now: datetime
    sets: tuple[PodCliqueSet, ...] = ()
    cliques: tuple[PodClique, ...] = ()
    groups: tuple[ScalingGroup, ...] = ()
    gangs: tuple[PodGang, ...] = ()
    pods: tuple[PodDetail, ...] = ()
    nodes: tuple[Node, ...] = ()
    events: tuple[Event, ...] = ()
    pod_groups: tuple[KaiPodGroup, ...] = ()
    queues: tuple[Queue, ...] = ()
    quotas: tuple[ResourceQuota, ...] = ()
    claims: tuple[ResourceClaim, ...] = ()
    revisions: tuple[ControllerRevision, ...] = ()
    topologies: tuple[ClusterTopology, ...] = ()
    unread: Mapping[str, str] = field(default_factory=dict)

    def find(self, namespace: str, name: str) -> PodCliqueSet | None:
        wanted = (namespace, name)
        return next((s for s in self.sets if (s.metadata.namespace, s.metadata.name) == wanted), None)

    @cached_property
    def topology(self) -> ClusterTopology | None:
        """The cluster's topology; there is one, and the first by name should somebody have made more."""
        return min(self.topologies, key=lambda t: t.metadata.name, default=None)

    @cached_property
    def levels(self) -> tuple[TopologyLevel, ...]:
        """The levels of the topology, widest first; without one, a node is a domain of its own."""
        found = tuple(self.topology.spec.levels) if self.topology else ()
        return found or (_HOST,)

    @cached_property
    def settings(self) -> Settings:
        """The operator's settings as far as the cluster shows them."""
        if self.topology is None:
            return Settings()
        levels = tuple(self.topology.spec.levels)
        return Settings(topology=TopologySettings(bool(levels), self.topology.metadata.name, levels))

    def of_set(self, objects: Iterable[T], owner: PodCliqueSet) -> list[T]:
        """Those of the objects that belong to this set, by name."""
        meta = owner.metadata
        found = [
            o
            for o in objects
            if o.metadata.namespace == meta.namespace and o.metadata.labels.get(labels.PART_OF) == meta.name
        ]
        return sorted(found, key=lambda o: o.metadata.name)

    @cached_property
    def nodes_by_name(self) -> Mapping[str, Node]:
        return {node.metadata.name: node for node in self.nodes}

    def domains_of(self, node_name: str) -> dict[str, str]:
        """The domain of a node at every level that it is labelled for."""
        node = self.nodes_by_name.get(node_name)
        if node is None:
            return {}
        found = {level.domain: node.metadata.labels.get(level.key, "") for level in self.levels}
        return {domain: value for domain, value in found.items() if value}
