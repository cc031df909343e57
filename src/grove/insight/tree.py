"""The tree of a PodCliqueSet: replica → scaling group or clique → pod, with gang, node, domain, revision and progress.

This is the one view of a workload. The command line prints it, JSON carries it, and whatever else shows workloads draws
the same values. Pods that are shutting down are shown and count nowhere.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime

import msgspec

from grove.api import labels, names
from grove.api.meta import condition
from grove.api.pod_clique import PodClique
from grove.api.pod_clique_set import PodCliqueSet, ScalingGroupConfig
from grove.api.pod_gang import PodGang
from grove.insight import pod_state
from grove.insight.kinds import PodDetail
from grove.insight.placement import common_domain
from grove.insight.progress import Progress, progress
from grove.insight.snapshot import Snapshot
from grove.plan import revision as revisions


class View(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """Base of everything shown: camelCase in JSON."""


class PodView(View, frozen=True):
    name: str
    index: int
    state: str
    ready: bool
    leaving: bool = False
    updated: bool = True
    revision: str = ""
    gang: str = ""
    node: str = ""
    domains: dict[str, str] = {}
    restarts: int = 0
    created: str | None = None


class CliqueView(View, frozen=True):
    name: str
    role: str
    replicas: int
    minimum: int
    existing: int
    scheduled: int
    ready: int
    gated: int
    updated: int
    gang: str
    domain: str
    revision: str
    pods: tuple[PodView, ...] = ()

    @property
    def available(self) -> bool:
        return self.ready >= self.minimum


class GroupReplicaView(View, frozen=True):
    index: int
    gang: str
    domain: str
    available: bool
    updated: bool
    surge: bool
    cliques: tuple[CliqueView, ...] = ()


class GroupView(View, frozen=True):
    name: str
    title: str
    replicas: int
    minimum: int
    available: int
    updated: int
    members: tuple[GroupReplicaView, ...] = ()


class ReplicaView(View, frozen=True):
    index: int
    name: str
    gang: str
    phase: str
    domain: str
    available: bool
    updated: bool
    updating: bool
    surge: bool
    cliques: tuple[CliqueView, ...] = ()
    groups: tuple[GroupView, ...] = ()

    def all_cliques(self) -> list[CliqueView]:
        return [*self.cliques, *(c for g in self.groups for m in g.members for c in m.cliques)]


class ConditionView(View, frozen=True):
    type: str
    status: str
    reason: str
    message: str


class SetView(View, frozen=True):
    namespace: str
    name: str
    replicas: int
    available: int
    updated: int
    revision: str
    strategy: str
    paused: bool
    created: str | None
    progress: Progress
    conditions: tuple[ConditionView, ...] = ()
    members: tuple[ReplicaView, ...] = ()

    def pods(self) -> list[PodView]:
        return [p for r in self.members for c in r.all_cliques() for p in c.pods]


def trees(snapshot: Snapshot) -> list[SetView]:
    """Every set of the snapshot, by namespace and name."""
    ordered = sorted(snapshot.sets, key=lambda s: (s.metadata.namespace, s.metadata.name))
    return [tree(snapshot, owner) for owner in ordered]


def tree(snapshot: Snapshot, owner: PodCliqueSet) -> SetView:
    """One set with all that belongs to it."""
    builder = _Builder(snapshot, owner)
    members = tuple(builder.replica(index) for index in builder.indices())
    cliques = [c for r in members for c in r.all_cliques()]
    status = owner.status
    return SetView(
        namespace=owner.metadata.namespace,
        name=owner.metadata.name,
        replicas=owner.spec.replicas,
        available=status.available_replicas if status else 0,
        updated=status.updated_replicas if status else 0,
        revision=builder.revision,
        strategy=owner.spec.strategy.type or "RollingRecreate",
        paused=owner.spec.strategy.paused,
        created=owner.metadata.creation_timestamp,
        progress=progress(owner, [p for c in cliques for p in c.pods], sum(c.replicas for c in cliques)),
        conditions=tuple(
            ConditionView(type=c.type, status=c.status, reason=c.reason, message=c.message)
            for c in (status.conditions if status else ())
        ),
        members=members,
    )


class _Builder:
    """Gathers the objects of one set once, and cuts the tree from them."""

    def __init__(self, snapshot: Snapshot, owner: PodCliqueSet) -> None:
        self._snapshot = snapshot
        self._owner = owner
        self._cliques = snapshot.of_set(snapshot.cliques, owner)
        self._groups = {g.metadata.name: g for g in snapshot.of_set(snapshot.groups, owner)}
        self._gangs = {g.metadata.name: g for g in snapshot.of_set(snapshot.gangs, owner)}
        self._pods: dict[str, list[PodDetail]] = {}
        for pod in snapshot.of_set(snapshot.pods, owner):
            self._pods.setdefault(pod.metadata.labels.get(labels.POD_CLIQUE, ""), []).append(pod)
        kept = [revisions.stored(r) for r in snapshot.of_set(snapshot.revisions, owner)]
        self._latest = revisions.recognised(revisions.of_template(owner.spec.template), kept)
        record = owner.status.update_progress if owner.status else None
        self._updating = {r.replica_index for r in record.updating_replicas} if record else set()

    @property
    def revision(self) -> str:
        return self._latest.hash

    def indices(self) -> list[int]:
        found = {_number(c, labels.REPLICA_INDEX) for c in self._cliques}
        return sorted({*found, *range(self._owner.spec.replicas)})

    def replica(self, index: int) -> ReplicaView:
        name = names.replica(self._owner.metadata.name, index)
        mine = [c for c in self._cliques if _number(c, labels.REPLICA_INDEX) == index]
        standalone = [c for c in mine if labels.SCALING_GROUP not in c.metadata.labels]
        cliques = tuple(self._clique(c) for c in self._in_order(standalone))
        groups = tuple(self._group(g, index, mine) for g in self._owner.spec.template.pod_clique_scaling_groups)
        everything = [*cliques, *(c for g in groups for m in g.members for c in m.cliques)]
        gang = self._gangs.get(name)
        return ReplicaView(
            index=index,
            name=name,
            gang=name if gang else "",
            phase=_phase(gang),
            domain=self._domain(everything),
            available=bool(mine)
            and all(c.available for c in cliques)
            and all(g.available >= g.minimum for g in groups),
            updated=bool(everything) and all(c.updated >= c.existing for c in everything),
            updating=index in self._updating,
            surge=index >= self._owner.spec.replicas,
            cliques=cliques,
            groups=groups,
        )

    def _group(self, config: ScalingGroupConfig, index: int, cliques: Sequence[PodClique]) -> GroupView:
        name = names.scaling_group(self._owner.metadata.name, index, config.name)
        standing = self._groups.get(name)
        replicas = standing.spec.replicas if standing else config.initial_replicas
        mine = [c for c in cliques if c.metadata.labels.get(labels.SCALING_GROUP) == name]
        found = sorted({_number(c, labels.SCALING_GROUP_REPLICA_INDEX) for c in mine})
        members = tuple(self._member(j, mine, surge=j >= replicas) for j in found)
        counted = [m for m in members if not m.surge]
        return GroupView(
            name=name,
            title=config.name,
            replicas=replicas,
            minimum=config.minimum,
            available=sum(m.available for m in counted),
            updated=sum(m.updated for m in counted),
            members=members,
        )

    def _member(self, index: int, cliques: Sequence[PodClique], *, surge: bool) -> GroupReplicaView:
        mine = [c for c in cliques if _number(c, labels.SCALING_GROUP_REPLICA_INDEX) == index]
        views = tuple(self._clique(c) for c in self._in_order(mine))
        return GroupReplicaView(
            index=index,
            gang=views[0].gang if views else "",
            domain=self._domain(views),
            available=all(v.available for v in views),
            updated=all(v.updated >= v.existing for v in views),
            surge=surge,
            cliques=views,
        )

    def _clique(self, clique: PodClique) -> CliqueView:
        wanted = self._latest.template(_short_name(clique))
        target = wanted.hash if wanted else ""
        pods = sorted((self._pod(p, target) for p in self._pods.get(clique.metadata.name, ())), key=_by_index)
        live = [p for p in pods if not p.leaving]
        return CliqueView(
            name=clique.metadata.name,
            role=_short_name(clique),
            replicas=clique.spec.replicas,
            minimum=clique.spec.minimum,
            existing=len(live),
            scheduled=sum(bool(p.node) for p in live),
            ready=sum(p.ready for p in live),
            gated=sum(p.state == pod_state.GATED for p in live),
            updated=sum(p.updated for p in live),
            gang=clique.metadata.labels.get(labels.POD_GANG, ""),
            domain=common_domain(self._snapshot, [p.node for p in live]),
            revision=_carried(live),
            pods=tuple(pods),
        )

    def _pod(self, pod: PodDetail, target: str) -> PodView:
        meta = pod.metadata
        ready = condition(pod.status.conditions, "Ready")
        revision = meta.labels.get(labels.POD_TEMPLATE_HASH, "")
        return PodView(
            name=meta.name,
            index=_number(pod, labels.POD_INDEX),
            state=pod_state.state(pod),
            ready=not meta.terminating and ready is not None and ready.status == "True",
            leaving=meta.terminating,
            updated=not target or revision == target,
            revision=revision,
            gang=meta.labels.get(labels.POD_GANG, ""),
            node=pod.spec.node_name,
            domains=self._snapshot.domains_of(pod.spec.node_name),
            restarts=pod_state.restarts(pod),
            created=meta.creation_timestamp,
        )

    def _domain(self, cliques: Iterable[CliqueView]) -> str:
        return common_domain(self._snapshot, [p.node for c in cliques for p in c.pods if not p.leaving])

    def _in_order(self, cliques: Sequence[PodClique]) -> list[PodClique]:
        order = {c.name: i for i, c in enumerate(self._owner.spec.template.cliques)}
        return sorted(cliques, key=lambda c: (order.get(_short_name(c), len(order)), c.metadata.name))


def _short_name(clique: PodClique) -> str:
    """The clique's name in the template."""
    return clique.metadata.labels.get(labels.SHORT_CLIQUE) or clique.spec.role_name or clique.metadata.name


def _carried(pods: Sequence[PodView]) -> str:
    """The revision of the pods, or that there are several."""
    found = sorted({p.revision for p in pods if p.revision})
    return found[0] if len(found) == 1 else "mixed" if found else ""


def _phase(gang: PodGang | None) -> str:
    return gang.status.phase if gang and gang.status else "Pending" if gang else ""


def _number(item: PodClique | PodDetail, label: str) -> int:
    text = item.metadata.labels.get(label, "")
    return int(text) if text.isdigit() else 0


def _by_index(pod: PodView) -> tuple[int, bool]:
    return pod.index, pod.leaving


def age(created: str | None, now: datetime) -> str:
    """How long ago, as kubectl writes it: 45s, 12m, 5h, 3d."""
    if not created:
        return ""
    seconds = max(0, int((now - datetime.fromisoformat(created.replace("Z", "+00:00"))).total_seconds()))
    for size, unit in ((86400 * 2, "d"), (3600 * 2, "h"), (120, "m")):
        if seconds >= size:
            return f"{seconds // {'d': 86400, 'h': 3600, 'm': 60}[unit]}{unit}"
    return f"{seconds}s"
