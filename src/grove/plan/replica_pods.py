"""Pod writes of one replica: creations, deletions and the removal of our gate."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from grove.api import labels
from grove.api.kinds import PODS
from grove.api.reasons import Reason
from grove.plan.actions import Action, Create, Delete, Patch, Why
from grove.plan.gates import Gates, scheduler_of
from grove.plan.layout import Gang, Layout
from grove.plan.pods import PodContext, pod
from grove.plan.start_order import parents
from grove.plan.views import CliqueView, PodView
from grove.plan.worlds import ReplicaWorld
from grove.schedulers.choice import pod_marks


@dataclass(frozen=True, slots=True)
class PodMoves:
    """What happens to the pods of one clique now. `blocked` cliques get no pod in this pass."""

    delete: tuple[PodView, ...] = ()
    create: tuple[int, ...] = ()
    taking_down: tuple[str, ...] = ()
    rolling: bool = False
    blocked: bool = False


def pod_actions(
    world: ReplicaWorld,
    layout: Layout,
    views: Mapping[str, CliqueView],
    moves: Mapping[str, PodMoves],
    gates: Gates,
    gangs_in_step: frozenset[str],
) -> list[Action]:
    """Pod writes, in the order of the layout. Pods are made only for a gang that is stored complete."""
    found: list[Action] = []
    for gang in layout.gangs:
        made: list[Action] = []
        for slot in gang.slots:
            view, move = views[slot.name], moves[slot.name]
            found.extend(_delete(layout.namespace, view, p, move) for p in move.delete)
            if gang.name in gates.released:
                going = {p.uid for p in move.delete}
                found.extend(_release(layout.namespace, gang, p) for p in view.live if p.gated and p.uid not in going)
            if move.create and view.clique is not None and gang.name in gangs_in_step:
                context = _context(world, layout, gang, view)
                made.extend(_creations(view, move, context, gated=gang.name in gates.born_gated))
        # The pod that completes a gang is made when all others exist, and without a gate.
        found.extend(made[:-1] if gang.name in gates.incomplete else made)
    return found


def _creations(view: CliqueView, move: PodMoves, context: PodContext, *, gated: bool) -> list[Action]:
    if view.clique is None:
        return []
    # The clique must carry the template the pods are to have; it is corrected in this pass and used in the next.
    if view.clique.metadata.labels.get(labels.POD_TEMPLATE_HASH) != view.target_hash:
        return []
    why = Why(Reason.POD_MISSING, f"{len(view.live)} of {view.replicas} pods of {view.slot.name} exist")
    return [Create(PODS, pod(view.clique, i, context, gated=gated), why) for i in move.create]


def _context(world: ReplicaWorld, layout: Layout, gang: Gang, view: CliqueView) -> PodContext:
    template, slot = world.owner.spec.template, view.slot
    scheduler = scheduler_of(world, gang)
    standing = world.gangs.get(gang.name)
    uid = standing.metadata.uid if standing else ""
    group_pods = sum(c.spec.replicas for c in template.members(slot.group)) if slot.group else None
    return PodContext(
        set_name=layout.set_name,
        set_index=layout.index,
        priority_class_name=_priority(world, view),
        scheduler=scheduler,
        marks=pod_marks(scheduler, gang.name, uid, slot.name, kube_gangs=world.settings.kube_gangs),
        parents=parents(world.owner, layout.index, slot),
        group_pods=group_pods,
        settings=world.settings,
    )


def _priority(world: ReplicaWorld, view: CliqueView) -> str:
    """The priority that belongs to the template the pods are made from, which need not be the latest."""
    templates = (revision.template(view.slot.template.name) for revision in reversed(world.history))
    return next((t.priority_class_name for t in templates if t and t.hash == view.target_hash), "")


def _delete(namespace: str, view: CliqueView, victim: PodView, move: PodMoves) -> Delete:
    if victim.failed:
        why = Why(Reason.POD_MISSING, f"{victim.name} has failed and is replaced")
    elif move.blocked or victim.name in move.taking_down:
        why = Why(Reason.TEMPLATE_CHANGED, f"{victim.name} is replaced")
    else:
        why = Why(Reason.SCALED_IN, f"{view.replicas} pods of {view.slot.name} are asked for")
    return Delete(PODS, namespace, victim.name, victim.uid, why)


def _release(namespace: str, gang: Gang, gated: PodView) -> Patch:
    """Of this very pod: one that has taken its name meanwhile, perhaps in a gang that is not complete, stays held."""
    path = f"/spec/schedulingGates/{gated.gate_position}"
    operations = (
        {"op": "test", "path": "/metadata/uid", "value": gated.uid},
        {"op": "test", "path": f"{path}/name", "value": labels.GATE},
        {"op": "remove", "path": path},
    )
    return Patch(PODS, namespace, gated.name, operations, Why(Reason.GANG_COMPLETE, f"gang {gang.name} is complete"))
