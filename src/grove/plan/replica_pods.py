"""Pod writes of one replica: creations, deletions and the removal of our gate.

A gang whose scheduler would place half of it is born gated but for its last pod, which is made when all others exist
and lets them go. One plan does it in three stages, so that no look at the cluster is needed in between.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from grove.api import labels
from grove.api.kinds import PODS
from grove.api.pod_clique import PodClique
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


@dataclass(slots=True)
class PodStages:
    """Pod writes, one stage after the other: a gang is completed when its other pods exist, and let go when it is."""

    first: list[Action] = field(default_factory=list)
    completing: list[Action] = field(default_factory=list)
    released: list[Action] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class _Birth:
    """A pod to be made."""

    clique: PodClique
    index: int
    context: PodContext
    why: Why

    def create(self, *, gated: bool) -> Create:
        return Create(PODS, pod(self.clique, self.index, self.context, gated=gated), self.why)


@dataclass(frozen=True, slots=True)
class _Held:
    """A pod behind our gate, known by its own UID, or by that of its clique while it has none yet."""

    name: str
    gate_position: int | None
    known_by: str
    uid: str

    @classmethod
    def seen(cls, pod: PodView) -> _Held:
        return cls(pod.name, pod.gate_position, "/metadata/uid", pod.uid)

    @classmethod
    def made(cls, birth: Create, clique_uid: str) -> _Held:
        last = len(birth.body["spec"]["schedulingGates"]) - 1
        return cls(birth.body["metadata"]["name"], last, "/metadata/ownerReferences/0/uid", clique_uid)


def pod_actions(
    world: ReplicaWorld,
    layout: Layout,
    views: Mapping[str, CliqueView],
    moves: Mapping[str, PodMoves],
    gates: Gates,
    gangs_in_step: frozenset[str],
) -> PodStages:
    """Pod writes, in the order of the layout. Pods are made only for a gang that is stored complete."""
    found = PodStages()
    for gang in layout.gangs:
        births: list[_Birth] = []
        for slot in gang.slots:
            view, move = views[slot.name], moves[slot.name]
            going = {p.uid for p in move.delete}
            found.first.extend(_delete(layout.namespace, view, p, move) for p in move.delete)
            if gang.name in gates.released:
                held = (_Held.seen(p) for p in view.live if p.gated and p.uid not in going)
                found.first.extend(_release(layout.namespace, gang, pod) for pod in held)
            if move.create and view.clique is not None and gang.name in gangs_in_step:
                births.extend(_births(view, view.clique, move, _context(world, layout, gang, view)))
        if births and len(births) == gates.missing.get(gang.name):
            _complete(found, layout, gang, births, views)
        else:
            found.first.extend(birth.create(gated=gang.name in gates.born_gated) for birth in births)
    return found


def _complete(
    found: PodStages, layout: Layout, gang: Gang, births: Sequence[_Birth], views: Mapping[str, CliqueView]
) -> None:
    """All that is missing of a gang is made now: the last pod without a gate when the others exist, which then go."""
    *others, last = births
    held = [_Held.seen(p) for slot in gang.slots for p in views[slot.name].live if p.gated]
    for birth in others:
        action = birth.create(gated=True)
        found.first.append(action)
        held.append(_Held.made(action, birth.clique.metadata.uid))
    found.completing.append(last.create(gated=False))
    found.released.extend(_release(layout.namespace, gang, pod) for pod in held)


def _births(view: CliqueView, clique: PodClique, move: PodMoves, context: PodContext) -> list[_Birth]:
    # The clique must carry the template the pods are to have; it is corrected in this pass and used in the next.
    if clique.metadata.labels.get(labels.POD_TEMPLATE_HASH) != view.target_hash:
        return []
    why = Why(Reason.POD_MISSING, f"{len(view.live)} of {view.replicas} pods of {view.slot.name} exist")
    return [_Birth(clique, i, context, why) for i in move.create]


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


def _release(namespace: str, gang: Gang, held: _Held) -> Patch:
    """Of this very pod: one that has taken its name meanwhile, perhaps in a gang that is not complete, stays held."""
    path = f"/spec/schedulingGates/{held.gate_position}"
    operations = (
        {"op": "test", "path": held.known_by, "value": held.uid},
        {"op": "test", "path": f"{path}/name", "value": labels.GATE},
        {"op": "remove", "path": path},
    )
    return Patch(PODS, namespace, held.name, operations, Why(Reason.GANG_COMPLETE, f"gang {gang.name} is complete"))
