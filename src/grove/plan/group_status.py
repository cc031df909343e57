"""The status of a PodCliqueScalingGroup: how many of its replicas are scheduled, whole, and on the latest templates."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

import msgspec

from grove.api import labels
from grove.api.meta import LastError
from grove.api.reasons import Reason
from grove.api.scaling_group import (
    ScalingGroup,
    ScalingGroupStatus,
    ScalingGroupUpdateProgress,
    SelectedReplicaIndices,
)
from grove.plan.clique_status import BREACHED, COMPLETED_KEPT
from grove.plan.conditions import UNKNOWN, ConditionWriter, timestamp
from grove.plan.views import CliqueView


@dataclass(frozen=True, slots=True)
class GroupUpdate:
    """What the update did with this group in this pass."""

    revision: str
    rolling: bool = False
    on_delete: bool = False
    taking_down: Sequence[int] = ()


@dataclass(frozen=True, slots=True)
class GroupView:
    """A group and the cliques of each of its replicas that are asked for, surge replicas included."""

    group: ScalingGroup
    replicas: Mapping[int, Sequence[CliqueView]]
    broken: frozenset[int]
    minimum: int

    def counted(self) -> list[tuple[int, Sequence[CliqueView]]]:
        return [(j, views) for j, views in self.replicas.items() if j < self.group.spec.replicas]

    @property
    def available(self) -> int:
        return sum(all(v.available for v in views) for _, views in self.counted())


def group_status(
    view: GroupView, update: GroupUpdate, previous: ScalingGroupStatus, errors: Sequence[LastError], now: datetime
) -> ScalingGroupStatus:
    meta = view.group.metadata
    counted = view.counted()
    in_step = sum(all(v.available and not v.outdated for v in views) for _, views in counted)
    converged = in_step == view.group.spec.replicas and not update.rolling
    writer = ConditionWriter(previous.conditions, meta.generation, now)
    whole = sum(all(v.clique for v in views) and j not in view.broken for j, views in counted)
    facts = f"{whole} of at least {view.minimum} replicas whole"
    if update.rolling:
        writer.set(BREACHED, UNKNOWN, Reason.UPDATE_IN_PROGRESS, "Update is in progress")
    else:
        short = whole < view.minimum
        writer.set(BREACHED, short, Reason.GROUP_TOO_FEW if short else Reason.GROUP_ENOUGH, facts)
    set_name = meta.labels.get(labels.PART_OF, "")
    return ScalingGroupStatus(
        observed_generation=meta.generation,
        conditions=writer.result(),
        last_errors=list(errors),
        replicas=len([j for j, views in counted if any(v.clique for v in views)]),
        scheduled_replicas=sum(all(v.placed for v in views) for _, views in counted),
        available_replicas=view.available,
        updated_replicas=sum(_updated(views) for _, views in counted),
        selector=labels.selector({**labels.managed(set_name), labels.SCALING_GROUP: meta.name}),
        current_pod_clique_set_generation_hash=(
            update.revision if converged else previous.current_pod_clique_set_generation_hash
        ),
        update_progress=_progress(view, update, previous.update_progress, now),
    )


def _updated(views: Sequence[CliqueView]) -> bool:
    return all(v.all_latest for v in views)


def _progress(
    view: GroupView, update: GroupUpdate, before: ScalingGroupUpdateProgress | None, now: datetime
) -> ScalingGroupUpdateProgress | None:
    cliques = [v for _, views in view.counted() for v in views]
    updated, total = sum(v.all_latest for v in cliques), len(cliques)
    same = before is not None and before.pod_clique_set_generation_hash == update.revision
    if update.rolling:
        started = before.update_started_at if before and same and not before.update_ended_at else timestamp(now)
        earlier = before.ready_replica_indices_selected_to_update if before and same else None
        return ScalingGroupUpdateProgress(
            update_started_at=started,
            pod_clique_set_generation_hash=update.revision,
            updated_pod_cliques_count=updated,
            total_pod_cliques_count=total,
            ready_replica_indices_selected_to_update=_selected(earlier, update.taking_down, view),
        )
    if update.on_delete and not same and (before is not None or any(v.outdated for v in cliques)):
        moment = timestamp(now)
        return ScalingGroupUpdateProgress(
            update_started_at=moment,
            update_ended_at=moment,
            pod_clique_set_generation_hash=update.revision,
            updated_pod_cliques_count=updated,
            total_pod_cliques_count=total,
        )
    if before is None:
        return None
    closed = msgspec.structs.replace(before, updated_pod_cliques_count=updated, total_pod_cliques_count=total)
    if not before.update_ended_at:
        closed.update_ended_at = timestamp(now)
        done = before.ready_replica_indices_selected_to_update
        if done:
            finished = [*done.completed, *done.current][-COMPLETED_KEPT:]
            closed.ready_replica_indices_selected_to_update = SelectedReplicaIndices(completed=finished)
    return closed


def _selected(
    before: SelectedReplicaIndices | None, taking_down: Sequence[int], view: GroupView
) -> SelectedReplicaIndices:
    """A taken-down replica is current until it is whole again on the new templates."""
    current = list(dict.fromkeys([*(before.current if before else ()), *taking_down]))
    renewed = {j for j, views in view.replicas.items() if j not in taking_down and _updated(views)}
    completed = [*(before.completed if before else ()), *(j for j in current if j in renewed)]
    return SelectedReplicaIndices(
        current=[j for j in current if j not in renewed], completed=completed[-COMPLETED_KEPT:]
    )
