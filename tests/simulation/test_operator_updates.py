"""Updates: how a changed template reaches the pods under each strategy, and how people steer it."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from operator_harness import Json, Simulation, clique, group, image_of, is_leaving, is_ready, simulated, workload

from grove.api.kinds import CONTROLLER_REVISIONS, POD_CLIQUE_SETS, POD_CLIQUES, SCALING_GROUPS
from grove.plan import pods, replica_pods
from grove.testing.kubelet import PodBehaviour


async def _running(document: Json) -> Simulation:
    sim = Simulation()
    sim.start_operator()
    await sim.people.create(document)
    await sim.settle()
    return sim


class Watcher:
    """Keeps the extremes of what was seen of some pods while an update ran."""

    def __init__(self, sim: Simulation, prefix: str = "") -> None:
        self.fewest_ready = 10**6
        self.most_live = 0
        self.order: list[str] = []
        self._sim = sim
        self._prefix = prefix
        sim.server.storage.listeners.append(self._look)

    def _look(self, table: Any, change: Any) -> None:
        if table.group_resource != ("", "pods"):
            return
        pods = {n: p for n, p in self._sim.pods().items() if n.startswith(self._prefix)}
        self.fewest_ready = min(self.fewest_ready, sum(is_ready(p) for p in pods.values()))
        self.most_live = max(self.most_live, sum(not is_leaving(p) for p in pods.values()))
        name = change.stored.obj["metadata"]["name"]
        if is_leaving(change.stored.obj) and name not in self.order:
            self.order.append(name)


def _all(sim: Simulation, image: str) -> bool:
    return set(sim.images().values()) == {image}


# RollingRecreate.


@simulated
async def test_pods_of_one_replica_after_the_other_are_replaced_one_by_one() -> None:
    sim = await _running(workload("w", 2, [clique("a", 3, 2)]))
    seen = Watcher(sim)
    await sim.people.set_image("w", "app:2")
    await sim.settle()
    assert _all(sim, "app:2")
    assert seen.order == [f"w-{i}-a-{k}" for i in (0, 1) for k in (0, 1, 2)]
    assert seen.fewest_ready == 5
    status = sim.status("w")
    assert status["updatedReplicas"] == 2
    assert status["updateProgress"]["updateEndedAt"]
    assert status["updateProgress"].get("updatingReplicas", []) == []


@simulated
async def test_a_clique_surges_and_keeps_all_its_pods_available() -> None:
    strategy = {"maxUnavailable": 0, "maxSurge": 2}
    sim = await _running(workload("w", 1, [clique("a", 3, strategy=strategy)]))
    seen = Watcher(sim)
    await sim.people.set_image("w", "app:2")
    await sim.settle()
    assert _all(sim, "app:2")
    assert set(sim.pods()) == {"w-0-a-0", "w-0-a-1", "w-0-a-2"}
    assert seen.fewest_ready == 3
    assert seen.most_live == 5


@simulated
async def test_group_replicas_are_replaced_whole() -> None:
    sim = await _running(workload("w", 1, [clique("l", 1), clique("x", 2)], [group("g", ["l", "x"], 3, 1)]))
    seen = Watcher(sim)
    await sim.people.set_image("w", "app:2", clique=1)
    await sim.settle()
    assert {n: i for n, i in sim.images().items() if "-x-" in n} == {
        f"w-0-g-{j}-x-{k}": "app:2" for j in range(3) for k in range(2)
    }
    assert seen.fewest_ready == 6
    assert [name.split("-")[3] for name in seen.order] == ["0"] * 3 + ["1"] * 3 + ["2"] * 3
    assert sim.object(SCALING_GROUPS, "w-0-g")["status"]["updatedReplicas"] == 3


@simulated
async def test_a_group_surges_in_scaled_gangs() -> None:
    strategy = {"maxUnavailable": 0, "maxSurge": 1}
    document = workload(
        "w", 1, [clique("l", 1), clique("x", 1)], [group("g", ["l", "x"], 2, 1, updateStrategy=strategy)]
    )
    sim = await _running(document)
    everything = {name for name in sim.managed("w") if not name.startswith("ControllerRevision")}
    seen = Watcher(sim)
    await sim.people.set_image("w", "app:2", clique=1)
    await sim.settle()
    assert {name for name in sim.managed("w") if not name.startswith("ControllerRevision")} == everything
    assert {i for n, i in sim.images().items() if "-x-" in n} == {"app:2"}
    assert seen.fewest_ready == 4
    assert seen.most_live == 6


@simulated
async def test_a_change_that_reaches_no_pod_rolls_nothing() -> None:
    sim = await _running(workload("w", 1, [clique("a", 2)], terminationDelay="1h"))
    before = {n: p["metadata"]["uid"] for n, p in sim.pods().items()}
    await sim.people.patch(POD_CLIQUE_SETS, "w", {"spec": {"template": {"terminationDelay": "2h"}}})
    await sim.people.set_strategy("w", type="RollingRecreate", progressDeadlineSeconds=60)
    await sim.settle()
    assert {n: p["metadata"]["uid"] for n, p in sim.pods().items()} == before
    assert "updateProgress" not in sim.status("w")
    assert len(sim.objects(CONTROLLER_REVISIONS)) == 1


@simulated
async def test_only_the_changed_clique_is_rolled() -> None:
    sim = await _running(workload("w", 2, [clique("a", 1), clique("b", 1)]))
    seen = Watcher(sim)
    await sim.people.set_image("w", "app:2", clique=1)
    await sim.settle()
    assert seen.order == ["w-0-b-0", "w-1-b-0"]


@simulated
async def test_a_stuck_update_takes_no_second_pod_and_goes_on_with_a_corrected_template() -> None:
    sim = await _running(workload("w", 2, [clique("a", 3, 2)]))
    sim.cluster.behave = lambda pod: PodBehaviour(never_ready=image_of(pod) == "bad:1")
    seen = Watcher(sim)
    await sim.people.set_image("w", "bad:1")
    await asyncio.sleep(3600)
    assert seen.order == ["w-0-a-0"]
    assert seen.fewest_ready == 5
    await sim.people.set_image("w", "app:2")
    await sim.settle()
    assert _all(sim, "app:2")
    assert sim.status("w")["availableReplicas"] == 2


@simulated
async def test_undo_brings_back_the_old_pods_by_touching_only_what_was_changed() -> None:
    sim = await _running(workload("w", 2, [clique("a", 3, 2)]))
    sim.cluster.behave = lambda pod: PodBehaviour(never_ready=image_of(pod) == "bad:1")
    await sim.people.set_image("w", "bad:1")
    await asyncio.sleep(3600)
    seen = Watcher(sim)
    await sim.people.set_image("w", "app:1")
    await sim.settle()
    assert _all(sim, "app:1")
    assert seen.order == ["w-0-a-0"]
    assert len(sim.objects(CONTROLLER_REVISIONS)) == 2
    latest = max(sim.objects(CONTROLLER_REVISIONS).values(), key=lambda r: r["revision"])
    hashed = sim.status("w")["currentGenerationHash"]
    assert latest["data"]["hash"] == hashed


@simulated
async def test_rapid_changes_end_in_the_last_one() -> None:
    sim = await _running(workload("w", 2, [clique("a", 2, 1)]))
    for version in range(2, 8):
        await sim.people.set_image("w", f"app:{version}")
        await asyncio.sleep(1.5)
    await sim.settle()
    assert _all(sim, "app:7")


@simulated
async def test_scaling_in_the_middle_of_an_update() -> None:
    sim = await _running(workload("w", 2, [clique("a", 2, 1), clique("b", 1)], [group("g", ["b"], 1, 1)]))
    await sim.people.set_image("w", "app:2")
    await sim.people.set_image("w", "app:2", clique=1)
    await sim.until(lambda: any(is_leaving(p) for p in sim.pods().values()))
    await sim.people.scale(POD_CLIQUE_SETS, "w", 3)
    await sim.people.scale(POD_CLIQUES, "w-1-a", 4)
    await sim.people.scale(SCALING_GROUPS, "w-0-g", 3)
    await sim.settle()
    assert _all(sim, "app:2")
    assert len(sim.ready_pods()) == (2 + 3) + (4 + 1) + (2 + 1)
    assert sim.status("w")["updatedReplicas"] == 3


@simulated
async def test_an_update_is_quiet_afterwards() -> None:
    sim = await _running(workload("w", 2, [clique("a", 2), clique("b", 1)], [group("g", ["b"], 2, 1)]))
    await sim.people.set_image("w", "app:2")
    await sim.people.set_image("w", "app:2", clique=1)
    await sim.settle()
    await sim.operators.pop().stop()
    sim.server.log.clear()
    sim.start_operator()
    await asyncio.sleep(600)
    assert sim.writes() == []


@pytest.mark.parametrize("kind", ["RollingRecreate", "ReplicaRecreate"])
def test_an_operator_that_renders_pods_differently_restarts_none(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """An upgrade: what the operator adds to pods has changed; it reaches new pods and restarts none."""

    async def story() -> None:
        ordered = [clique("a", 2), clique("b", 1, after=["a"])]
        more: Json = {"cliqueStartupType": "CliqueStartupTypeExplicit", "strategy": {"type": kind}}
        sim = await _running(workload("w", 2, ordered, **more))
        await sim.operators.pop().stop()
        before = {n: p["metadata"]["uid"] for n, p in sim.pods().items()}
        rendered = pods.pod
        added = {"name": "NEW_DEFAULT", "value": "1"}

        def upgraded(*args: Any, **kwargs: Any) -> Json:
            body = rendered(*args, **kwargs)
            for container in body["spec"].get("initContainers", ()):
                container["image"] = "grove:next"
            body["spec"]["containers"] = [{**c, "env": [*c["env"], added]} for c in body["spec"]["containers"]]
            return body

        monkeypatch.setattr(replica_pods, "pod", upgraded)
        sim.server.log.clear()
        sim.start_operator()
        await asyncio.sleep(600)
        assert {n: p["metadata"]["uid"] for n, p in sim.pods().items()} == before
        assert sim.writes() == []
        await sim.people.delete_pod("w-0-b-0")
        await sim.settle()
        spec = sim.pods()["w-0-b-0"]["spec"]
        assert added in spec["containers"][0]["env"]
        assert spec["initContainers"][0]["image"] == "grove:next"
        assert [n for n, p in sim.pods().items() if p["metadata"]["uid"] != before[n]] == ["w-0-b-0"]

    simulated(story)()


@simulated
async def test_termination_is_suspended_for_the_unit_being_updated() -> None:
    sim = await _running(workload("w", 2, [clique("a", 2)], terminationDelay="10m"))
    sim.cluster.behave = lambda pod: PodBehaviour(never_ready=image_of(pod) == "bad:1")
    await sim.people.set_image("w", "bad:1")
    await asyncio.sleep(300)
    before = {n: p["metadata"]["uid"] for n, p in sim.pods().items()}
    assert sim.condition(POD_CLIQUES, "w-0-a", "MinAvailableBreached")["status"] == "Unknown"
    await asyncio.sleep(3600)
    assert {n: p["metadata"]["uid"] for n, p in sim.pods().items()} == before


# ReplicaRecreate.


def _recreate(replicas: int, **budget: Any) -> Json:
    strategy = {"type": "ReplicaRecreate", "rollingUpdate": budget}
    cliques = [clique("a", 2), clique("b", 1)]
    return workload("w", replicas, cliques, [group("g", ["b"], 2, 1)], strategy=strategy)


def _versions(sim: Simulation, index: int) -> set[str]:
    return {i for n, i in sim.images().items() if n.startswith(f"w-{index}-")}


@simulated
async def test_replicas_are_recreated_whole_and_versions_never_mix() -> None:
    sim = await _running(_recreate(3))
    mixed: list[str] = []

    def watch(table: Any, change: Any) -> None:
        mixed.extend(f"w-{i}" for i in range(3) if len(_versions(sim, i)) > 1)

    sim.server.storage.listeners.append(watch)
    seen = Watcher(sim)
    await sim.people.edit(
        POD_CLIQUE_SETS,
        "w",
        *(
            {"op": "replace", "path": f"/spec/template/cliques/{c}/spec/podSpec/containers/0/image", "value": "app:2"}
            for c in (0, 1)
        ),
    )
    await sim.settle()
    assert _all(sim, "app:2")
    assert mixed == []
    assert seen.fewest_ready == 8
    assert [name[:3] for name in seen.order] == ["w-0"] * 4 + ["w-1"] * 4 + ["w-2"] * 4


@simulated
async def test_a_replica_whose_turn_has_not_come_keeps_its_version_for_pods_that_die() -> None:
    sim = await _running(_recreate(2))
    sim.cluster.behave = lambda pod: PodBehaviour(never_ready=image_of(pod) == "bad:1")
    await sim.people.set_image("w", "bad:1")
    await asyncio.sleep(600)
    await sim.people.delete_pod("w-1-a-0")
    await asyncio.sleep(600)
    assert sim.images()["w-1-a-0"] == "app:1"
    assert _versions(sim, 0) == {"bad:1", "app:1"}, "clique b did not change"
    await sim.people.set_image("w", "app:2")
    await sim.settle()
    assert {i for n, i in sim.images().items() if "-a-" in n} == {"app:2"}


@simulated
async def test_surge_replicas_come_first_and_go_last() -> None:
    sim = await _running(_recreate(2, maxUnavailable=0, maxSurge=1))
    before = {name for name in sim.managed("w") if not name.startswith("ControllerRevision")}
    seen = Watcher(sim)
    surged: list[set[str]] = []
    sim.server.storage.listeners.append(
        lambda table, change: (
            surged.append({n for n in sim.managed("w") if "/w-2" in n}) if len(surged) < 4000 else None
        )
    )
    await sim.people.set_image("w", "app:2")
    await sim.settle()
    assert {name for name in sim.managed("w") if not name.startswith("ControllerRevision")} == before
    assert {i for n, i in sim.images().items() if "-a-" in n} == {"app:2"}
    assert seen.fewest_ready >= 6, "two replicas with their minimum"
    largest = max(surged, key=len)
    assert {"Service/w-2", "PodGang/w-2", "PodCliqueScalingGroup/w-2-g", "PodClique/w-2-a"} <= largest
    assert sim.status("w")["replicas"] == 2


@simulated
async def test_a_surge_replica_gets_no_autoscaler() -> None:
    strategy = {"type": "ReplicaRecreate", "rollingUpdate": {"maxUnavailable": 0, "maxSurge": 1}}
    sim = await _running(workload("w", 1, [clique("a", 1, autoscaling={"maxReplicas": 3})], strategy=strategy))
    made: set[str] = set()
    sim.server.storage.listeners.append(lambda table, change: made.update(sim.managed("w")))
    await sim.people.set_image("w", "app:2")
    await sim.settle()
    assert "Pod/w-1-a-0" in made
    assert "HorizontalPodAutoscaler/w-1-a" not in made
