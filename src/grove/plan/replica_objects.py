"""Object writes of one replica: the missing is made, the different corrected, what is not asked for removed."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from grove.api import labels, names
from grove.api.kinds import AUTOSCALERS, POD_CLIQUES, POD_GANGS, SCALING_GROUPS, SERVICES
from grove.api.meta import ObjectMeta
from grove.api.reasons import Reason
from grove.plan import children, gangs
from grove.plan.actions import Action, Apply, Delete, Notice, Plan, Wait, Why
from grove.plan.gates import scheduler_of
from grove.plan.layout import Gang, Layout, Slot
from grove.plan.turn import Turn
from grove.plan.worlds import ReplicaSummary, ReplicaWorld
from grove.runtime.resource import Resource
from grove.schedulers.choice import uses_workloads
from grove.schedulers.kube_workload import WORKLOADS, Refusal, unexpressed, workload_for


def reconcile(
    world: ReplicaWorld, mine: Turn, layout: Layout, pod_names: Mapping[str, Sequence[str]]
) -> tuple[list[Action], list[Action], frozenset[str]]:
    """Writes that make and correct, writes that remove, and the gangs that will be stored complete after them."""
    made: list[Action] = []
    made.extend(_service(world, layout))
    made.extend(_groups(world, layout))
    for slot in layout.slots():
        made.extend(_clique(world, mine, layout, slot))
    ready: set[str] = set()
    for gang in layout.gangs:
        made.extend(_gang(world, layout, gang, pod_names))
        if gang.name in world.gangs and not foreign(world, world.gangs[gang.name].metadata):
            ready.add(gang.name)
    made.extend(_autoscalers(world, mine, layout))
    made.extend(_workloads(world, layout))
    return made, _unwanted(world, mine, layout), frozenset(ready)


def foreign(world: ReplicaWorld, meta: ObjectMeta) -> bool:
    """Whether an object of one of our names belongs to somebody else (an earlier set of this name included)."""
    controller = meta.controller
    if controller is None or controller.uid == world.owner.metadata.uid:
        return False
    return all(controller.uid != group.metadata.uid for group in world.groups.values())


def blocked(world: ReplicaWorld, layout: Layout) -> list[Wait]:
    """Names we need that are taken by objects of somebody else."""
    wanted = {
        layout.name,
        *(slot.name for slot in layout.slots()),
        *(gang.name for gang in layout.gangs),
        *(slot.group_name for slot in layout.slots() if slot.group),
    }
    seen: list[tuple[str, ObjectMeta]] = [("Service", world.service.metadata)] if world.service else []
    seen += [(POD_CLIQUES.kind, clique.metadata) for clique in world.cliques.values()]
    seen += [(SCALING_GROUPS.kind, group.metadata) for group in world.groups.values()]
    seen += [(POD_GANGS.kind, gang.metadata) for gang in world.gangs.values()]
    return [
        Wait(meta.name, Why(Reason.FOREIGN_OBJECT, f"{kind} {meta.name} belongs to {owner.kind} {owner.name}"))
        for kind, meta in seen
        if meta.name in wanted and foreign(world, meta) and (owner := meta.controller)
    ]


def _service(world: ReplicaWorld, layout: Layout) -> list[Action]:
    body = children.headless_service(world.owner, layout)
    seen = world.service
    if seen is None:
        return [_make(SERVICES, body)]
    if foreign(world, seen.metadata) or children.headless_service_in_step(seen, body):
        return []
    return [_correct(SERVICES, body)]


def _groups(world: ReplicaWorld, layout: Layout) -> list[Action]:
    found: list[Action] = []
    for group in world.owner.spec.template.pod_clique_scaling_groups:
        name = names.scaling_group(layout.set_name, layout.index, group.name)
        seen = world.groups.get(name)
        replicas = seen.spec.replicas if seen else group.initial_replicas
        body = children.scaling_group(world.owner, layout, group, replicas)
        if seen is None:
            found.append(_make(SCALING_GROUPS, body))
        elif not foreign(world, seen.metadata) and not children.scaling_group_in_step(seen, body):
            found.append(_correct(SCALING_GROUPS, body, seen.metadata))
    return found


def _clique(world: ReplicaWorld, mine: Turn, layout: Layout, slot: Slot) -> list[Action]:
    """Replicas are set once; then they belong to whoever scales, and a correction repeats what it saw, guarded."""
    group = world.groups.get(slot.group_name) if slot.group else None
    if slot.group and group is None:
        return []  # The owner comes first; its creation wakes this replica again.
    seen = world.cliques.get(slot.name)
    replicas = seen.spec.replicas if seen else slot.template.spec.replicas
    group_uid = group.metadata.uid if group else ""
    body = children.pod_clique(world.owner, layout, slot, mine.revision, group_uid, replicas)
    if seen is None:
        return [_make(POD_CLIQUES, body)]
    if seen.metadata.terminating or foreign(world, seen.metadata) or children.pod_clique_in_step(seen, body):
        return []
    return [_correct(POD_CLIQUES, body, seen.metadata)]


def _gang(world: ReplicaWorld, layout: Layout, gang: Gang, pod_names: Mapping[str, Sequence[str]]) -> list[Action]:
    seen = world.gangs.get(gang.name)
    spec = gangs.gang_spec(world.owner, gang, pod_names, world.settings, seen)
    scheduler = scheduler_of(world, gang)
    metadata = gangs.gang_metadata(world.owner, gang, layout.index, scheduler, world.settings)
    if seen is None:
        return [_make(POD_GANGS, gangs.gang_body(metadata, spec))]
    if seen.metadata.terminating or foreign(world, seen.metadata) or gangs.gang_in_step(seen, metadata, spec):
        return []
    return [_correct(POD_GANGS, gangs.gang_body(metadata, spec))]


def _workloads(world: ReplicaWorld, layout: Layout) -> list[Action]:
    """One Workload per gang, where the scheduler takes gangs as Workloads. Its groups never change: it is made anew."""
    found: list[Action] = []
    for gang in layout.gangs:
        standing = world.gangs.get(gang.name)
        if standing is None or not uses_workloads(scheduler_of(world, gang), kube_gangs=world.settings.kube_gangs):
            continue
        body = workload_for(standing)
        seen = world.workloads.get(gang.name)
        if isinstance(body, Refusal):
            continue
        if seen is None:
            found.append(_make(WORKLOADS, body))
        elif seen.spec.get("podGroups") != body["spec"]["podGroups"] and not seen.metadata.terminating:
            found.append(_remove(WORKLOADS, seen.metadata))
    return found


def left_out(world: ReplicaWorld, made: Iterable[Action]) -> list[Notice]:
    """What gangs wish and their scheduler cannot be told, for those whose Workload is made now."""
    gangs_now = [
        world.gangs[action.body["metadata"]["name"]]
        for action in made
        if isinstance(action, Apply) and action.resource is WORKLOADS
    ]
    wishes = (unexpressed(gang) for gang in gangs_now)
    return [Notice(Why(wish.reason, wish.message), warning=True) for wish in wishes if wish]


def _autoscalers(world: ReplicaWorld, mine: Turn, layout: Layout) -> list[Action]:
    found: list[Action] = []
    # A surge replica lives only as long as the update: nothing may scale it.
    for body in [] if mine.surge else children.autoscalers(world.owner, layout):
        seen = world.autoscalers.get(body["metadata"]["name"])
        if seen is None:
            found.append(_make(AUTOSCALERS, body))
        elif not foreign(world, seen.metadata) and not children.autoscaler_in_step(seen, body):
            found.append(_correct(AUTOSCALERS, body))
    return found


def _unwanted(world: ReplicaWorld, mine: Turn, layout: Layout) -> list[Action]:
    wanted_cliques = {slot.name for slot in layout.slots()}
    wanted_groups = {
        names.scaling_group(layout.set_name, layout.index, g.name)
        for g in world.owner.spec.template.pod_clique_scaling_groups
    }
    wanted_scalers = set() if mine.surge else {b["metadata"]["name"] for b in children.autoscalers(world.owner, layout)}
    wanted_gangs = {gang.name for gang in layout.gangs}
    found: list[Action] = []
    found.extend(_removals(world, AUTOSCALERS, world.autoscalers, wanted_scalers))
    found.extend(_removals(world, SCALING_GROUPS, world.groups, wanted_groups))
    found.extend(_removals(world, POD_CLIQUES, world.cliques, wanted_cliques))
    # A gang outlives its pods: what hangs on it (a compute domain, a pod group) must not go under them.
    empty = {name: g for name, g in world.gangs.items() if not _gang_has_pods(world, name)}
    found.extend(_removals(world, POD_GANGS, empty, wanted_gangs))
    return found


def _gang_has_pods(world: ReplicaWorld, gang: str) -> bool:
    """Whether pods of the gang are left. A base gang waits for its scaled gangs too: they may share what it owns."""
    marks = (pod.metadata.labels for pods in world.pods.values() for pod in pods)
    return any(gang in (found.get(labels.POD_GANG), found.get(labels.BASE_POD_GANG)) for found in marks)


def _removals(world: ReplicaWorld, resource: Resource[Any], seen: Mapping[str, Any], wanted: set[str]) -> list[Action]:
    return [
        _remove(resource, item.metadata)
        for name, item in seen.items()
        if name not in wanted and not item.metadata.terminating and not foreign(world, item.metadata)
    ]


def removal(world: ReplicaWorld) -> tuple[Plan, ReplicaSummary]:
    """Everything of a replica that is no longer asked for goes; the gangs last, when their pods are gone."""
    found: list[Action] = []
    found.extend(_removals(world, AUTOSCALERS, world.autoscalers, set()))
    found.extend(_removals(world, SCALING_GROUPS, world.groups, set()))
    found.extend(_removals(world, POD_CLIQUES, world.cliques, set()))
    if world.service and not world.service.metadata.terminating and not foreign(world, world.service.metadata):
        found.append(_remove(SERVICES, world.service.metadata))
    empty = {name: g for name, g in world.gangs.items() if not _gang_has_pods(world, name)}
    found.extend(_removals(world, POD_GANGS, empty, set()))
    pods = sum(len(p) for p in world.pods.values())
    exists = bool(world.cliques or world.groups or world.gangs or pods or world.service)
    name = names.replica(world.owner.metadata.name, world.index)
    waits = (Wait(name, Why(Reason.SCALED_IN, f"replica {world.index} is being removed, {pods} pods left")),)
    summary = ReplicaSummary(
        index=world.index,
        exists=exists,
        fresh=False,
        available=False,
        placed=False,
        at_rest=not exists,
        surge=True,
        waits=waits if exists else (),
    )
    return Plan((tuple(found),) if found else (), waits=summary.waits), summary


def _make(resource: Resource[Any], body: Mapping[str, Any]) -> Apply:
    name = body["metadata"]["name"]
    return Apply(resource, body, Why(Reason.CHILD_MISSING, f"{resource.kind} {name} does not exist"), force=False)


def _correct(resource: Resource[Any], body: Mapping[str, Any], seen: ObjectMeta | None = None) -> Apply:
    name = body["metadata"]["name"]
    why = Why(Reason.CHILD_CHANGED, f"{resource.kind} {name} differs from what is asked for")
    return Apply(resource, body, why, seen.resource_version if seen else None)


def _remove(resource: Resource[Any], meta: ObjectMeta) -> Delete:
    why = Why(Reason.CHILD_UNWANTED, f"{resource.kind} {meta.name} is no longer asked for")
    return Delete(resource, meta.namespace, meta.name, meta.uid, why)
