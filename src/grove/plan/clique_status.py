"""The status of a PodClique, and the facts later decisions rest on: whether it has run, since when it is broken."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

import msgspec

from grove.api import labels
from grove.api.meta import LastError
from grove.api.pod_clique import PodCliqueStatus, PodCliqueUpdateProgress, SelectedPods
from grove.api.reasons import Reason
from grove.plan.conditions import TRUE, UNKNOWN, ConditionWriter, timestamp
from grove.plan.termination import Breach
from grove.plan.views import CliqueView

SCHEDULED = "PodCliqueScheduled"
BREACHED = "MinAvailableBreached"
HAS_RUN = "HasRun"
COMPLETED_KEPT = 20


@dataclass(frozen=True, slots=True)
class CliqueFacts:
    """What is on record about a clique, brought up to now."""

    view: CliqueView
    previous: PodCliqueStatus
    writer: ConditionWriter
    has_run: bool
    updating: bool

    @property
    def breach(self) -> Breach | None:
        """The breach, unless an update explains it."""
        if self.updating or not self.has_run or self.view.ready >= self.view.minimum:
            return None
        since = self.writer.since(BREACHED, TRUE) or self.writer.now
        return Breach(self.view.slot.name, self.view.ready, self.view.minimum, since)


def facts(view: CliqueView, previous: PodCliqueStatus, updating: bool, now: datetime) -> CliqueFacts:
    generation = view.clique.metadata.generation if view.clique else 0
    writer = ConditionWriter(previous.conditions, generation, now)
    reached = view.minimum > 0 and view.ready >= view.minimum
    return CliqueFacts(view, previous, writer, writer.recorded(HAS_RUN) or reached, updating)


@dataclass(frozen=True, slots=True)
class CliqueUpdate:
    """What the update did with this clique in this pass."""

    revision: str
    rolling: bool = False
    on_delete: bool = False
    taking_down: Sequence[str] = ()
    reset: bool = False
    deadline: str = ""


def clique_status(
    known: CliqueFacts, update: CliqueUpdate, errors: Sequence[LastError], set_name: str, now: datetime
) -> PodCliqueStatus:
    """The status to write."""
    view, previous = known.view, known.previous
    clean = not view.outdated and len(view.live) >= view.replicas and not update.rolling
    _write_conditions(known, update)
    selector = labels.selector({**labels.managed(set_name), labels.POD_CLIQUE: view.slot.name})
    return PodCliqueStatus(
        observed_generation=view.clique.metadata.generation if view.clique else None,
        conditions=known.writer.result(),
        last_errors=list(errors),
        replicas=len(view.live),
        ready_replicas=view.ready,
        scheduled_replicas=view.scheduled,
        schedule_gated_replicas=view.gated,
        updated_replicas=view.latest,
        hpa_pod_selector=None if view.slot.group else selector,
        current_pod_clique_set_generation_hash=(
            update.revision if clean else previous.current_pod_clique_set_generation_hash
        ),
        current_pod_template_hash=view.target_hash if clean else previous.current_pod_template_hash,
        update_progress=_progress(known, update, now),
    )


def _write_conditions(known: CliqueFacts, update: CliqueUpdate) -> None:
    view, writer = known.view, known.writer
    counts = f"{view.scheduled} of at least {view.minimum} pods scheduled"
    writer.set(SCHEDULED, view.placed, Reason.SCHEDULED_ENOUGH if view.placed else Reason.SCHEDULED_TOO_FEW, counts)
    ready = f"{view.ready} of at least {view.minimum} pods ready"
    if update.reset:
        writer.set(BREACHED, False, Reason.NEVER_READY, ready)
        writer.set(HAS_RUN, False, Reason.NOT_RUN, ready)
        return
    breach = known.breach
    if known.updating:
        writer.set(BREACHED, UNKNOWN, Reason.UPDATE_IN_PROGRESS, "Update is in progress")
    elif breach:
        ends = f"; its gang is recreated at {update.deadline} unless it recovers" if update.deadline else ""
        writer.set(BREACHED, True, Reason.READY_TOO_FEW, ready + ends)
    else:
        writer.set(BREACHED, False, Reason.READY_ENOUGH if known.has_run else Reason.NEVER_READY, ready)
    message = "minAvailable pods were ready at once" if known.has_run else ready
    writer.set(HAS_RUN, known.has_run, Reason.HAS_RUN if known.has_run else Reason.NOT_RUN, message)


def _progress(known: CliqueFacts, update: CliqueUpdate, now: datetime) -> PodCliqueUpdateProgress | None:
    """Open while the update works here; OnDelete opens and closes it in one moment; else what was last true stays."""
    before, view = known.previous.update_progress, known.view
    same = before is not None and before.pod_template_hash == view.target_hash
    if update.rolling:
        started = before.update_started_at if before and same and not before.update_ended_at else timestamp(now)
        earlier = before.ready_pods_selected_to_update if before and same else None
        return PodCliqueUpdateProgress(
            update_started_at=started,
            pod_clique_set_generation_hash=update.revision,
            pod_template_hash=view.target_hash,
            ready_pods_selected_to_update=_selected(earlier, update.taking_down, view),
        )
    if update.on_delete and not same and (before is not None or view.outdated):
        return PodCliqueUpdateProgress(
            update_started_at=timestamp(now),
            update_ended_at=timestamp(now),
            pod_clique_set_generation_hash=update.revision,
            pod_template_hash=view.target_hash,
        )
    if before is not None and not before.update_ended_at:
        closed = msgspec.structs.replace(before, update_ended_at=timestamp(now))
        done = closed.ready_pods_selected_to_update
        if done:
            finished = [*done.completed, *done.current][-COMPLETED_KEPT:]
            closed.ready_pods_selected_to_update = SelectedPods(completed=finished)
        return closed
    return before


def _selected(before: SelectedPods | None, taking_down: Sequence[str], view: CliqueView) -> SelectedPods:
    """A taken-down pod is current until a ready pod of the new template has its name."""
    renewed = {p.name for p in view.live if p.ready and p.template_hash == view.target_hash}
    current = list(dict.fromkeys([*(before.current if before else ()), *taking_down]))
    finished = [name for name in current if name in renewed]
    completed = [*(before.completed if before else ()), *finished]
    return SelectedPods(
        current=[name for name in current if name not in renewed], completed=completed[-COMPLETED_KEPT:]
    )
