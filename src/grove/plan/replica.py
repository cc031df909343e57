"""The plan for one PodCliqueSet replica: from what exists of it to what it should be, in one pass.

    1 turn         which revision it follows, and whether an update may take anything down here
    2 units        which scaling-group replicas exist, come, go, are replaced          (rollout engine, group level)
    3 termination  what has been broken for too long                                   (whole units)
    4 pods         which pods come, go, are replaced                                   (rollout engine, pod level)
    5 objects      Service, cliques, groups, gangs, autoscalers: made, corrected, removed
    6 gates        which pods may be scheduled
    7 status       of every clique, group and gang, once, last

Objects are written before the pods that need them. At rest the plan is empty.
"""

from __future__ import annotations

from datetime import datetime

from grove.api import labels, names
from grove.api.kinds import POD_CLIQUES
from grove.api.pod_clique import ComponentUpdateStrategy, PodCliqueStatus
from grove.api.pod_clique_set import ScalingGroupConfig
from grove.api.pod_gang import PodGangStatus
from grove.api.scaling_group import ScalingGroupStatus
from grove.plan import budget, clique_status, gang_status, replica_objects, rollout, termination
from grove.plan.actions import Action, Notice, Plan, StatusWrite, Wait
from grove.plan.budget import Budget
from grove.plan.gates import Gates
from grove.plan.layout import Slot, layout
from grove.plan.replica_draft import Draft, available, carried, group_replicas
from grove.plan.replica_pods import PodMoves, pod_actions
from grove.plan.replica_status import replica_statuses, replica_summary, update_on_record
from grove.plan.rollout import Goal, Step
from grove.plan.turn import Mode, Turn, left_alone, selection_stands, turn
from grove.plan.views import CliqueView, clique_view, group_unit
from grove.plan.worlds import ReplicaSummary, ReplicaWorld


def plan_replica(world: ReplicaWorld, now: datetime) -> tuple[Plan, ReplicaSummary]:
    """The next writes for this replica, and what it amounts to."""
    mine = turn(world.owner, world.index, world.history, carried(world) or world.neighbours)
    if not mine.wanted:
        return replica_objects.removal(world)
    draft = _observe(world, mine, now)
    if _goes_on_serving(draft):
        draft = _observe(world, left_alone(mine, world.history, carried(world)), now)
    _decide_groups(draft)
    _gather_facts(draft)
    _decide_termination(draft)
    _decide_pods(draft)
    return _compose(draft)


def _goes_on_serving(draft: Draft) -> bool:
    """Whether the replica serves and is not to be taken down whole: as cover for others, or by a selection of old."""
    recreated = draft.turn.mode is Mode.RECREATE and not selection_stands(draft.world.owner)
    return (draft.turn.surge or recreated) and available(draft)


# 2 Units.


def _observe(world: ReplicaWorld, mine: Turn, now: datetime) -> Draft:
    indices: dict[str, tuple[int, ...]] = {}
    for group in world.owner.spec.template.pod_clique_scaling_groups:
        indices[group.name] = tuple(sorted({*_existing(world, group), *range(group_replicas(world, group))}))
    seen = layout(world.owner, world.index, indices)
    return Draft(world, mine, now, seen, {slot.name: _view(world, mine, slot) for slot in seen.slots()})


def _view(world: ReplicaWorld, mine: Turn, slot: Slot) -> CliqueView:
    target, latest = (revision.cliques[slot.template.name].hash for revision in (mine.revision, world.history[-1]))
    return clique_view(slot, world.cliques.get(slot.name), world.pods.get(slot.name, ()), target, latest)


def _existing(world: ReplicaWorld, group: ScalingGroupConfig) -> set[int]:
    name = names.scaling_group(world.owner.metadata.name, world.index, group.name)
    found = set()
    for clique in world.cliques.values():
        if clique.metadata.labels.get(labels.SCALING_GROUP) == name:
            found.add(int(clique.metadata.labels.get(labels.SCALING_GROUP_REPLICA_INDEX, "0")))
    return found


def _decide_groups(draft: Draft) -> None:
    """Which replicas each scaling group gets, keeps and loses; then the layout is that of what stays."""
    world = draft.world
    indices: dict[str, tuple[int, ...]] = {}
    for group in world.owner.spec.template.pod_clique_scaling_groups:
        views = draft.group_views(group.name)
        existing = {j: v for j, v in views.items() if any(c.clique or c.pods for c in v)}
        units = [group_unit(j, v) for j, v in existing.items()]
        replicas = group_replicas(world, group)
        name = names.scaling_group(world.owner.metadata.name, world.index, group.name)
        progress = world.group_status(name).update_progress
        rolling = draft.turn.mode is Mode.ROLL and (
            rollout.outdated(units) or (progress is not None and not progress.update_ended_at)
        )
        allowed = _budget(group.update_strategy, replicas)
        goal = Goal(replicas, allowed, rolling, draft.turn.paused, noun=f"{group.name} replica")
        step = rollout.next_step(units, goal)
        draft.group_steps[group.name] = step
        if rolling:
            draft.rolling_groups.add(group.name)
        if step.wait:
            draft.waits.append(Wait(name, step.wait))
        staying = {u.index for u in units if not u.leaving} - set(step.remove)
        indices[group.name] = tuple(sorted({*staying, *step.create, *step.surge, *range(replicas)}))
    if all(indices[name] == tuple(members) for name, members in draft.layout.members.items()):
        return
    draft.layout = layout(world.owner, world.index, indices)
    draft.views = {
        slot.name: draft.views.get(slot.name) or _view(world, draft.turn, slot) for slot in draft.layout.slots()
    }


def _budget(strategy: ComponentUpdateStrategy | None, replicas: int) -> Budget:
    wish = strategy or ComponentUpdateStrategy()
    return budget.resolve(wish.max_unavailable, wish.max_surge, replicas)


# 3 Termination.


def _gather_facts(draft: Draft) -> None:
    for name, view in draft.views.items():
        known = clique_status.facts(view, draft.world.clique_status(name), _updating(draft, view), draft.now)
        draft.facts[name] = known


def _updating(draft: Draft, view: CliqueView) -> bool:
    """Whether an update explains what is missing in this clique now."""
    if draft.turn.mode is Mode.RECREATE:
        return any(v.outdated for v in draft.views.values()) or not view.available
    if draft.turn.mode is Mode.STILL:
        return False
    if view.slot.group is None:
        rolling, step = _pod_step(draft, view)
        return rolling and not step.at_rest
    unit = draft.group_views(view.slot.group.name)[view.slot.group_index]
    rolling = view.slot.group.name in draft.rolling_groups
    return any(v.outdated for v in unit) or (rolling and not all(v.available for v in unit))


def _decide_termination(draft: Draft) -> None:
    template = draft.world.owner.spec.template
    allowed = termination.delay(template)
    groups = {
        group.name: (group, {j: [s.name for s in slots] for j, slots in draft.layout.members[group.name].items()})
        for group in template.pod_clique_scaling_groups
    }
    breaches = {name: known.breach for name, known in draft.facts.items()}
    found = {name: breach for name, breach in breaches.items() if breach is not None}
    draft.verdict = termination.verdict(termination.Replica(draft.views, groups, found), allowed, draft.now)
    draft.waits.extend(draft.verdict.waits)


# 4 Pods.


def _decide_pods(draft: Draft) -> None:
    recycled = _recycled(draft)
    for name, view in draft.views.items():
        if name in recycled or name in draft.verdict.doomed:
            draft.moves[name] = PodMoves(delete=view.live if name not in draft.verdict.reset else (), blocked=True)
        elif _starting_over(draft, view):
            draft.moves[name] = PodMoves(blocked=True)
        else:
            draft.moves[name] = _pod_moves(draft, view)


def _recycled(draft: Draft) -> set[str]:
    """Cliques all of whose pods the update replaces at once."""
    if draft.turn.mode is Mode.RECREATE:
        return set(draft.views) if any(v.outdated for v in draft.views.values()) else set()
    found: set[str] = set()
    for group, step in draft.group_steps.items():
        for j in step.take_down:
            found.update(slot.name for slot in draft.layout.members[group].get(j, ()))
    return found


def _starting_over(draft: Draft, view: CliqueView) -> bool:
    """A unit that starts as a whole waits until the last of its old pods is gone."""
    if draft.turn.mode is Mode.RECREATE:
        unit = list(draft.views.values())
    elif view.slot.group:
        unit = draft.group_views(view.slot.group.name)[view.slot.group_index]
    else:
        return False
    return any(v.leaving for v in unit) and not any(v.live for v in unit)


def _pod_step(draft: Draft, view: CliqueView) -> tuple[bool, Step]:
    """Whether an update rolls the pods of this clique, and the next step for them."""
    progress = draft.world.clique_status(view.slot.name).update_progress
    rolling = (
        draft.turn.mode is Mode.ROLL
        and view.slot.group is None
        and (view.outdated or (progress is not None and not progress.update_ended_at))
    )
    allowed = _budget(view.slot.template.update_strategy, view.replicas)
    goal = Goal(view.replicas, allowed, rolling, draft.turn.paused, by_count=True, noun="pod")
    return rolling, rollout.next_step(view.units(), goal)


def _pod_moves(draft: Draft, view: CliqueView) -> PodMoves:
    rolling, step = _pod_step(draft, view)
    if step.wait:
        draft.waits.append(Wait(view.slot.name, step.wait))
    gone = {*step.take_down, *step.remove}
    victims = tuple(p for p in view.live if p.index in gone or p.failed)
    return PodMoves(
        delete=victims,
        create=(*step.create, *step.surge),
        taking_down=tuple(p.name for p in view.live if p.index in step.take_down),
        rolling=rolling and not step.at_rest,
    )


# 5-7 Composition.


def _compose(draft: Draft) -> tuple[Plan, ReplicaSummary]:
    statuses = replica_statuses(draft)
    going = frozenset(pod.uid for moves in draft.moves.values() for pod in moves.delete)
    gates = Gates.of(draft.world, draft.layout, draft.views, going)
    objects, unwanted, ready_gangs = replica_objects.reconcile(draft.world, draft.turn, draft.layout, _pod_names(draft))
    pods = pod_actions(draft.world, draft.layout, draft.views, draft.moves, gates, ready_gangs)
    draft.waits[:0] = replica_objects.blocked(draft.world, draft.layout)
    draft.waits[:0] = _refusals(draft)
    draft.waits.extend(gates.waits)
    opening = _opening(draft, statuses)
    stages: tuple[tuple[Action, ...], ...] = tuple(
        tuple(stage) for stage in (opening, (*objects, *unwanted), pods.first, pods.completing, pods.released) if stage
    )
    notices = (*_notices(draft, statuses), *replica_objects.left_out(draft.world, objects))
    plan = Plan(stages, tuple(statuses), tuple(draft.waits), notices)
    return plan, replica_summary(draft, plan, statuses)


def _pod_names(draft: Draft) -> dict[str, list[str]]:
    """The pods every gang lists: those that stay, those to come, and those whose place is being refilled."""
    found = {}
    for name, view in draft.views.items():
        moves = draft.moves[name]
        going = {p.index for p in moves.delete}
        kept = {p.index for p in view.pods if p.index < view.replicas or (not p.leaving and p.index not in going)}
        if moves.blocked or view.clique is None:
            kept |= set(range(view.replicas))
        found[name] = [names.pod(name, i) for i in sorted({*kept, *moves.create}) if i >= 0]
    return found


def _opening(draft: Draft, statuses: list[StatusWrite]) -> tuple[Action, ...]:
    """An update is on record before its first pod goes: statuses of units it begins to touch are written first."""
    world = draft.world
    touched = {name for name, moves in draft.moves.items() if moves.rolling and (moves.taking_down or moves.create)}
    for group, step in draft.group_steps.items():
        if step.take_down or step.surge:
            touched.add(names.scaling_group(world.owner.metadata.name, world.index, group))
    return tuple(write for write in statuses if write.name in touched and not _on_record(world, write))


def _on_record(world: ReplicaWorld, write: StatusWrite) -> bool:
    """Whether the update this status tells of is on record already, and open."""
    if not isinstance(write.status, PodCliqueStatus | ScalingGroupStatus):
        return True
    standing = (world.cliques if write.resource == POD_CLIQUES else world.groups).get(write.name)
    told, now = update_on_record(standing), write.status.update_progress
    if told is None or now is None or told.update_ended_at:
        return False
    return told.pod_clique_set_generation_hash == now.pod_clique_set_generation_hash


def _refusals(draft: Draft) -> list[Wait]:
    """What the scheduler has against pods that wait for a node: nothing a person could read first says more."""
    standing = ((draft.world.gangs.get(gang.name), gang.slots) for gang in draft.layout.gangs)
    found = (
        gang_status.refusal_wait(gang, [draft.views[slot.name] for slot in slots]) for gang, slots in standing if gang
    )
    return [wait for wait in found if wait]


def _notices(draft: Draft, statuses: list[StatusWrite]) -> tuple[Notice, ...]:
    refused = (
        gang_status.refusal_notice(write.name, draft.world.gang_status(write.name), write.status)
        for write in statuses
        if isinstance(write.status, PodGangStatus)
    )
    return (*draft.verdict.notices, *(notice for notice in refused if notice))
