"""What an update would do: the steps in order, the least that stays available, the most that exists, what may block it.

The operator's own plans run on a model of what is there now. Steps are rounds in which operator and cluster take turns;
how long a pod takes to start is not known here.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import datetime

import msgspec

from grove.api import labels
from grove.api.kinds import PODS
from grove.api.pod_clique_set import PodCliqueSet
from grove.api.reasons import Reason
from grove.insight import demand, resources
from grove.insight.capacity import refusal, rooms
from grove.insight.findings import counted
from grove.insight.fit import Ledger, place
from grove.insight.forecast import MOST_ROUNDS, ROUND, Extremes
from grove.insight.history import Change, changes
from grove.insight.kinds import PodDetail
from grove.insight.model import Model, StepRecord
from grove.insight.snapshot import Snapshot
from grove.plan import revision as revisions
from grove.runtime.objects import HasMetadata

# What a person calls a step: pods and units that come and go. Corrections of labels and the like are not.
_SHOWN_KINDS = frozenset({"Pod", "PodClique", "PodGang"})
_SHOWN_VERBS = frozenset({"create", "delete"})


class Move(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """One write of the operator."""

    verb: str
    kind: str
    name: str
    why: str


class Step(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """Writes that belong to one round."""

    number: int
    moves: tuple[Move, ...]


class Preview(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """The update as it would go. Counts are by name: the set, its scaling groups, its standalone cliques."""

    name: str
    strategy: str
    before: str
    after: str
    changes: tuple[Change, ...]
    steps: tuple[Step, ...]
    restarts: dict[str, int]
    lowest_available: dict[str, int]
    highest_total: dict[str, int]
    gpus_now: float
    gpus_peak: float
    extra_gpus: float
    completes: bool
    blockers: tuple[str, ...] = ()


def preview(snapshot: Snapshot, owner: PodCliqueSet, wanted: PodCliqueSet, objects: Sequence[HasMetadata]) -> Preview:
    """The update of a live set to another spec. `objects` is all that exists of it, for the model."""
    model = Model.from_objects(owner, objects, snapshot.settings)
    kept = [revisions.stored(r) for r in snapshot.of_set(snapshot.revisions, owner)]
    old = revisions.recognised(revisions.of_template(owner.spec.template), kept)
    new = revisions.recognised(revisions.of_template(wanted.spec.template), kept)
    sizes = _sizes([*kept, old, new])
    model.submit(wanted.spec)
    run = _Run(model, sizes)
    rounds = run.to_rest(snapshot.now)
    completes = _complete(model, new.hash)
    return Preview(
        name=owner.metadata.name,
        strategy=wanted.spec.strategy.type or "RollingRecreate",
        before=old.hash,
        after=new.hash,
        changes=tuple(changes(old, new)),
        steps=_steps(rounds),
        restarts=_restarts(rounds),
        lowest_available=run.extremes.lowest,
        highest_total=run.extremes.highest,
        gpus_now=run.first,
        gpus_peak=run.peak,
        extra_gpus=max(0.0, run.peak - run.first),
        completes=completes,
        blockers=tuple(_blockers(snapshot, wanted, model, run, completes)),
    )


class _Run:
    """Lets a model run and notes the extremes."""

    def __init__(self, model: Model, sizes: Mapping[str, float]) -> None:
        self._model = model
        self._sizes = sizes
        self.extremes = Extremes()
        self.first = self.peak = self._gpus()

    def to_rest(self, now: datetime) -> list[list[StepRecord]]:
        self._note(self._model)
        self._model.watcher = self._note
        rounds: list[list[StepRecord]] = []
        while len(rounds) < MOST_ROUNDS and (moved := self._model.advance(now + len(rounds) * ROUND)):
            rounds.append(moved)
        self._model.watcher = None
        return rounds

    def _note(self, model: Model) -> None:
        self.extremes.note(model)
        self.peak = max(self.peak, self._gpus())

    def _gpus(self) -> float:
        """GPUs of all pods there are, shutting down included: they hold theirs to the end."""
        pods = self._model.objects.of(PODS).values()
        return sum(self._sizes.get(p.metadata.labels.get(labels.POD_TEMPLATE_HASH, ""), 0.0) for p in pods)


def _sizes(found: Sequence[revisions.Revision]) -> dict[str, float]:
    return {t.hash: resources.gpus(resources.pod_requests(t.pod_spec)) for r in found for t in r.cliques.values()}


def _steps(rounds: Sequence[Sequence[StepRecord]]) -> tuple[Step, ...]:
    found: list[Step] = []
    for records in rounds:
        moves = tuple(
            Move(verb=r.verb, kind=r.kind, name=r.name, why=r.why)
            for r in records
            if r.kind in _SHOWN_KINDS and r.verb in _SHOWN_VERBS
        )
        if moves:
            found.append(Step(number=len(found) + 1, moves=moves))
    return tuple(found)


def _restarts(rounds: Sequence[Sequence[StepRecord]]) -> dict[str, int]:
    """How many pods go, by reason."""
    found: dict[str, int] = {}
    for record in (r for records in rounds for r in records):
        if record.verb == "delete" and record.kind == PODS.kind:
            reason = record.why.partition(":")[0]
            found[reason] = found.get(reason, 0) + 1
    return found


def _complete(model: Model, wanted: str) -> bool:
    status = model.owner.status
    return (
        status is not None
        and status.current_generation_hash == wanted
        and status.updated_replicas >= model.owner.spec.replicas
        and (status.update_progress is None or status.update_progress.update_ended_at is not None)
    )


def _blockers(snapshot: Snapshot, wanted: PodCliqueSet, model: Model, run: _Run, completes: bool) -> list[str]:
    """What may stop the update on the way, each with the reason's own word."""
    found: list[str] = []
    strategy = wanted.spec.strategy
    if strategy.paused:
        found.append(f"{Reason.PAUSED}: {Reason.PAUSED.meaning}")
    if strategy.partition:
        found.append(f"{Reason.PARTITIONED}: replicas below {strategy.partition} keep their revision")
    if strategy.type == "OnDelete":
        found.append("OnDelete: every pod keeps its template until you delete it")
    if not completes and not found:
        found += [f"{w.subject}: {w.why}" for w in model.waits[:3]] or ["the update does not come to an end"]
    found += _room(snapshot, wanted, run)
    return found


def _room(snapshot: Snapshot, wanted: PodCliqueSet, run: _Run) -> list[str]:
    if not snapshot.nodes:
        return []
    meta = wanted.metadata

    def mine(pod: PodDetail) -> bool:
        return pod.metadata.namespace == meta.namespace and pod.metadata.labels.get(labels.PART_OF) == meta.name

    found = []
    free = sum(resources.gpus(room.free) for room in rooms(snapshot) if not room.closed)
    extra = run.peak - run.first
    if extra > free:
        found.append(f"{Reason.WAIT_SURGE}: {extra:g} GPUs more are needed on the way, {max(0.0, free):g} are free")
    ledger = Ledger(rooms(snapshot, leaving=mine))
    for _, part in demand.of_set(wanted, snapshot.settings):
        fit = place(part, ledger)
        if fit.shortage:
            short = fit.shortage
            found.append(
                f"{Reason.WAIT_AVAILABLE}: gang {part.name} would not fit: {short.placed} of {short.wanted} pods"
                + (f" in {short.domain}" if short.domain else "")
            )
    found += _rivals(snapshot, mine)
    return found[:4]


def _rivals(snapshot: Snapshot, mine: Callable[[PodDetail], bool]) -> list[str]:
    """Pods of others that wait for room and could take what an update frees for a moment."""
    own = {pod.spec.node_name for pod in snapshot.pods if mine(pod)}
    places = [room for room in rooms(snapshot) if room.name in own]
    waiting: dict[str, int] = {}
    for pod in snapshot.pods:
        if mine(pod) or pod.spec.node_name or pod.spec.scheduling_gates or pod.status.phase != "Pending":
            continue
        wishes = {
            "nodeSelector": pod.spec.node_selector,
            "tolerations": pod.spec.tolerations,
            "affinity": pod.spec.affinity,
        }
        if any(not refusal(room, wishes) for room in places):
            name = pod.metadata.labels.get(labels.PART_OF) or pod.metadata.name
            owner = f"{pod.metadata.namespace}/{name}"
            waiting[owner] = waiting.get(owner, 0) + 1
    return [
        f"{Reason.WAIT_AVAILABLE}: {counted(count, 'pending pod')} of {owner} may take room that is freed on the way"
        for owner, count in sorted(waiting.items())[:2]
    ]
