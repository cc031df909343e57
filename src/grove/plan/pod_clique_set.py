"""The plan for a PodCliqueSet as a whole: its history, the identity for start order, whose turn it is, its status.

    1 history   the template is recorded as a revision before anything is made from it; old ones go beyond the limit
    2 identity  service account and role, only when a clique starts after another
    3 turn      which replicas an update works on                                   (rollout engine, set level)
    4 status    counted from what the replicas amount to

The status is also the record of the update: the replicas named there are the ones whose turn it is.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from grove.api.core import ControllerRevision
from grove.api.kinds import CONTROLLER_REVISIONS, POD_CLIQUE_SETS
from grove.api.pod_clique_set import PodCliqueSetStatus
from grove.api.reasons import Reason
from grove.plan import revision as revisions
from grove.plan.actions import Action, Create, Delete, Haste, Patch, Plan, StatusWrite, Wait, Why
from grove.plan.identity import identity_actions
from grove.plan.revision import Revision
from grove.plan.set_status import deadline_in, refused_status, set_status
from grove.plan.set_update import SetUpdate, decide
from grove.plan.worlds import SetWorld


def plan_set(world: SetWorld, now: datetime) -> Plan:
    """The next writes for the set itself."""
    latest = latest_revision(world)
    history = _history(world, latest)
    identity = identity_actions(world)
    actions = (*history, *identity)
    if history or not _judged(world):
        # Whose turn it is depends on the recorded history and on what every replica makes of this spec: both come back.
        return Plan((actions,) if actions else (), _refused(world, now))
    update = decide(world, latest, now)
    status, notices = set_status(world, latest, update, now)
    meta = world.owner.metadata
    write = StatusWrite(POD_CLIQUE_SETS, meta.namespace, meta.name, status, _haste(world, update))
    waits = (*((update.wait,) if update.wait else ()), *_deadline(world, status, now))
    return Plan((actions,) if actions else (), (write,), waits, notices)


def _refused(world: SetWorld, now: datetime) -> tuple[StatusWrite, ...]:
    """When not even the history can be written, the status says so and leaves the rest as it was."""
    meta = world.owner.metadata
    if not world.errors:
        return ()
    return (StatusWrite(POD_CLIQUE_SETS, meta.namespace, meta.name, refused_status(world, now)),)


def _judged(world: SetWorld) -> bool:
    """Whether every replica has been looked at with the spec as it is now; one that was fresh before may not be now."""
    generation, wanted = world.owner.metadata.generation, world.owner.spec.replicas
    known = world.replicas
    return known is not None and all(s.generation == generation for s in known.values() if s.index < wanted)


def latest_revision(world: SetWorld) -> Revision:
    """What the template asks for, under the name it has in history."""
    if world.latest is not None:
        return world.latest
    kept = [revisions.stored(record) for record in world.revisions]
    return revisions.recognised(revisions.of_template(world.owner.spec.template), kept)


def _history(world: SetWorld, latest: Revision) -> list[Action]:
    records = sorted(world.revisions, key=lambda r: r.revision)
    top = records[-1].revision if records else 0
    mine = next((r for r in records if revisions.hash_of(r) == latest.hash), None)
    if mine is None:
        why = Why(Reason.NEW_REVISION, f"revision {latest.hash} is recorded as number {top + 1}")
        return [Create(CONTROLLER_REVISIONS, revisions.record(world.owner, latest, top + 1), why)]
    if mine.revision < top:
        why = Why(Reason.NEW_REVISION, f"revision {latest.hash} is the latest again")
        operation = {"op": "replace", "path": "/revision", "value": top + 1}
        return [Patch(CONTROLLER_REVISIONS, mine.metadata.namespace, mine.metadata.name, (operation,), why)]
    return _forgotten(world, records, latest)


def _forgotten(world: SetWorld, records: Sequence[ControllerRevision], latest: Revision) -> list[Action]:
    """Revisions beyond the limit that nothing runs any more, oldest first."""
    if world.replicas is None:
        return []
    in_use = {latest.hash, *(summary.carried for summary in world.replicas.values())}
    idle = [r for r in records if revisions.hash_of(r) not in in_use]
    surplus = len(records) - 1 - world.settings.revision_history_limit
    why = Why(Reason.CHILD_UNWANTED, f"{world.settings.revision_history_limit} older revisions are kept")
    return [
        Delete(CONTROLLER_REVISIONS, r.metadata.namespace, r.metadata.name, r.metadata.uid, why)
        for r in idle[: max(0, surplus)]
    ]


def _deadline(world: SetWorld, status: PodCliqueSetStatus, now: datetime) -> tuple[Wait, ...]:
    """The one timer of an update: when it counts as stalled unless it moves before."""
    remaining = deadline_in(world.owner, status.update_progress, now)
    if remaining is None:
        return ()
    why = Why(Reason.UPDATE_IN_PROGRESS, "the update counts as stalled when it makes no progress")
    return (Wait(world.owner.metadata.name, why, until=remaining),)


def _haste(world: SetWorld, update: SetUpdate) -> Haste:
    """A status that moves the update, or tells of rest, is written at once."""
    before = world.owner.status
    if before is None or update.moved:
        return Haste.NOW
    at_rest = all(summary.at_rest and summary.available for summary in (world.replicas or {}).values())
    return Haste.NOW if at_rest else Haste.INTERIM
