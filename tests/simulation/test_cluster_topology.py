"""The cluster's topology follows the configuration, whatever is done to it, and tells what it cannot do."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from operator_harness import OPERATOR, definitions, operator_rules, simulated

from grove.api.kinds import CLUSTER_TOPOLOGIES
from grove.apps.engine import Engine
from grove.config import parse
from grove.controllers.cluster_topology import TopologyRefused
from grove.plan.cluster_topology import KAI_TOPOLOGIES
from grove.runtime import requests
from grove.runtime.client import Client
from grove.runtime.recorder import Recorder
from grove.testing import ApiServer, SimClock
from grove.testing.storage import Change, Table
from grove.testing.waiting import quiet

Json = dict[str, Any]

NAME = "grove-topology"
READY = "ClusterTopology configured and KAI Topology created successfully"
KAI_DEFINITION: Json = {
    "metadata": {"name": "topologies.kai.scheduler"},
    "kind": "CustomResourceDefinition",
    "spec": {
        "group": "kai.scheduler",
        "scope": "Cluster",
        "names": {"plural": "topologies", "kind": "Topology"},
        "versions": [{"name": "v1alpha1", "served": True, "storage": True}],
    },
}


def topology(*domains: str, **more: Any) -> Json:
    levels = [{"domain": domain, "key": f"example.com/{domain}"} for domain in domains]
    return {"enabled": bool(domains), "levels": levels, **more}


class Stage:
    """An API server with Grove's kinds, and one operator at a time."""

    def __init__(self, *, kai: bool = True) -> None:
        self.server = ApiServer()
        for resource in definitions():
            self.server.state.registry.add(resource)
        if kai:
            self.server.define(KAI_DEFINITION)
        self.people = Client(self.server.transport(), field_manager="kubectl")
        self._running: list[asyncio.Task[None]] = []

    async def start(self, configuration: Json, rules: Any = None) -> asyncio.Task[None]:
        """Starts the operator anew; the task ends when it gives up."""
        await self.stop()
        client = Client(self.server.transport(OPERATOR, rules=rules or operator_rules()))
        recorder = Recorder(client, controller="test", instance="test", clock=SimClock())
        engine = Engine(client, parse({"topology": configuration}), SimClock(), recorder=recorder)
        parts = (engine.watch(), recorder.run(), engine.control())
        self._running = [asyncio.ensure_future(part) for part in parts]
        return self._running[-1]

    async def stop(self) -> None:
        for task in self._running:
            task.cancel()
        await asyncio.gather(*self._running, return_exceptions=True)

    async def settle(self) -> None:
        await quiet(self.server, 5)

    def ours(self, name: str = NAME) -> Json | None:
        return self.server.object(CLUSTER_TOPOLOGIES.api_version, CLUSTER_TOPOLOGIES.kind, name)

    def kais(self, name: str = NAME) -> list[str] | None:
        found = self.server.object(KAI_TOPOLOGIES.api_version, KAI_TOPOLOGIES.kind, name)
        return [level["nodeLabel"].rpartition("/")[2] for level in found["spec"]["levels"]] if found else None

    def ready(self) -> tuple[str, str, str]:
        ours = self.ours()
        assert ours is not None
        (condition,) = ours["status"]["conditions"]
        assert condition["observedGeneration"] == ours["status"]["observedGeneration"] == ours["metadata"]["generation"]
        return condition["status"], condition["reason"], condition["message"]

    def events(self) -> list[tuple[str, str, str]]:
        found = self.server.objects("events.k8s.io/v1", "Event", "default")
        return [(e["type"], e["reason"], e["note"]) for e in found if e["regarding"]["kind"] == "ClusterTopology"]


@simulated
async def test_both_topologies_are_made_and_ready_is_not_said_before_both_are_there() -> None:
    stage = Stage()
    early: list[str] = []

    def judge(_: Table, change: Change) -> None:
        said = (change.stored.obj.get("status") or {}).get("conditions") or ()
        if any(c["status"] == "True" for c in said) and stage.kais() is None:
            early.append("Ready without the scheduler's topology")

    stage.server.storage.listeners.append(judge)
    await stage.start(topology("rack", "host"))
    await stage.settle()
    assert stage.ready() == ("True", "TopologyReady", READY)
    assert stage.kais() == ["rack", "host"]
    assert stage.events() == [("Normal", "TopologyReady", READY)]
    assert early == []
    await stage.stop()


@simulated
async def test_whatever_is_done_to_either_is_undone() -> None:
    stage = Stage()
    await stage.start(topology("rack", "host"))
    await stage.settle()
    other = [{"domain": "numa", "key": "example.com/numa"}]
    await stage.people.send(requests.merge_patch(CLUSTER_TOPOLOGIES, None, NAME, {"spec": {"levels": other}}))
    await stage.settle()
    wrong = {"spec": {"levels": [{"nodeLabel": "example.com/numa"}]}}
    await stage.people.send(requests.merge_patch(KAI_TOPOLOGIES, None, NAME, wrong))
    await stage.settle()
    assert stage.kais() == ["rack", "host"]
    await stage.people.delete(KAI_TOPOLOGIES, None, NAME)
    await stage.settle()
    await stage.people.delete(CLUSTER_TOPOLOGIES, None, NAME)
    await stage.settle()
    ours = stage.ours()
    assert ours is not None
    assert [level["domain"] for level in ours["spec"]["levels"]] == ["rack", "host"]
    assert stage.kais() == ["rack", "host"]
    assert stage.ready()[0] == "True"
    await stage.stop()


@simulated
async def test_another_configuration_changes_both_and_none_removes_both() -> None:
    stage = Stage()
    await stage.start(topology("rack", "host"))
    await stage.settle()
    await stage.start(topology("zone", "rack", "host"))
    await stage.settle()
    assert stage.kais() == ["zone", "rack", "host"]
    assert stage.ready()[0] == "True"
    await stage.start(topology("rack", "host", name="other"))
    await stage.settle()
    assert (stage.ours(), stage.kais()) == (None, None)
    assert stage.kais("other") == ["rack", "host"]
    await stage.start(topology())
    await stage.settle()
    assert (stage.ours("other"), stage.kais("other")) == (None, None)
    await stage.stop()


@simulated
async def test_an_unusual_order_is_kept_and_told() -> None:
    stage = Stage()
    await stage.start(topology("rack", "block", "host"))
    await stage.settle()
    assert stage.kais() == ["rack", "block", "host"]
    status, reason, message = stage.ready()
    assert (status, reason) == ("True", "TopologyReady")
    note = "Levels are written as rack, block, host; from wide to narrow they would be block, rack, host"
    assert message == f"{READY}. {note}"
    assert stage.events() == [("Warning", "TopologyReady", message)]
    # A restart has nothing new to say.
    await stage.start(topology("rack", "block", "host"))
    await stage.settle()
    assert len(stage.events()) == 1
    await stage.stop()


@simulated
async def test_a_missing_scheduler_is_told_and_its_arrival_noticed_at_once() -> None:
    stage = Stage(kai=False)
    await stage.start(topology("rack", "host"))
    await asyncio.sleep(600)
    failed = "Failed to create KAI Topology CR: API not available"
    assert stage.ready() == ("False", "KAITopologyCreationOrUpdateFailed", failed)
    ours = stage.ours()
    assert ours is not None
    (error,) = ours["status"]["lastErrors"]
    assert error["code"] == "KAI_TOPOLOGY_CREATE_ERROR"
    assert error["description"] == "Failed to create KAI Topology resource: API not available"
    stage.server.define(KAI_DEFINITION)
    await asyncio.sleep(2)
    assert stage.ready() == ("True", "TopologyReady", READY)
    assert {type_ for type_, *_ in stage.events()} == {"Warning", "Normal"}
    ours = stage.ours()
    assert ours is not None
    assert not ours["status"].get("lastErrors")
    await stage.stop()


def without(resource: str, *verbs: str) -> tuple[Json, ...]:
    """The operator's rights but for these verbs on one resource."""
    found = []
    for rule in operator_rules():
        if resource in rule["resources"]:
            others = [other for other in rule["resources"] if other != resource]
            found.append({**rule, "resources": others})
            rule = {**rule, "resources": [resource], "verbs": [v for v in rule["verbs"] if v not in verbs]}
        found.append(rule)
    return tuple(found)


@simulated
async def test_a_topology_that_cannot_be_written_at_the_start_ends_the_operator() -> None:
    stage = Stage()
    running = await stage.start(topology("rack", "host"), without("clustertopologies", "create", "patch"))
    with pytest.raises(ExceptionGroup) as ended:
        await running
    (reason,) = ended.value.exceptions
    assert isinstance(reason, TopologyRefused)
    assert str(reason).startswith(f"ClusterTopology {NAME} cannot be written: ")
    assert "clustertopologies" in str(reason)
    assert stage.kais() is None
    await stage.stop()


@simulated
async def test_a_topology_that_cannot_be_written_later_is_not_blamed_on_the_scheduler() -> None:
    """The operator has been started with other levels before; its rights were taken away since."""
    stage = Stage()
    await stage.start(topology("rack", "host"))
    await stage.settle()
    running = await stage.start(topology("host"), without("clustertopologies", "create", "patch"))
    with pytest.raises(ExceptionGroup):
        await running
    assert stage.ready() == ("True", "TopologyReady", READY)
    await stage.stop()
