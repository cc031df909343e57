"""The pod-grouper inside the operator: gangs always, all other pods when it is told to."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
import yaml
from grouper_harness import (
    CONFIG_MAPS,
    GANGS,
    NAMESPACES,
    PRIORITY_CLASSES,
    ROOT,
    STATEFUL_SETS,
    WORKLOADS,
    Json,
    Simulation,
    clique_pod,
    manifest,
    pod_gang,
    simulated,
)
from operator_harness import OPERATOR, operator_rules

from grove.apps.engine import Engine
from grove.config import OperatorConfiguration
from grove.config.model import PodGrouper
from grove.podgrouper.kinds import FIELD_MANAGER
from grove.runtime.client import Client
from grove.testing import SimClock

DEFAULTS = "grove-pod-grouper-defaults"
HOME = "grove-system"


def bound(kind: str) -> list[Json]:
    """The rules that the option's bindings give the operator."""
    bindings = yaml.safe_load_all((ROOT / "deploy/options/embedded-pod-grouper.yaml").read_text())
    named = {(each["roleRef"]["kind"], each["roleRef"]["name"]) for each in bindings}
    return [
        rule
        for role in manifest()
        if role["kind"] == kind and (kind, role["metadata"]["name"]) in named
        for rule in role["rules"]
    ]


@asynccontextmanager
async def operator(simulation: Simulation, grouping: PodGrouper) -> AsyncIterator[None]:
    extra, local = (bound("ClusterRole"), {HOME: bound("Role")}) if grouping.enabled else ([], {})
    transport = simulation.server.transport(OPERATOR, rules=(*operator_rules(), *extra), namespaced_rules=local)
    configuration = OperatorConfiguration(pod_grouper=grouping)
    client = Client(transport, field_manager=FIELD_MANAGER)
    engine = Engine(Client(transport), configuration, SimClock(), grouper=client)
    async with asyncio.TaskGroup() as group:
        tasks = [group.create_task(engine.watch()), group.create_task(engine.control())]
        yield
        for task in tasks:
            task.cancel()


@pytest.mark.parametrize("enabled", [True, False])
@simulated
async def test_operator_groups_gangs_and_if_enabled_all_other_pods(enabled: bool) -> None:
    simulation = Simulation()
    await simulation.create(PRIORITY_CLASSES, "high", value=7)
    await simulation.create(NAMESPACES, HOME)
    types = json.dumps([{"typeName": "StatefulSet", "priorityName": "high"}])
    await simulation.create(CONFIG_MAPS, DEFAULTS, metadata={"namespace": HOME}, data={"types": types})
    grouping = PodGrouper(
        enabled=enabled,
        default_priorities_config_map_name=DEFAULTS,
        default_priorities_config_map_namespace=HOME,
    )
    async with operator(simulation, grouping):
        labels = {"grove.io/scheduler-name": "kai-scheduler"}
        gang = await simulation.create(GANGS, "g-0", metadata={"labels": labels}, spec=pod_gang(a=1))
        await clique_pod(simulation, "g-0-a", 0, managed=True)
        owner = await simulation.create(STATEFUL_SETS, "s")
        await simulation.pod("s-0", owner)
        await simulation.create(
            WORKLOADS, "w", spec={"podGroups": [{"name": "g", "policy": {"gang": {"minCount": 1}}}]}
        )
        await simulation.pod("p", ref={"name": "w", "podGroup": "g"})
        await simulation.settle()
    of_gang = {f"pg-g-0-{gang['metadata']['uid']}": "train"}
    others = {f"pg-s-{owner['metadata']['uid']}": "high", "w-g": "train"}
    found = {name: group["spec"]["priorityClassName"] for name, group in simulation.groups().items()}
    assert found == (of_gang | others if enabled else of_gang)


@simulated
async def test_operator_whose_pod_grouper_runs_elsewhere_groups_nothing() -> None:
    simulation = Simulation()
    async with operator(simulation, PodGrouper(embedded=False)):
        labels = {"grove.io/scheduler-name": "kai-scheduler"}
        await simulation.create(GANGS, "g-0", metadata={"labels": labels}, spec=pod_gang(a=1))
        await clique_pod(simulation, "g-0-a", 0, managed=True)
        await simulation.settle()
    assert simulation.groups() == {}
