"""When a pod may be seen by the scheduler.

A scaled gang waits until the base gang of its replica has been scheduled once. Beyond that, a scheduler that holds
incomplete gangs back itself needs no gate; for one that does not, the gate stays until every pod of the gang exists.
The pod that completes such a gang is made last and needs none; once it is there the others are let go. A gang that has
been let go once stays so: a replaced pod joins the others at once.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from grove.api.reasons import Reason
from grove.plan.actions import Wait, Why
from grove.plan.gang_status import scheduled_once
from grove.plan.layout import Gang, Layout
from grove.plan.views import CliqueView
from grove.plan.worlds import ReplicaWorld
from grove.schedulers.choice import holds_incomplete_gangs, uses_workloads
from grove.schedulers.kube_workload import Refusal, workload_for


@dataclass(frozen=True, slots=True)
class Gates:
    """Gangs whose new pods are born gated, whose gated pods are let go now, and how many pods each gang misses."""

    born_gated: frozenset[str]
    released: frozenset[str]
    missing: Mapping[str, int]
    waits: tuple[Wait, ...]

    @classmethod
    def of(
        cls, world: ReplicaWorld, layout: Layout, views: Mapping[str, CliqueView], going: frozenset[str] = frozenset()
    ) -> Gates:
        """`going` are the UIDs of pods that this pass deletes: they complete no gang any more."""
        base = layout.gangs[0]
        base_views = [views[slot.name] for slot in base.slots]
        base_scheduled = scheduled_once(world.gang_status(base.name), base_views)
        gated, released, short, waits = set(), set(), {}, []
        for gang in layout.gangs:
            missing = _missing(world, gang, views, going)
            refused = refusal(world, gang)
            if gang.base and not base_scheduled:
                gated.add(gang.name)
                message = f"base gang {gang.base} has not been scheduled yet"
                waits.append(Wait(gang.name, Why(Reason.BASE_GANG_UNSCHEDULED, message)))
            elif refused:
                gated.add(gang.name)
                waits.append(Wait(gang.name, refused))
            elif missing:
                waits.append(Wait(gang.name, Why(Reason.GANG_INCOMPLETE, f"{missing} of its pods do not exist yet")))
                gated.add(gang.name)
                short[gang.name] = missing
            else:
                released.add(gang.name)
        return cls(frozenset(gated), frozenset(released), short, tuple(waits))


def refusal(world: ReplicaWorld, gang: Gang) -> Why | None:
    """Why the gang's scheduler cannot be told what the gang asks for; its pods then wait rather than run otherwise."""
    standing = world.gangs.get(gang.name)
    if standing is None or not uses_workloads(scheduler_of(world, gang), kube_gangs=world.settings.kube_gangs):
        return None
    answer = workload_for(standing)
    return Why(answer.reason, answer.message) if isinstance(answer, Refusal) else None


def scheduler_of(world: ReplicaWorld, gang: Gang) -> str:
    """The scheduler of a gang: that of its cliques, which admission keeps alike."""
    for slot in gang.slots:
        named: str = slot.template.spec.pod_spec.get("schedulerName", "")
        if named:
            return named
    return world.settings.default_scheduler


def _missing(world: ReplicaWorld, gang: Gang, views: Mapping[str, CliqueView], going: frozenset[str]) -> int:
    """How many pods must come into being before the gang may be scheduled; 0 once it has been let go."""
    if holds_incomplete_gangs(scheduler_of(world, gang), kube_gangs=world.settings.kube_gangs):
        return 0
    members = [views[slot.name] for slot in gang.slots]
    staying = [[p for p in v.live if p.uid not in going] for v in members]
    if any(not p.gated for pods in staying for p in pods):
        return 0
    return sum(max(0, v.replicas - len(pods)) for v, pods in zip(members, staying, strict=True))
