"""One PodCliqueSet with its surroundings, arranged for the questions an explanation asks."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from functools import cached_property
from typing import Any

from grove.api import labels
from grove.api.meta import condition
from grove.api.pod_clique import PodClique
from grove.api.pod_clique_set import PodCliqueSet
from grove.api.pod_gang import PodGang
from grove.insight import demand
from grove.insight.demand import Part
from grove.insight.kinds import Event, KaiPodGroup, PodDetail
from grove.insight.snapshot import Snapshot
from grove.insight.tree import CliqueView, SetView, age, tree
from grove.plan.conditions import moment
from grove.schedulers import kai

_JOB = re.compile(r" for job <[^>]*>")
_SCHEDULERS_SAY = frozenset({"Unschedulable", "FailedScheduling", "NotReady", "Pipelined"})
# A newborn pod has a right to some silence.
PATIENCE = 10.0


@dataclass(frozen=True)
class Case:
    """A set, and what exists of and around it."""

    snapshot: Snapshot
    owner: PodCliqueSet

    @cached_property
    def view(self) -> SetView:
        return tree(self.snapshot, self.owner)

    @cached_property
    def gangs(self) -> list[PodGang]:
        return self.snapshot.of_set(self.snapshot.gangs, self.owner)

    @cached_property
    def cliques(self) -> Mapping[str, PodClique]:
        return {c.metadata.name: c for c in self.snapshot.of_set(self.snapshot.cliques, self.owner)}

    @cached_property
    def clique_views(self) -> Mapping[str, CliqueView]:
        return {c.name: c for r in self.view.members for c in r.all_cliques()}

    @cached_property
    def pods(self) -> Mapping[str, PodDetail]:
        return {p.metadata.name: p for p in self.snapshot.of_set(self.snapshot.pods, self.owner)}

    @cached_property
    def live(self) -> list[PodDetail]:
        return [p for p in self.pods.values() if not p.metadata.terminating]

    def pods_of(self, gang: PodGang) -> list[PodDetail]:
        listed = [self.pods[r.name] for g in gang.spec.podgroups for r in g.pod_references if r.name in self.pods]
        return [p for p in listed if not p.metadata.terminating]

    @cached_property
    def unplaced(self) -> list[PodGang]:
        """Gangs of which a group has fewer pods on nodes than its minimum."""
        return [gang for gang in self.gangs if self.demand(gang).pods]

    def demand(self, gang: PodGang) -> Part:
        specs: Mapping[str, Mapping[str, Any]] = {name: c.spec.pod_spec for name, c in self.cliques.items()}
        return demand.of_gang(gang, specs, self.pods)

    def scheduler(self, gang: PodGang) -> str:
        named = gang.metadata.labels.get(labels.SCHEDULER_NAME, "")
        return named or next((p.spec.scheduler_name for p in self.pods_of(gang)), "")

    def pod_group(self, gang: PodGang) -> KaiPodGroup | None:
        """KAI's view of the gang."""
        name = kai.pod_group_name(gang.metadata.name, gang.metadata.uid)
        meta = gang.metadata
        return next(
            (g for g in self.snapshot.pod_groups if g.metadata.name == name and g.metadata.namespace == meta.namespace),
            None,
        )

    def gated(self, gang: PodGang) -> list[PodDetail]:
        return [p for p in self.pods_of(gang) if p.spec.scheduling_gates and not p.spec.node_name]

    def age_of(self, pod: PodDetail) -> float:
        created = pod.metadata.creation_timestamp
        return (self.snapshot.now - moment(created)).total_seconds() if created else 0.0

    def words_about(self, gang: PodGang) -> tuple[str, ...]:
        """What schedulers have said about a gang that still waits: newest first, each thing once."""
        group = self.pod_group(gang)
        found = [
            (said.last_transition_time or "", kai.NAME, said.message)
            for said in (group.status.scheduling_conditions if group else ())
            if said.status == "True"
        ]
        names = {gang.metadata.name, *(p.metadata.name for p in self.pods_of(gang))}
        uids = {group.metadata.uid} if group else set()
        for event in self.snapshot.events:
            involved = event.involved_object
            if event.reason in _SCHEDULERS_SAY and (involved.uid in uids or self._is_about(event, names)):
                found.append((event.last_seen, event.teller, event.message))
        for pod in self.pods_of(gang):
            placed = condition(pod.status.conditions, "PodScheduled")
            if placed and placed.status == "False" and placed.reason == "Unschedulable":
                found.append((placed.last_transition_time or "", pod.spec.scheduler_name, placed.message))
        return self._told(found)

    def _is_about(self, event: Event, names: set[str]) -> bool:
        involved = event.involved_object
        mine = involved.namespace == self.owner.metadata.namespace
        return mine and involved.kind in ("Pod", "PodGang") and involved.name in names

    def _told(self, found: list[tuple[str, str, str]]) -> tuple[str, ...]:
        texts: dict[str, str] = {}
        for when, teller, message in sorted(found, reverse=True):
            text = _JOB.sub("", message).strip().rstrip(".")
            if text and text not in texts:
                texts[text] = f"{teller}, {_ago(when, self.snapshot.now)}: {text}"
        return tuple(texts.values())


def _ago(when: str, now: datetime) -> str:
    return f"{age(when, now)} ago" if when else "some time ago"
