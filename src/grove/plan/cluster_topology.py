"""The plan for the cluster's topology: one ClusterTopology from the configuration, one KAI Topology of the same name.

KAI's levels cannot be changed, so a changed list means delete and create within one reconcile. A level KAI cannot take,
or a KAI that is not there, makes the topology not ready and says why; workloads go on without being packed.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import msgspec

from grove.api import labels
from grove.api.cluster_topology import NATURAL_ORDER, ClusterTopology, ClusterTopologyStatus, TopologyLevel
from grove.api.kinds import CLUSTER_TOPOLOGIES
from grove.api.meta import Condition, LastError, Model, ObjectMeta
from grove.api.reasons import Reason
from grove.plan.actions import Action, Apply, Create, Delete, Notice, Patch, StatusWrite, Why
from grove.plan.conditions import TRUE, ConditionWriter, timestamp
from grove.plan.revision import owner_reference
from grove.plan.settings import TopologySettings
from grove.runtime.resource import Resource

READY = "Ready"
READY_MESSAGE = "ClusterTopology configured and KAI Topology created successfully"
ERROR_CODE = "KAI_TOPOLOGY_CREATE_ERROR"


class KaiLevel(Model):
    node_label: str = ""


class KaiTopologySpec(Model):
    levels: list[KaiLevel] = []


class KaiTopology(Model):
    """KAI's own topology object."""

    metadata: ObjectMeta
    spec: KaiTopologySpec = msgspec.field(default_factory=KaiTopologySpec)


KAI_TOPOLOGIES = Resource("kai.scheduler", "v1alpha1", "topologies", "Topology", KaiTopology, namespaced=False)


@dataclass(frozen=True, slots=True)
class TopologyWorld:
    """The configuration and what exists. `kai_served` tells whether the KAI API is there; `error` what it last said."""

    settings: TopologySettings
    topologies: Sequence[ClusterTopology] = ()
    kai_topologies: Sequence[KaiTopology] = ()
    kai_served: bool = True
    error: str | None = None


def actions(world: TopologyWorld) -> list[tuple[Action, ...]]:
    """The writes towards the configuration, stage by stage."""
    stages: list[tuple[Action, ...]] = []
    unwanted = _unwanted(world)
    if unwanted:
        stages.append(tuple(unwanted))
    if not world.settings.enabled:
        return stages
    mine = _mine(world)
    if mine is None or not in_place(world):
        # The KAI object belongs to this one, so it follows in the next pass, when this one has its UID.
        stages.append((_topology(world.settings, mine),))
        return stages
    stages.extend((action,) for action in _kai_actions(world, mine))
    return stages


def in_place(world: TopologyWorld) -> bool:
    """Whether the ClusterTopology is as configured; when none is, nothing is missing."""
    mine = _mine(world)
    return not world.settings.enabled or (mine is not None and mine.spec.levels == list(world.settings.levels))


def _mine(world: TopologyWorld) -> ClusterTopology | None:
    return next((t for t in world.topologies if t.metadata.name == world.settings.name), None)


def _unwanted(world: TopologyWorld) -> list[Action]:
    """Ours that the configuration no longer names. KAI objects of others are never touched."""
    keep = world.settings.name if world.settings.enabled else None
    why = Why(Reason.CHILD_UNWANTED, "the configuration does not ask for this topology")
    found: list[Action] = [
        Delete(KAI_TOPOLOGIES, "", t.metadata.name, t.metadata.uid, why)
        for t in world.kai_topologies
        if t.metadata.name != keep and _ours(t.metadata)
    ]
    found += [
        Delete(CLUSTER_TOPOLOGIES, "", t.metadata.name, t.metadata.uid, why)
        for t in world.topologies
        if t.metadata.name != keep
    ]
    return found


def _ours(meta: ObjectMeta) -> bool:
    return meta.labels.get(labels.MANAGED_BY) == labels.MANAGER


def _topology(settings: TopologySettings, seen: ClusterTopology | None) -> Action:
    levels = [{"domain": level.domain, "key": level.key} for level in settings.levels]
    text = f"ClusterTopology {settings.name} follows the configuration"
    if seen is not None:
        # Replaced as a whole: levels are merged by domain, so applying ours would leave those of others in the list.
        whole = {"op": "add", "path": "/spec/levels", "value": levels}
        return Patch(CLUSTER_TOPOLOGIES, "", settings.name, (whole,), Why(Reason.CHILD_CHANGED, text))
    body = {
        "apiVersion": CLUSTER_TOPOLOGIES.api_version,
        "kind": CLUSTER_TOPOLOGIES.kind,
        "metadata": {"name": settings.name, "labels": {labels.MANAGED_BY: labels.MANAGER}},
        "spec": {"levels": levels},
    }
    return Apply(CLUSTER_TOPOLOGIES, body, Why(Reason.CHILD_MISSING, text))


def _kai_actions(world: TopologyWorld, mine: ClusterTopology) -> list[Action]:
    if not world.kai_served:
        return []
    name = world.settings.name
    seen = _kai(world)
    if _in_step(seen, world):
        return []
    found: list[Action] = []
    if seen is not None:
        why = Why(Reason.CHILD_CHANGED, f"the levels of KAI Topology {name} cannot be changed in place")
        found.append(Delete(KAI_TOPOLOGIES, "", name, seen.metadata.uid, why))
    why = Why(Reason.CHILD_MISSING, f"KAI Topology {name} does not exist")
    found.append(Create(KAI_TOPOLOGIES, _kai_body(name, _keys(world), mine), why))
    return found


def _kai(world: TopologyWorld) -> KaiTopology | None:
    return next((t for t in world.kai_topologies if t.metadata.name == world.settings.name), None)


def _in_step(kai: KaiTopology | None, world: TopologyWorld) -> bool:
    return kai is not None and [level.node_label for level in kai.spec.levels] == _keys(world)


def _keys(world: TopologyWorld) -> list[str]:
    return [level.key for level in world.settings.levels]


def _kai_body(name: str, keys: list[str], mine: ClusterTopology) -> dict[str, Any]:
    owner = owner_reference(CLUSTER_TOPOLOGIES.api_version, CLUSTER_TOPOLOGIES.kind, name, mine.metadata.uid)
    return {
        "apiVersion": KAI_TOPOLOGIES.api_version,
        "kind": KAI_TOPOLOGIES.kind,
        "metadata": {"name": name, "labels": {labels.MANAGED_BY: labels.MANAGER}, "ownerReferences": [owner]},
        "spec": {"levels": [{"nodeLabel": key} for key in keys]},
    }


def status(world: TopologyWorld, now: datetime) -> StatusWrite | None:
    """The ClusterTopology's status, once it exists and there is a verdict: under way it says what it said before."""
    mine = _mine(world)
    problem = world.error or ("" if world.kai_served else "API not available")
    if mine is None or not world.settings.enabled or not (problem or _in_step(_kai(world), world)):
        return None
    before = mine.status or ClusterTopologyStatus()
    writer = ConditionWriter(before.conditions, mine.metadata.generation, now)
    if problem:
        writer.set(READY, False, Reason.KAI_TOPOLOGY_FAILED, f"Failed to create KAI Topology CR: {problem}")
    else:
        disorder = order_note(world.settings.levels)
        message = f"{READY_MESSAGE}. {disorder}" if disorder else READY_MESSAGE
        writer.set(READY, True, Reason.TOPOLOGY_READY, message)
    return StatusWrite(
        CLUSTER_TOPOLOGIES,
        "",
        mine.metadata.name,
        ClusterTopologyStatus(
            observed_generation=mine.metadata.generation,
            conditions=writer.result(),
            last_errors=_errors(problem, before, now),
        ),
    )


def _errors(problem: str, before: ClusterTopologyStatus, now: datetime) -> list[LastError]:
    if not problem:
        return []
    description = f"Failed to create KAI Topology resource: {problem}"
    known = next((e for e in before.last_errors if e.description == description), None)
    return [known or LastError(code=ERROR_CODE, description=description, observed_at=timestamp(now))]


def notice(before: ClusterTopology, after: ClusterTopology) -> Notice | None:
    """The event that goes with a written status, if its verdict is new. A warning, unless there is nothing to mind."""
    now, seen = _verdict(after), _verdict(before)
    if now is None or (seen and (seen.status, seen.message) == (now.status, now.message)):
        return None
    reason = Reason.TOPOLOGY_READY if now.status == TRUE else Reason.KAI_TOPOLOGY_FAILED
    return Notice(Why(reason, now.message), warning=now.message != READY_MESSAGE)


def _verdict(topology: ClusterTopology) -> Condition | None:
    conditions = topology.status.conditions if topology.status else []
    return next((condition for condition in conditions if condition.type == READY), None)


def order_note(levels: Sequence[TopologyLevel]) -> str:
    """What to tell about an order of levels that is not from wide to narrow; empty when it is."""
    ranks = [NATURAL_ORDER.index(level.domain) for level in levels]
    if ranks == sorted(ranks):
        return ""
    natural = ", ".join(domain for domain in NATURAL_ORDER if domain in {level.domain for level in levels})
    written = ", ".join(level.domain for level in levels)
    return f"Levels are written as {written}; from wide to narrow they would be {natural}"
