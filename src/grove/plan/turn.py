"""Whose turn it is: which revision a PodCliqueSet replica follows, and what an update may do inside it.

The PodCliqueSet's status names the replicas an update works on; that record is all the state there is. A replica that
is not named follows the latest templates for whatever it has to create anew, unless it is held: under ReplicaRecreate
until its turn comes, by `partition`, or by `paused`. A held replica keeps the revision its cliques carry. So does an
extra replica that is up: it is cover for others, and goes when they are back. And so does a replica that serves and was
selected under an earlier spec: taking it down as a whole may not be what its selection meant, or not fit the budget any
more, so the set judges again first.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from enum import Enum

from grove.api.pod_clique_set import PodCliqueSet
from grove.plan.revision import Revision


class Mode(Enum):
    """What an update does in a replica."""

    STILL = "still"  # nothing is taken down
    ROLL = "roll"  # pods and group replicas are replaced under their budgets
    RECREATE = "recreate"  # all pods go at once, then all come back


@dataclass(frozen=True, slots=True)
class Turn:
    """The place of one replica in the update. `paused`: what was begun here stands still."""

    wanted: bool
    revision: Revision
    mode: Mode
    surge: bool = False
    paused: bool = False


def selected_replicas(owner: PodCliqueSet) -> frozenset[int]:
    """The replicas an update is working on, as recorded."""
    progress = owner.status.update_progress if owner.status else None
    return frozenset(r.replica_index for r in progress.updating_replicas) if progress else frozenset()


def turns_told(old: PodCliqueSet, new: PodCliqueSet) -> frozenset[int]:
    """The replicas for which a new status of their set means something: selected, released, or confirmed."""
    before, after = selected_replicas(old), selected_replicas(new)
    return before ^ after if selection_stands(old) or not selection_stands(new) else before | after


def selection_stands(owner: PodCliqueSet) -> bool:
    """Whether the selection on record was made for the spec as it is now."""
    return owner.status is not None and owner.status.observed_generation == owner.metadata.generation


def turn(owner: PodCliqueSet, index: int, history: Sequence[Revision], carried: str | None) -> Turn:
    """The replica's turn. `history` ends with the latest revision; `carried` is the one its cliques carry now."""
    strategy = owner.spec.strategy
    latest = history[-1]
    selected = index in selected_replicas(owner)
    recreating = strategy.type == "ReplicaRecreate"
    in_range = index < owner.spec.replicas
    below = strategy.partition is not None and index < strategy.partition
    # A whole replica is recreated or left alone: paused before its pods went, it keeps what it has.
    begun = selected and not (recreating and strategy.paused)
    held = not begun and (strategy.paused or below or recreating)
    revision = _kept(history, carried, below) if held else latest
    return Turn(
        wanted=in_range or (selected and recreating),
        revision=revision,
        mode=_mode(owner, selected),
        surge=not in_range,
        paused=strategy.paused,
    )


def left_alone(mine: Turn, history: Sequence[Revision], carried: str | None) -> Turn:
    """The turn of a replica that serves and must go on serving for now."""
    return replace(mine, revision=_kept(history, carried, False), mode=Mode.STILL)


def _kept(history: Sequence[Revision], carried: str | None, below_partition: bool) -> Revision:
    by_hash: Mapping[str, Revision] = {revision.hash: revision for revision in history}
    if carried in by_hash and carried is not None:
        return by_hash[carried]
    # A replica that is made anew below the partition gets what its neighbours there have.
    return history[-2] if below_partition and carried is None and len(history) > 1 else history[-1]


def _mode(owner: PodCliqueSet, selected: bool) -> Mode:
    strategy = owner.spec.strategy
    if not selected or strategy.type == "OnDelete":
        return Mode.STILL
    if strategy.type == "ReplicaRecreate":
        return Mode.STILL if strategy.paused else Mode.RECREATE
    return Mode.ROLL
