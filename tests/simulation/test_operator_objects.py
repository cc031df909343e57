"""What a PodCliqueSet becomes, to the letter, and what that costs."""

from __future__ import annotations

import asyncio
from typing import Any

from operator_harness import NAMESPACE, Json, Simulation, clique, example, gates, group, simulated, workload

from grove.api.kinds import (
    AUTOSCALERS,
    CONTROLLER_REVISIONS,
    POD_CLIQUE_SETS,
    POD_CLIQUES,
    POD_GANGS,
    ROLE_BINDINGS,
    ROLES,
    SCALING_GROUPS,
    SERVICE_ACCOUNTS,
    SERVICES,
)
from grove.runtime.resource import Resource

KAI_POD_GROUPS = "scheduling.run.ai/v2alpha2"


def disaggregated() -> Json:
    """A router that stands alone, and two replicas of a leader-worker group, one of them beyond the minimum."""
    return workload(
        "serve",
        2,
        [
            clique("router", 1, autoscaling={"maxReplicas": 4}),
            clique("leader", 1),
            clique("worker", 2, pod={"priorityClassName": "", "schedulingGates": [{"name": "example.com/hold"}]}),
        ],
        [group("pool", ["leader", "worker"], 2, 1, scaleConfig={"maxReplicas": 5})],
        cliqueStartupType="CliqueStartupTypeInOrder",
    )


@simulated
async def test_every_replica_gets_exactly_its_objects() -> None:
    sim = Simulation()
    sim.start_operator()
    await sim.people.create(disaggregated())
    await sim.settle()
    revision = next(iter(sim.objects(CONTROLLER_REVISIONS)))
    expected = {
        f"ControllerRevision/{revision}",
        "ServiceAccount/serve",
        "Role/grove.io:pcs:serve",
        "RoleBinding/grove.io:pcs:serve",
    }
    for i in (0, 1):
        expected |= {
            f"Service/serve-{i}",
            f"PodClique/serve-{i}-router",
            f"PodCliqueScalingGroup/serve-{i}-pool",
            f"PodGang/serve-{i}",
            f"PodGang/serve-{i}-pool-1",
            f"HorizontalPodAutoscaler/serve-{i}-router",
            f"HorizontalPodAutoscaler/serve-{i}-pool",
            f"Pod/serve-{i}-router-0",
        }
        for j in (0, 1):
            expected |= {f"PodClique/serve-{i}-pool-{j}-leader", f"PodClique/serve-{i}-pool-{j}-worker"}
            expected |= {f"Pod/serve-{i}-pool-{j}-leader-0"}
            expected |= {f"Pod/serve-{i}-pool-{j}-worker-{k}" for k in (0, 1)}
    assert sim.managed("serve") == expected


@simulated
async def test_owners_form_a_chain_the_garbage_collector_can_follow() -> None:
    sim = Simulation()
    sim.start_operator()
    await sim.people.create(disaggregated())
    await sim.settle()

    def owners(item: Json) -> list[tuple[str, str, bool]]:
        return [(o["kind"], o["name"], o["controller"]) for o in item["metadata"]["ownerReferences"]]

    by_set = [("PodCliqueSet", "serve", True)]
    owned: list[tuple[Resource[Any], str]] = [
        (SERVICES, "serve-0"),
        (SCALING_GROUPS, "serve-0-pool"),
        (POD_CLIQUES, "serve-0-router"),
        (POD_GANGS, "serve-0"),
        (POD_GANGS, "serve-0-pool-1"),
        (AUTOSCALERS, "serve-0-router"),
        (AUTOSCALERS, "serve-0-pool"),
        (SERVICE_ACCOUNTS, "serve"),
        (ROLES, "grove.io:pcs:serve"),
        (ROLE_BINDINGS, "grove.io:pcs:serve"),
    ]
    for resource, name in owned:
        assert owners(sim.object(resource, name)) == by_set, name
    assert owners(sim.object(POD_CLIQUES, "serve-0-pool-1-worker")) == [("PodCliqueScalingGroup", "serve-0-pool", True)]
    assert owners(sim.pods()["serve-0-pool-1-worker-1"]) == [("PodClique", "serve-0-pool-1-worker", True)]


@simulated
async def test_a_pod_knows_its_place() -> None:
    sim = Simulation()
    sim.start_operator()
    await sim.people.create(disaggregated())
    await sim.settle()
    pod = sim.pods()["serve-1-pool-1-worker-1"]
    assert pod["spec"]["hostname"] == "serve-1-pool-1-worker-1"
    assert pod["spec"]["subdomain"] == "serve-1"
    labels = pod["metadata"]["labels"]
    assert {
        "app.kubernetes.io/managed-by": "grove-operator",
        "app.kubernetes.io/part-of": "serve",
        "grove.io/podcliqueset-replica-index": "1",
        "grove.io/podclique": "serve-1-pool-1-worker",
        "grove.io/podgang": "serve-1-pool-1",
        "grove.io/base-podgang": "serve-1",
        "grove.io/podcliquescalinggroup": "serve-1-pool",
        "grove.io/podcliquescalinggroup-replica-index": "1",
        "grove.io/podclique-pod-index": "1",
    }.items() <= labels.items()
    environment = {entry["name"]: entry for entry in pod["spec"]["containers"][0]["env"]}
    assert {name: e["value"] for name, e in environment.items() if "value" in e} == {
        "GROVE_PCS_NAME": "serve",
        "GROVE_PCS_INDEX": "1",
        "GROVE_PCLQ_NAME": "serve-1-pool-1-worker",
        "GROVE_HEADLESS_SERVICE": f"serve-1.{NAMESPACE}.svc.cluster.local",
        "GROVE_PCSG_TEMPLATE_NUM_PODS": "3",
    }
    assert {name for name, e in environment.items() if "valueFrom" in e} == {
        "GROVE_PCLQ_POD_INDEX",
        "GROVE_PCSG_NAME",
        "GROVE_PCSG_INDEX",
    }
    waiting = pod["spec"]["initContainers"][-1]
    assert (waiting["name"], waiting["args"]) == ("grove-initc", ["--podcliques=serve-1-pool-1-leader:1"])
    assert pod["spec"]["serviceAccountName"] == "serve"


@simulated
async def test_only_our_own_gate_is_removed() -> None:
    sim = Simulation()
    sim.start_operator()
    await sim.people.create(disaggregated())
    await sim.settle()
    assert gates(sim.pods()["serve-0-pool-0-worker-0"]) == ["example.com/hold"]
    assert gates(sim.pods()["serve-0-router-0"]) == []


@simulated
async def test_a_scaled_gang_is_held_until_the_base_gang_was_scheduled_once() -> None:
    sim = Simulation()
    sim.start_operator()
    sim.cluster.scheduler.paused = True
    await sim.people.create(workload("w", 1, [clique("a", 1)], [group("g", ["a"], 2, 1)]))
    await sim.settle()
    assert gates(sim.pods()["w-0-g-0-a-0"]) == []
    assert gates(sim.pods()["w-0-g-1-a-0"]) == ["grove.io/podgang-pending-creation"]
    sim.cluster.scheduler.paused = False
    await sim.settle()
    assert sim.ready_pods() == {"w-0-g-0-a-0", "w-0-g-1-a-0"}


@simulated
async def test_pods_exist_gated_before_the_gang_is_let_go() -> None:
    sim = Simulation()
    seen: list[int] = []

    def watch(table: object, change: object) -> None:
        pods = sim.pods()
        if any(not gates(pod) for pod in pods.values()):
            seen.append(len(pods))

    sim.server.storage.listeners.append(watch)
    sim.start_operator()
    await sim.people.create(workload("w", 1, [clique("a", 3), clique("b", 2)]))
    await sim.settle()
    assert seen
    assert min(seen) == 5


@simulated
async def test_names_that_end_or_begin_with_each_other_are_kept_apart() -> None:
    sim = Simulation()
    sim.start_operator()
    cliques = [clique("a", 1, image="a:1"), clique("x-a", 1, image="xa:1"), clique("a-x", 1, image="ax:1")]
    await sim.people.create(workload("w", 1, cliques))
    await sim.settle()
    assert sim.images() == {"w-0-a-0": "a:1", "w-0-x-a-0": "xa:1", "w-0-a-x-0": "ax:1"}


@simulated
async def test_every_status_tells_the_same_truth_at_rest() -> None:
    sim = Simulation()
    sim.start_operator()
    await sim.people.create(workload("w", 2, [clique("a", 2), clique("b", 1)], [group("g", ["b"], 2, 1)]))
    await sim.settle()
    status = sim.status("w")
    assert (status["replicas"], status["availableReplicas"], status["updatedReplicas"]) == (2, 2, 2)
    assert [g["name"] for g in status["podGangStatuses"]] == ["w-0", "w-0-g-1", "w-1", "w-1-g-1"]
    assert {g["phase"] for g in status["podGangStatuses"]} == {"Running"}
    clique_status = sim.object(POD_CLIQUES, "w-0-a")["status"]
    counters = ("replicas", "readyReplicas", "scheduledReplicas", "updatedReplicas", "scheduleGatedReplicas")
    assert [clique_status.get(c, 0) for c in counters] == [2, 2, 2, 2, 0]
    group_status = sim.object(SCALING_GROUPS, "w-0-g")["status"]
    of_group = ("replicas", "scheduledReplicas", "availableReplicas", "updatedReplicas")
    assert [group_status[c] for c in of_group] == [2, 2, 2, 2]
    for resource in (POD_CLIQUE_SETS, POD_CLIQUES, SCALING_GROUPS, POD_GANGS):
        for name, item in sim.objects(resource).items():
            assert item["status"].get("lastErrors", []) == [], name
            for condition in item["status"]["conditions"]:
                assert condition["observedGeneration"] == item["metadata"]["generation"], (name, condition)


@simulated
async def test_the_example_workloads_become_ready_on_kai() -> None:
    for name in ("wl1", "wl2", "wl3", "wl4", "wl5", "wl6"):
        sim = Simulation(nodes=30)
        sim.start_operator()
        document = example(name)
        await sim.people.create(document)
        await sim.settle()
        assert sim.status(document["metadata"]["name"])["availableReplicas"] == document["spec"]["replicas"], name
        assert len(sim.ready_pods()) == 10, name


@simulated
async def test_a_restart_on_a_settled_cluster_writes_nothing() -> None:
    sim = Simulation()
    operator = sim.start_operator()
    await sim.people.create(disaggregated())
    await sim.settle()
    await operator.stop()
    sim.operators.clear()
    sim.server.log.clear()
    sim.start_operator()
    await asyncio.sleep(600)
    assert sim.writes() == []


@simulated
async def test_applying_the_same_manifest_again_writes_nothing() -> None:
    sim = Simulation()
    sim.start_operator()
    await sim.people.create(disaggregated())
    await sim.settle()
    sim.server.log.clear()
    await sim.people.patch(POD_CLIQUE_SETS, "serve", disaggregated())
    await sim.settle()
    assert sim.writes() == []


async def _written(scheduler: str) -> tuple[dict[str, int], int]:
    """What three replicas of two pods cost until they are ready: writes of objects by kind, and writes of statuses."""
    sim = Simulation()
    sim.start_operator()
    await sim.people.create(workload("w", 3, [clique("a", 2, scheduler=scheduler)]))
    await sim.settle()
    assert sim.status("w")["availableReplicas"] == 3
    counted = sim.write_counts()
    statuses = sum(count for what, count in counted.items() if what.endswith("/status"))
    return {what: count for what, count in counted.items() if not what.endswith("/status")}, statuses


@simulated
async def test_on_the_default_scheduler_a_replica_of_two_pods_costs_six_writes_and_its_statuses() -> None:
    """Service, clique, gang, two pods, and the one gate of the pod that was made first: 35 writes with statuses."""
    objects, statuses = await _written("default-scheduler")
    assert objects == {
        "create controllerrevisions": 1,
        "patch services": 3,
        "patch podcliques": 3,
        "patch podgangs": 3,
        "create pods": 6,
        "patch pods": 3,
    }
    assert statuses <= 17, "two for each clique and gang, and a few for the set"


@simulated
async def test_on_kai_a_replica_of_two_pods_costs_six_writes_and_its_statuses() -> None:
    """KAI holds incomplete gangs itself, so no gate is written and removed; each gang has its PodGroup instead."""
    objects, statuses = await _written("kai-scheduler")
    assert objects == {
        "create controllerrevisions": 1,
        "patch services": 3,
        "patch podcliques": 3,
        "patch podgangs": 3,
        "patch podgroups": 3,
        "create pods": 6,
    }
    assert statuses <= 17, "two for each clique and gang, and a few for the set"
