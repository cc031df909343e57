"""Would a workload fit now, gang by gang: where it would go, or what is missing where it comes closest.

Gangs that run already stay where they are, unless a drained node takes pods of theirs or their pods ask for something
else now. Gangs are placed one after the other in the order in which the operator makes them.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

import msgspec

from grove.api import labels
from grove.api.pod_clique_set import PodCliqueSet
from grove.api.pod_gang import PodGang
from grove.insight import demand, resources
from grove.insight.capacity import rooms, takes_room
from grove.insight.demand import Part
from grove.insight.fit import Fit, Ledger, place
from grove.insight.kinds import PodDetail
from grove.insight.placement import common_domain
from grove.insight.snapshot import Snapshot


class GangFit(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """One gang. `where` is the narrowest domain that would hold it, or the one it comes closest in."""

    name: str
    state: str
    pods: int
    shape: str
    where: str = ""
    nodes: dict[str, int] = {}
    placed: int = 0
    missing: str = ""
    refused: dict[str, int] = {}

    @property
    def fits(self) -> bool:
        return self.state != MISSING_ROOM


FITS, RUNS, MISSING_ROOM = "fits", "runs", "does not fit"


class WhatIf(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """The answer."""

    name: str
    fits: bool
    gangs: tuple[GangFit, ...]
    drained: tuple[str, ...] = ()
    evicted: int = 0


def whatif(snapshot: Snapshot, wanted: PodCliqueSet | None, drained: Collection[str] = ()) -> WhatIf:
    """What would happen to a set that is to be applied, or, without one, to all gangs on drained nodes."""
    found = _Question(snapshot, wanted, frozenset(drained)).answer()
    gone = sum(takes_room(p) and p.spec.node_name in drained for p in snapshot.pods)
    return WhatIf(
        name=wanted.metadata.name if wanted else "",
        fits=all(gang.fits for gang in found),
        gangs=tuple(found),
        drained=tuple(sorted(drained)),
        evicted=gone,
    )


class _Question:
    def __init__(self, snapshot: Snapshot, wanted: PodCliqueSet | None, drained: frozenset[str]) -> None:
        self._snapshot = snapshot
        self._wanted = wanted
        self._drained = drained
        self._anew: set[str] = set()
        self._gangs = {(g.metadata.namespace, g.metadata.name): g for g in snapshot.gangs}
        self._specs: Mapping[tuple[str, str], Mapping[str, Any]] = {
            (c.metadata.namespace, c.metadata.name): c.spec.pod_spec for c in snapshot.cliques
        }

    def answer(self) -> list[GangFit]:
        parts = self._planned() if self._wanted else self._affected()
        ledger = Ledger(rooms(self._snapshot, drained=self._drained, leaving=self._leaves))
        return [self._judged(name, part, ledger) for name, part in parts]

    def _judged(self, name: str, part: Part | None, ledger: Ledger) -> GangFit:
        if part is None:
            return GangFit(name=name, state=RUNS, pods=0, shape="")
        fit = place(part, ledger)
        return _told(self._snapshot, part, fit)

    def _planned(self) -> list[tuple[str, Part | None]]:
        """The gangs of the set to be applied; None stands for one that runs as it would be."""
        assert self._wanted is not None
        namespace = self._wanted.metadata.namespace
        found: list[tuple[str, Part | None]] = []
        for _, part in demand.of_set(self._wanted, self._snapshot.settings):
            live = self._gangs.get((namespace, part.name))
            if live is not None and self._unchanged(namespace, part):
                rest = self._rest(live)
                found.append((part.name, rest if rest.pods else None))
            else:
                self._anew.add(part.name)
                found.append((part.name, part))
        return found

    def _affected(self) -> list[tuple[str, Part | None]]:
        """Gangs that lose pods with the drained nodes."""
        found: list[tuple[str, Part | None]] = []
        for gang in sorted(self._snapshot.gangs, key=lambda g: (g.metadata.namespace, g.metadata.name)):
            hit = any(p.spec.node_name in self._drained for p in self._pods(gang).values())
            rest = self._rest(gang) if hit else None
            if rest is not None:
                found.append((gang.metadata.name, rest if rest.pods else None))
        return found

    def _rest(self, gang: PodGang) -> Part:
        """What a standing gang lacks once the drained nodes are gone."""
        specs = {g.name: self._specs.get((gang.metadata.namespace, g.name), {}) for g in gang.spec.podgroups}
        staying = {n: p for n, p in self._pods(gang).items() if p.spec.node_name not in self._drained}
        return demand.of_gang(gang, specs, staying)

    def _pods(self, gang: PodGang) -> dict[str, PodDetail]:
        listed = {r.name for group in gang.spec.podgroups for r in group.pod_references}
        namespace = gang.metadata.namespace
        return {
            p.metadata.name: p
            for p in self._snapshot.pods
            if p.metadata.namespace == namespace and p.metadata.name in listed
        }

    def _unchanged(self, namespace: str, part: Part) -> bool:
        """Whether the gang's pods ask for what they ask for now."""
        return all(
            resources.pod_requests(self._specs.get((namespace, leaf.name), {})) == dict(leaf.requests)
            for leaf in part.leaves()
        )

    def _leaves(self, pod: PodDetail) -> bool:
        """Pods that make room: those on drained nodes, and those of gangs that would be made anew."""
        if pod.spec.node_name in self._drained:
            return True
        if self._wanted is None or pod.metadata.namespace != self._wanted.metadata.namespace:
            return False
        return pod.metadata.labels.get(labels.POD_GANG, "") in self._anew


def _told(snapshot: Snapshot, part: Part, fit: Fit) -> GangFit:
    counts: dict[str, int] = {}
    for nodes in fit.nodes.values():
        for node, count in nodes.items():
            counts[node] = counts.get(node, 0) + count
    if fit.shortage is None:
        where = common_domain(snapshot, counts)
        return GangFit(
            name=part.name, state=FITS, pods=part.pods, shape=part.shape(), where=where, nodes=counts, placed=part.pods
        )
    short = fit.shortage
    more = f"{short.pods} more {'pod' if short.pods == 1 else 'pods'}"
    missing = f"{more}: {resources.all_said(short.missing)}"
    return GangFit(
        name=part.name,
        state=MISSING_ROOM,
        pods=part.pods,
        shape=part.shape(),
        where=short.domain,
        placed=short.placed,
        missing=missing,
        refused=dict(short.refused),
    )
