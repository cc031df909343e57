"""How an update would go: the steps in order, how few units stay available on the way, how many exist at most.

The answer comes from letting the operator's own plans run on a model until nothing moves any more. Rounds are turns of
the operator and the cluster, not minutes: how long a pod takes to start is not known here.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from grove.api import labels, names
from grove.api.kinds import POD_CLIQUES, PODS, SCALING_GROUPS
from grove.api.pod_clique import PodClique
from grove.insight.model import Model, StepRecord, is_ready
from grove.plan.actions import Wait

MOST_ROUNDS = 10_000
ROUND = timedelta(seconds=10)


@dataclass(frozen=True, slots=True)
class Level:
    """Units of one thing at one moment: pods of a clique, replicas of a scaling group or of the set."""

    available: int
    total: int


@dataclass(frozen=True, slots=True)
class Trace:
    """What happened until nothing moved. `waits` tells why, if it is not done.

    `lowest_available` and `highest_total` are by name: the set itself, its scaling groups, its standalone cliques.
    """

    rounds: tuple[tuple[StepRecord, ...], ...]
    lowest_available: Mapping[str, int]
    highest_total: Mapping[str, int]
    waits: tuple[Wait, ...]

    @property
    def steps(self) -> list[StepRecord]:
        return [record for round_ in self.rounds for record in round_]


@dataclass(slots=True)
class Extremes:
    """The lowest and highest of every level while a model moves; a level counts from when it was first seen."""

    lowest: dict[str, int] = field(default_factory=dict)
    highest: dict[str, int] = field(default_factory=dict)

    def note(self, model: Model) -> None:
        for name, level in levels(model).items():
            self.lowest[name] = min(level.available, self.lowest.get(name, level.available))
            self.highest[name] = max(level.total, self.highest.get(name, level.total))


def run_to_rest(model: Model, now: datetime) -> Trace:
    """Lets operator and cluster take turns until nothing moves any more."""
    extremes = Extremes()
    extremes.note(model)
    model.watcher = extremes.note
    rounds: list[tuple[StepRecord, ...]] = []
    try:
        while len(rounds) < MOST_ROUNDS:
            moved = model.advance(now + len(rounds) * ROUND)
            if not moved:
                break
            rounds.append(tuple(moved))
    finally:
        model.watcher = None
    return Trace(tuple(rounds), extremes.lowest, extremes.highest, tuple(model.waits))


def levels(model: Model) -> dict[str, Level]:
    """How many units of the set, its groups and its standalone cliques exist and are available now."""
    ready, standing = _pod_counts(model)
    cliques = model.objects.of(POD_CLIQUES)
    found = {
        name: Level(ready[name], standing[name])
        for name, clique in cliques.items()
        if labels.SCALING_GROUP not in clique.metadata.labels
    }
    for name in model.objects.of(SCALING_GROUPS):
        found[name] = _group_level(cliques, name, ready)
    indices = {int(clique.metadata.labels[labels.REPLICA_INDEX]) for clique in cliques.values()}
    found[model.owner.metadata.name] = Level(sum(replica_is_available(model, i) for i in indices), len(indices))
    return found


def replica_is_available(model: Model, index: int) -> bool:
    """Whether every standalone clique of the replica has its minimum, and every group enough whole replicas."""
    ready, _ = _pod_counts(model)
    owner, cliques = model.owner, model.objects.of(POD_CLIQUES)
    for template in owner.spec.template.standalone():
        standing = cliques.get(names.standalone_clique(owner.metadata.name, index, template.name))
        if standing is None or ready[standing.metadata.name] < standing.spec.minimum:
            return False
    return all(
        _group_level(cliques, names.scaling_group(owner.metadata.name, index, g.name), ready).available >= g.minimum
        for g in owner.spec.template.pod_clique_scaling_groups
    )


def _pod_counts(model: Model) -> tuple[Counter[str], Counter[str]]:
    """Ready and existing pods by clique; terminating ones are neither."""
    ready: Counter[str] = Counter()
    standing: Counter[str] = Counter()
    for pod in model.objects.of(PODS).values():
        clique = pod.metadata.labels[labels.POD_CLIQUE]
        standing[clique] += not pod.metadata.terminating
        ready[clique] += is_ready(pod)
    return ready, standing


def _group_level(cliques: Mapping[str, PodClique], group: str, ready: Mapping[str, int]) -> Level:
    whole: dict[str, bool] = {}
    for name, clique in cliques.items():
        if clique.metadata.labels.get(labels.SCALING_GROUP) == group:
            index = clique.metadata.labels[labels.SCALING_GROUP_REPLICA_INDEX]
            whole[index] = whole.get(index, True) and ready[name] >= clique.spec.minimum
    return Level(sum(whole.values()), len(whole))
