"""What a replica reports: the status of every clique, group and gang, and what it amounts to for its set."""

from __future__ import annotations

from grove.api import names
from grove.api.kinds import POD_CLIQUES, POD_GANGS, SCALING_GROUPS
from grove.api.pod_clique import PodClique, PodCliqueUpdateProgress
from grove.api.pod_clique_set import ScalingGroupConfig
from grove.api.pod_gang import PodGangStatus
from grove.api.scaling_group import ScalingGroup, ScalingGroupUpdateProgress
from grove.plan import clique_status, gang_status, group_status, termination
from grove.plan.actions import Haste, Plan, StatusWrite
from grove.plan.clique_status import CliqueFacts, CliqueUpdate
from grove.plan.replica_draft import Draft, available, carried, counted_groups
from grove.plan.turn import Mode
from grove.plan.views import CliqueView
from grove.plan.worlds import ReplicaSummary


def replica_statuses(draft: Draft) -> list[StatusWrite]:
    """The statuses its objects should have after this pass."""
    found = [_clique_write(draft, known) for known in draft.facts.values() if known.view.clique]
    for group in draft.world.owner.spec.template.pod_clique_scaling_groups:
        found.extend(_group_write(draft, group))
    found.extend(_gang_writes(draft))
    return found


def _clique_write(draft: Draft, known: CliqueFacts) -> StatusWrite:
    name, view = known.view.slot.name, known.view
    allowed = termination.delay(draft.world.owner.spec.template)
    breach = known.breach
    update = CliqueUpdate(
        revision=draft.turn.revision.hash,
        rolling=draft.moves[name].rolling,
        on_delete=draft.world.owner.spec.strategy.type == "OnDelete",
        taking_down=draft.moves[name].taking_down,
        reset=name in draft.verdict.reset or _renewed(draft, view),
        deadline=termination.deadline(breach, allowed) if breach and allowed else "",
    )
    errors = [e for e in draft.world.errors if e.description.startswith(f"{name}:")]
    status = clique_status.clique_status(known, update, errors, draft.layout.set_name, draft.now)
    # That a clique has run is a fact later decisions rest on: it does not wait for the clique to be whole.
    first_run = known.has_run and not known.writer.recorded(clique_status.HAS_RUN)
    stepped = update.rolling and status.update_progress != update_on_record(view.clique)
    eventful = bool(breach) or bool(errors) or update.reset or stepped
    haste = _haste(eventful, first_run or view.ready >= view.replicas)
    return StatusWrite(POD_CLIQUES, draft.layout.namespace, name, status, haste)


def update_on_record(
    standing: PodClique | ScalingGroup | None,
) -> PodCliqueUpdateProgress | ScalingGroupUpdateProgress | None:
    """What the stored object says of its update. One that is only about to be written is not on record."""
    return standing.status.update_progress if standing and standing.status else None


def _haste(eventful: bool, settled: bool) -> Haste:
    return Haste.NOW if eventful else Haste.SETTLED if settled else Haste.INTERIM


def _renewed(draft: Draft, view: CliqueView) -> bool:
    """An update that recreates a whole unit begins a new life for it."""
    return draft.facts[view.slot.name].updating and not view.live and draft.moves[view.slot.name].blocked


def _group_write(draft: Draft, group: ScalingGroupConfig) -> list[StatusWrite]:
    world = draft.world
    name = names.scaling_group(world.owner.metadata.name, world.index, group.name)
    standing = world.groups.get(name)
    if standing is None:
        return []
    step = draft.group_steps[group.name]
    views = draft.group_views(group.name)
    broken = frozenset(j for j, vs in views.items() if any(draft.facts[v.slot.name].breach for v in vs))
    view = group_status.GroupView(standing, views, broken, group.minimum)
    progress = world.group_status(name).update_progress
    outdated = any(v.outdated for vs in views.values() for v in vs)
    rolling = draft.turn.mode is Mode.ROLL and (
        outdated or (progress is not None and not progress.update_ended_at and not step.at_rest)
    )
    update = group_status.GroupUpdate(
        draft.turn.revision.hash, rolling, world.owner.spec.strategy.type == "OnDelete", step.take_down
    )
    status = group_status.group_status(view, update, world.group_status(name), [], draft.now)
    stepped = rolling and status.update_progress != update_on_record(standing)
    haste = _haste(stepped, status.available_replicas >= standing.spec.replicas)
    return [StatusWrite(SCALING_GROUPS, draft.layout.namespace, name, status, haste)]


def _gang_writes(draft: Draft) -> list[StatusWrite]:
    found = []
    replica_restarts = draft.verdict.reset >= set(draft.views) or (
        draft.turn.mode is Mode.RECREATE and not any(v.live for v in draft.views.values())
    )
    for gang in draft.layout.gangs:
        standing = draft.world.gangs.get(gang.name)
        if standing is None:
            continue
        views = [draft.views[slot.name] for slot in gang.slots]
        previous = draft.world.gang_status(gang.name)
        status = gang_status.gang_status(standing, views, previous, reset=replica_restarts, now=draft.now)
        settled = status.phase == "Running" and all(len(v.live) >= v.replicas for v in views)
        haste = _haste(replica_restarts, settled)
        found.append(StatusWrite(POD_GANGS, draft.layout.namespace, gang.name, status, haste))
    return found


def replica_summary(draft: Draft, plan: Plan, statuses: list[StatusWrite]) -> ReplicaSummary:
    """What the replica amounts to for its set after this pass."""
    standalone = [draft.views[slot.name] for slot in draft.layout.standalone]
    counted = counted_groups(draft)
    follows = draft.turn.revision.hash == draft.world.history[-1].hash
    fresh = follows and not any(v.outdated for v in draft.views.values())
    updated_groups = sum(all(v.available and not v.outdated for vs in counted[name] for v in vs) for name in counted)
    gangs = [gang_status.summary(s.name, s.status) for s in statuses if isinstance(s.status, PodGangStatus)]
    return ReplicaSummary(
        index=draft.world.index,
        exists=any(v.clique for v in draft.views.values()),
        fresh=fresh,
        available=available(draft),
        placed=any(v.scheduled for v in draft.views.values()),
        at_rest=not plan.acts and not _unfinished(draft),
        carried=carried(draft.world),
        surge=draft.turn.surge,
        begun=draft.turn.mode is Mode.RECREATE,
        generation=draft.world.owner.metadata.generation,
        cliques=len(standalone),
        updated_cliques=sum(v.available and not v.outdated and follows for v in standalone),
        groups=len(counted),
        updated_groups=updated_groups if follows else 0,
        updated_pods=sum(p.ready and p.template_hash == v.target_hash for v in draft.views.values() for p in v.live)
        if follows
        else 0,
        pods=sum(v.replicas for v in draft.views.values()),
        gangs=tuple(gangs),
        waits=tuple(draft.waits),
        errors=draft.world.errors,
    )


def _unfinished(draft: Draft) -> bool:
    """Whether an update that works here still waits for something."""
    if draft.turn.mode is Mode.STILL:
        return False
    steps_open = any(not step.at_rest for step in draft.group_steps.values())
    pods_open = any(m.rolling or m.blocked for m in draft.moves.values())
    short = draft.turn.mode is Mode.RECREATE and not all(v.available for v in draft.views.values())
    return steps_open or pods_open or short
