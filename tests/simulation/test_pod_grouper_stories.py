"""The pod-grouper at work: gangs, owners, Workloads, mistakes and what becomes of them."""

from __future__ import annotations

import json

import pytest
from grouper_harness import (
    CONFIG_MAPS,
    DEPLOYMENTS,
    GANGS,
    GROUPS,
    IDENTITY,
    JOBS,
    NAMESPACE,
    NAMESPACES,
    PODS,
    PRIORITY_CLASSES,
    REPLICA_SETS,
    STATEFUL_SETS,
    WORKLOADS,
    Json,
    Simulation,
    clique_pod,
    definition,
    pod_gang,
    reference_to,
    simulated,
)

from grove.runtime import requests
from grove.runtime.resource import Resource

IGNORE = "kai.scheduler/ignore-workload-api"


def gang(minimum: int) -> Json:
    return {"gang": {"minCount": minimum}}


BASIC: Json = {"basic": {}}


async def workload(simulation: Simulation, name: str = "w", metadata: Json | None = None, **policies: Json) -> Json:
    groups = [{"name": group, "policy": policy} for group, policy in policies.items()]
    return await simulation.create(WORKLOADS, name, metadata=metadata or {}, spec={"podGroups": groups})


def ref(group: str, key: str = "", name: str = "w") -> Json:
    found = {"name": name, "podGroup": group}
    return {**found, "podGroupReplicaKey": key} if key else found


def minimums(simulation: Simulation) -> dict[str, int]:
    return {name: group["spec"]["minMember"] for name, group in simulation.groups().items()}


def owner_of(group: Json) -> tuple[str, str]:
    (owner,) = group["metadata"]["ownerReferences"]
    return owner["kind"], owner["name"]


# Gangs


@simulated
async def test_gang_gets_its_group_with_the_first_pod_and_unmarked_pods_are_repaired() -> None:
    simulation = Simulation()
    simulation.start()
    labels = {"grove.io/scheduler-name": "kai-scheduler"}
    made = await simulation.create(GANGS, "g-0", metadata={"labels": labels}, spec=pod_gang(a=1, b=2))
    await simulation.settle()
    assert simulation.groups() == {}
    for part, index in (("g-0-a", 0), ("g-0-b", 0), ("g-0-b", 1)):
        await clique_pod(simulation, part, index)
    await simulation.settle()
    name = f"pg-g-0-{made['metadata']['uid']}"
    group = simulation.groups()[name]
    assert group["spec"]["subGroups"] == [{"name": "g-0-a", "minMember": 1}, {"name": "g-0-b", "minMember": 2}]
    assert group["spec"]["minMember"] == 3
    assert simulation.marks("g-0-b-1") == (name, "g-0-b")


@simulated
async def test_group_of_a_gang_comes_back_and_follows_the_gang() -> None:
    simulation = Simulation()
    simulation.start()
    labels = {"grove.io/scheduler-name": "kai-scheduler"}
    made = await simulation.create(GANGS, "g-0", metadata={"labels": labels}, spec=pod_gang(a=1))
    await clique_pod(simulation, "g-0-a", 0)
    await simulation.settle()
    name = f"pg-g-0-{made['metadata']['uid']}"
    await simulation.delete(GROUPS, name)
    await simulation.until(lambda: name in simulation.groups())
    await simulation.patch(GROUPS, name, {"spec": {"markUnschedulable": False, "minMember": 9}})
    await simulation.patch(GANGS, "g-0", {"metadata": {"labels": {"kai.scheduler/queue": "late"}}})
    await simulation.settle()
    spec = simulation.groups()[name]["spec"]
    assert spec["minMember"] == 1
    assert spec["markUnschedulable"] is False
    assert spec["queue"] == "default-queue"


@simulated
async def test_nothing_is_written_at_rest_or_after_a_restart() -> None:
    simulation = Simulation()
    simulation.start()
    owner = await simulation.create(STATEFUL_SETS, "s")
    await simulation.pod("s-0", owner)
    await simulation.settle()
    await simulation.stop()
    simulation.server.log.clear()
    simulation.start()
    await simulation.settle()
    assert simulation.server.log.writes() == []
    await simulation.patch(PODS, "s-0", {"metadata": {"labels": {"own": "change"}}})
    await simulation.settle()
    assert len(simulation.server.log.writes()) == 1


# Owners


@simulated
async def test_pods_of_one_owner_share_a_group_that_is_written_once() -> None:
    simulation = Simulation()
    simulation.start()
    owner = await simulation.create(STATEFUL_SETS, "s", metadata={"labels": {"team": "a"}})
    for index in range(20):
        await simulation.pod(f"s-{index}", owner)
    await simulation.settle()
    (group,) = simulation.groups().values()
    assert group["metadata"]["labels"] == {"team": "a"}
    assert owner_of(group) == ("StatefulSet", "s")
    assert {simulation.marks(f"s-{index}")[0] for index in range(20)} == {group["metadata"]["name"]}
    counts = simulation.server.log.counts("system:serviceaccount:grove-system:grove-pod-grouper")
    written = {key[1:3]: number for key, number in counts.items() if key[1] in ("create", "patch", "apply")}
    assert sum(number for (_, resource), number in written.items() if resource == "podgroups") == 1
    assert sum(number for (_, resource), number in written.items() if resource == "pods") == 20


@simulated
async def test_deployment_pods_have_a_group_each_found_through_the_replica_set() -> None:
    simulation = Simulation()
    simulation.start()
    top = await simulation.create(DEPLOYMENTS, "d", metadata={"labels": {"kai.scheduler/queue": "q"}})
    middle = await simulation.create(REPLICA_SETS, "d-1", metadata={"ownerReferences": [reference_to(top)]})
    pods = [await simulation.pod(f"d-1-{index}", middle) for index in range(2)]
    await simulation.settle()
    assert set(simulation.groups()) == {f"pg-{each['metadata']['name']}-{each['metadata']['uid']}" for each in pods}
    assert {group["spec"]["queue"] for group in simulation.groups().values()} == {"q"}
    assert {owner_of(group) for group in simulation.groups().values()} == {("Pod", "d-1-0"), ("Pod", "d-1-1")}


@simulated
async def test_owner_of_a_kind_we_may_not_read_ends_the_climb() -> None:
    simulation = Simulation()
    simulation.server.define(definition("example.com", "v1", "secrets", "Hidden"))
    hidden: Resource[Json] = Resource("example.com", "v1", "secrets", "Hidden", dict)
    simulation.start()
    top = await simulation.create(hidden, "h")
    middle = await simulation.create(STATEFUL_SETS, "s", metadata={"ownerReferences": [reference_to(top)]})
    await simulation.pod("s-0", middle)
    alone = await simulation.pod("alone", top)
    await simulation.settle()
    assert simulation.marks("s-0")[0] == f"pg-s-{middle['metadata']['uid']}"
    assert simulation.marks("alone")[0] == f"pg-alone-{alone['metadata']['uid']}"


@simulated
async def test_pod_below_another_pod_is_found_to_its_top_without_a_cache_of_all_pods() -> None:
    simulation = Simulation()
    simulation.server.define(definition("leaderworkerset.x-k8s.io", "v1", "leaderworkersets", "LeaderWorkerSet"))
    sets: Resource[Json] = Resource("leaderworkerset.x-k8s.io", "v1", "leaderworkersets", "LeaderWorkerSet", dict)
    simulation.start()
    top = await simulation.create(sets, "lws", spec={"leaderWorkerTemplate": {"size": 2}})
    leaders = await simulation.create(STATEFUL_SETS, "lws", metadata={"ownerReferences": [reference_to(top)]})
    expected = {}
    for index, scheduler in (("0", "kai-scheduler"), ("1", "another")):
        labels = {"leaderworkerset.sigs.k8s.io/group-index": index}
        leader = await simulation.pod(f"lws-{index}", leaders, metadata={"labels": labels}, schedulerName=scheduler)
        workers = await simulation.create(
            STATEFUL_SETS, f"lws-{index}", metadata={"ownerReferences": [reference_to(leader)]}
        )
        await simulation.pod(f"lws-{index}-1", workers, metadata={"labels": labels})
        expected[f"lws-{index}-1"] = f"pg-lws-{top['metadata']['uid']}-group-{index}"
    await simulation.settle()
    assert {name: simulation.marks(name)[0] for name in expected} == expected
    assert minimums(simulation) == dict.fromkeys(expected.values(), 2)
    watches = [each for each in simulation.server.log.entries if (each.user, each.resource) == (IDENTITY, "pods")]
    assert sum(each.verb in ("list", "watch") for each in watches) == 1


@simulated
async def test_change_of_a_pod_that_owns_others_reaches_their_group() -> None:
    simulation = Simulation()
    simulation.start()
    spark = {"spark-app-name": "app", "spark-app-selector": "spark-1"}
    driver = await simulation.pod("driver", metadata={"labels": spark})
    await simulation.pod("executor", driver, metadata={"labels": spark})
    await simulation.settle()
    assert owner_of(simulation.groups()["spark-1"]) == ("Pod", "driver")
    await simulation.patch(PODS, "driver", {"metadata": {"labels": {"team": "a"}}})
    await simulation.until(lambda: simulation.groups()["spark-1"]["metadata"]["labels"].get("team") == "a")
    assert simulation.groups()["spark-1"]["metadata"]["annotations"].keys() == {"kai.scheduler/top-owner-metadata"}


@simulated
async def test_owner_that_was_replaced_is_not_taken_for_the_owner() -> None:
    simulation = Simulation()
    simulation.start()
    owner = await simulation.create(STATEFUL_SETS, "s")
    stale = {**owner, "metadata": {**owner["metadata"], "uid": "another"}}
    await simulation.pod("s-0", stale, metadata={"finalizers": ["test/keep"]})
    await simulation.until(lambda: "OwnerGone" in simulation.events("s-0"))
    assert simulation.groups() == {}


@simulated
async def test_change_of_an_owner_reaches_the_group_except_the_queue() -> None:
    simulation = Simulation()
    await simulation.create(PRIORITY_CLASSES, "high", value=7)
    simulation.start()
    owner = await simulation.create(STATEFUL_SETS, "s", metadata={"labels": {"kai.scheduler/queue": "first"}})
    await simulation.pod("s-0", owner)
    await simulation.settle()
    await simulation.patch(
        STATEFUL_SETS, "s", {"metadata": {"labels": {"kai.scheduler/queue": "second", "priorityClassName": "high"}}}
    )
    await simulation.settle()
    (group,) = simulation.groups().values()
    assert (group["spec"]["queue"], group["spec"]["priorityClassName"]) == ("first", "high")
    assert group["metadata"]["labels"]["kai.scheduler/queue"] == "first"


@pytest.mark.parametrize("end", ["over", "gone"])
@simulated
async def test_group_follows_its_owner_when_the_pod_that_described_it_is_over(end: str) -> None:
    simulation = Simulation()
    simulation.server.define(definition("kubeflow.org", "v1", "jaxjobs", "JAXJob"))
    jobs: Resource[Json] = Resource("kubeflow.org", "v1", "jaxjobs", "JAXJob", dict)
    simulation.start()
    owner = await simulation.create(jobs, "j", spec={"jaxReplicaSpecs": {"Worker": {"replicas": 3}}})
    for index in range(3):
        await simulation.pod(f"j-{index}", owner)
    await simulation.settle()
    name = f"pg-j-{owner['metadata']['uid']}"
    assert minimums(simulation) == {name: 3}
    if end == "gone":
        await simulation.delete(PODS, "j-0")
    else:
        over = requests.merge_patch(PODS, NAMESPACE, "j-0", {"status": {"phase": "Succeeded"}}, subresource="status")
        await simulation.person.send(over)
    await simulation.patch(jobs, "j", {"spec": {"runPolicy": {"schedulingPolicy": {"minAvailable": 2}}}})
    await simulation.until(lambda: minimums(simulation) == {name: 2})
    if end == "gone":
        await simulation.delete(PODS, "j-1")
    await simulation.delete(GROUPS, name)
    await simulation.until(lambda: minimums(simulation) == {name: 2})


@simulated
async def test_priority_counts_only_once_its_class_exists() -> None:
    simulation = Simulation()
    simulation.start()
    owner = await simulation.create(STATEFUL_SETS, "s", metadata={"labels": {"priorityClassName": "late"}})
    await simulation.pod("s-0", owner)
    await simulation.settle()
    assert [group["spec"]["priorityClassName"] for group in simulation.groups().values()] == ["train"]
    await simulation.create(PRIORITY_CLASSES, "late", value=7)
    await simulation.settle()
    assert [group["spec"]["priorityClassName"] for group in simulation.groups().values()] == ["late"]


@simulated
async def test_defaults_of_a_kind_come_from_a_config_map_and_follow_it() -> None:
    simulation = Simulation()
    await simulation.create(PRIORITY_CLASSES, "high", value=7)
    await simulation.create(NAMESPACES, "grove-system")
    types = [{"typeName": "StatefulSet", "group": "apps", "priorityName": "high", "preemptibility": "Non-Preemptible"}]
    where = {"namespace": "grove-system"}
    await simulation.create(
        CONFIG_MAPS, "grove-pod-grouper-defaults", metadata=where, data={"types": json.dumps(types)}
    )
    owner = await simulation.create(STATEFUL_SETS, "s")
    await simulation.pod("s-0", owner)
    labels = {"grove.io/scheduler-name": "kai-scheduler"}
    gang = await simulation.create(GANGS, "g-0", metadata={"labels": labels}, spec=pod_gang(a=1))
    await clique_pod(simulation, "g-0-a", 0)
    simulation.start(defaults=("grove-system", "grove-pod-grouper-defaults"))
    await simulation.settle()
    group, of_gang = f"pg-s-{owner['metadata']['uid']}", f"pg-g-0-{gang['metadata']['uid']}"

    def said(name: str = group) -> tuple[str, str | None]:
        spec = simulation.groups()[name]["spec"]
        return spec["priorityClassName"], spec.get("preemptibility")

    assert (said(), said(of_gang)) == (("high", "non-preemptible"), ("train", None))
    assert len([each for each in simulation.server.log.writes(IDENTITY) if each.resource == "podgroups"]) == 2
    for data, expected in (
        ({"types": "not json"}, ("train", None)),
        ({"types": '[{"typeName": "PodGang", "priorityName": "high"}]'}, ("train", None)),
        ({"types": '[{"typeName": "StatefulSet", "priorityName": "high"}]'}, ("high", None)),
    ):
        patch = requests.merge_patch(CONFIG_MAPS, "grove-system", "grove-pod-grouper-defaults", {"data": data})
        await simulation.person.send(patch)
        await simulation.settle()
        assert said() == expected
        assert said(of_gang) == ("high" if "PodGang" in data["types"] else "train", None)


@simulated
async def test_bare_pod_costs_two_writes_also_when_it_is_bound() -> None:
    simulation = Simulation()
    simulation.start()
    made = await simulation.pod("p", metadata={"annotations": {"note": "x"}})
    await simulation.settle()
    await simulation.annotate(PODS, "p", **{"received-resource-type": "Regular"})
    await simulation.patch(PODS, "p", {"metadata": {"labels": {"topology.kubernetes.io/zone": "zone-0"}}})
    await simulation.settle()
    assert len(simulation.server.log.writes(IDENTITY)) == 2
    group = simulation.groups()[f"pg-p-{made['metadata']['uid']}"]
    assert group["metadata"]["annotations"].keys() == {"note", "kai.scheduler/top-owner-metadata"}


@simulated
async def test_pod_with_a_hand_made_group_is_left_alone() -> None:
    simulation = Simulation()
    simulation.start()
    await simulation.pod("p", metadata={"annotations": {"pod-group-name": "mine"}})
    await simulation.settle()
    assert simulation.marks("p") == ("mine", None)
    assert simulation.groups() == {}


@simulated
async def test_pods_of_other_schedulers_are_not_touched() -> None:
    simulation = Simulation()
    simulation.start()
    await simulation.pod("p", schedulerName="default-scheduler")
    await simulation.settle()
    assert simulation.marks("p") == (None, None)


# Workloads


@simulated
async def test_seed_example_gives_exactly_its_three_groups() -> None:
    simulation = Simulation()
    simulation.start()
    await workload(simulation, "my-training", driver=gang(1), workers=gang(4))
    await simulation.pod("a", ref=ref("driver", name="my-training"))
    await simulation.pod("b", ref=ref("workers", "0", "my-training"))
    await simulation.pod("c", ref=ref("workers", "1", "my-training"))
    await simulation.settle()
    assert minimums(simulation) == {"my-training-driver": 1, "my-training-workers-0": 4, "my-training-workers-1": 4}
    assert [simulation.marks(name)[0] for name in "abc"] == [
        "my-training-driver",
        "my-training-workers-0",
        "my-training-workers-1",
    ]


@simulated
async def test_basic_policy_puts_all_replica_keys_into_one_group() -> None:
    simulation = Simulation()
    simulation.start()
    await workload(simulation, g=BASIC)
    await simulation.pod("a", ref=ref("g", "0"))
    await simulation.pod("b", ref=ref("g", "1"))
    await simulation.settle()
    assert minimums(simulation) == {"w-g": 1}


@simulated
async def test_pods_of_a_missing_workload_wait_and_go_on_within_a_second_of_its_arrival() -> None:
    simulation = Simulation()
    simulation.start()
    for index in range(5):
        await simulation.pod(f"p-{index}", ref=ref("g"), metadata={"labels": {"kai.scheduler/subgroup-name": "stale"}})
    await simulation.settle()
    assert simulation.groups() == {}
    assert simulation.marks("p-0") == (None, "stale")
    assert simulation.events("p-0") == ["WorkloadMissing"]
    await workload(simulation, g=gang(5))
    await simulation.until(
        lambda: all(simulation.marks(f"p-{index}") == ("w-g", None) for index in range(5)), within=1.0
    )


@simulated
async def test_missing_pod_group_of_a_workload_is_told_and_waits_for_a_better_workload() -> None:
    simulation = Simulation()
    simulation.start()
    await workload(simulation, other=gang(1))
    await simulation.pod("p", ref=ref("g"))
    await simulation.settle()
    assert simulation.events("p") == ["WorkloadPodGroupMissing"]
    assert simulation.groups() == {}
    await simulation.delete(WORKLOADS, "w")
    await workload(simulation, g=gang(1))
    await simulation.until(lambda: simulation.marks("p")[0] == "w-g", within=1.0)


@simulated
async def test_pod_whose_workload_is_missing_leaves_a_group_in_which_it_would_run_alone() -> None:
    simulation = Simulation()
    simulation.start()
    owner = await simulation.create(STATEFUL_SETS, "s")
    await simulation.pod("s-0", owner, ref=ref("g"), metadata={"annotations": {IGNORE: "true"}})
    await simulation.settle()
    assert simulation.marks("s-0")[0] == f"pg-s-{owner['metadata']['uid']}"
    await simulation.patch(PODS, "s-0", {"metadata": {"annotations": {IGNORE: None}}})
    await simulation.settle()
    assert simulation.marks("s-0") == (None, None)
    assert simulation.groups() == {}


@pytest.mark.parametrize("on", ["pod", "owner"])
def test_opt_out_and_back_leaves_no_orphan(on: str) -> None:
    @simulated
    async def story() -> None:
        simulation = Simulation()
        simulation.start()
        owner = await simulation.create(STATEFUL_SETS, "s")
        await workload(simulation, g=gang(2))
        for index in range(2):
            await simulation.pod(f"s-{index}", owner, ref=ref("g"))
        await simulation.settle()
        assert set(simulation.groups()) == {"w-g"}
        targets = [(STATEFUL_SETS, "s")] if on == "owner" else [(PODS, "s-0"), (PODS, "s-1")]
        for value, expected in (("true", f"pg-s-{owner['metadata']['uid']}"), (None, "w-g")):
            for resource, name in targets:
                await simulation.patch(resource, name, {"metadata": {"annotations": {IGNORE: value}}})
            await simulation.settle()
            assert set(simulation.groups()) == {expected}
            assert {simulation.marks(f"s-{index}")[0] for index in range(2)} == {expected}

    story()


@simulated
async def test_bare_pod_may_opt_out_and_back() -> None:
    simulation = Simulation()
    simulation.start()
    await workload(simulation, g=gang(1))
    pod = await simulation.pod("p", ref=ref("g"))
    await simulation.settle()
    for value, expected in (("true", f"pg-p-{pod['metadata']['uid']}"), (None, "w-g")):
        await simulation.patch(PODS, "p", {"metadata": {"annotations": {IGNORE: value}}})
        await simulation.settle()
        assert set(simulation.groups()) == {expected}
        assert simulation.marks("p")[0] == expected


@simulated
async def test_workload_made_anew_with_another_policy_moves_its_pods() -> None:
    simulation = Simulation()
    simulation.start()
    owner = await simulation.create(JOBS, "j")
    await workload(simulation, g=gang(2))
    await simulation.pod("a", owner, ref=ref("g", "0"))
    await simulation.pod("b", owner, ref=ref("g", "1"))
    await simulation.settle()
    assert minimums(simulation) == {"w-g-0": 2, "w-g-1": 2}
    await simulation.delete(WORKLOADS, "w")
    await simulation.settle()
    assert minimums(simulation) == {"w-g-0": 2, "w-g-1": 2}
    await workload(simulation, g=BASIC)
    await simulation.settle()
    assert minimums(simulation) == {"w-g": 1}
    assert {simulation.marks(name)[0] for name in "ab"} == {"w-g"}


@simulated
async def test_workload_made_anew_with_another_minimum_corrects_its_group() -> None:
    simulation = Simulation()
    simulation.start()
    owner = await simulation.create(JOBS, "j")
    await workload(simulation, g=gang(2))
    await simulation.pod("a", owner, ref=ref("g"))
    await simulation.settle()
    await simulation.delete(WORKLOADS, "w")
    again = await workload(simulation, g=gang(3))
    await simulation.settle()
    assert minimums(simulation) == {"w-g": 3}
    assert (
        again["metadata"]["uid"] in simulation.groups()["w-g"]["metadata"]["annotations"]["grove.io/workload-pod-group"]
    )


@simulated
async def test_group_of_pods_with_different_owners_belongs_to_the_workload_and_outlives_one_of_them() -> None:
    simulation = Simulation()
    simulation.start()
    await workload(simulation, g=gang(2))
    first = await simulation.create(JOBS, "one")
    second = await simulation.create(JOBS, "two")
    await simulation.pod("a", first, ref=ref("g"))
    await simulation.settle()
    assert owner_of(simulation.groups()["w-g"]) == ("Job", "one")
    await simulation.pod("b", second, ref=ref("g"))
    await simulation.settle()
    assert owner_of(simulation.groups()["w-g"]) == ("Workload", "w")
    before = simulation.groups()["w-g"]["metadata"]["uid"]
    await simulation.delete(JOBS, "one")
    await simulation.settle()
    assert simulation.groups()["w-g"]["metadata"]["uid"] == before
    simulation.server.log.clear()
    await simulation.settle()
    assert simulation.server.log.writes() == []


@simulated
async def test_name_that_means_another_group_is_refused_until_it_is_free() -> None:
    simulation = Simulation()
    simulation.start()
    await workload(simulation, "a-b", c=gang(1))
    await workload(simulation, "a", **{"b-c": gang(1)})
    await simulation.pod("first", ref=ref("c", name="a-b"))
    await simulation.settle()
    await simulation.pod("second", ref=ref("b-c", name="a"))
    await simulation.settle()
    assert simulation.marks("second") == (None, None)
    assert simulation.events("second") == ["PodGroupNameTaken"]
    await simulation.delete(PODS, "first")
    await simulation.delete(GROUPS, "a-b-c")
    await simulation.until(lambda: simulation.marks("second")[0] == "a-b-c", within=1.0)


@simulated
async def test_group_somebody_made_by_hand_is_never_taken_over() -> None:
    simulation = Simulation()
    await simulation.create(GROUPS, "w-g", spec={"minMember": 9})
    simulation.start()
    await workload(simulation, g=gang(1))
    await simulation.pod("p", ref=ref("g"))
    await simulation.settle()
    assert simulation.events("p") == ["PodGroupNameTaken"]
    assert simulation.groups()["w-g"]["spec"] == {"minMember": 9}


@simulated
async def test_namesake_in_another_namespace_is_told_and_unique_names_avoid_it() -> None:
    simulation = Simulation()
    await simulation.create(NAMESPACES, "other")
    await simulation.create(GROUPS, "w-g", metadata={"namespace": "other"}, spec={"minMember": 1})
    simulation.start()
    await workload(simulation, g=gang(1))
    await simulation.pod("p", ref=ref("g"))
    await simulation.settle()
    assert simulation.events("p") == ["PodGroupNameShared"]
    assert simulation.marks("p")[0] == "w-g"
    await simulation.stop()
    simulation.start(unique_names=True)
    await simulation.settle()
    (name,) = simulation.groups()
    assert name.startswith("w-g-")
    assert simulation.marks("p")[0] == name


@simulated
async def test_orphan_left_by_an_earlier_process_is_found_after_the_start() -> None:
    simulation = Simulation()
    simulation.start()
    owner = await simulation.create(STATEFUL_SETS, "s")
    await workload(simulation, g=gang(1))
    await simulation.pod("s-0", owner, ref=ref("g"))
    await simulation.settle()
    await simulation.stop()
    left = simulation.groups()["w-g"]
    await simulation.create(
        GROUPS,
        "w-g-old",
        metadata={key: left["metadata"][key] for key in ("annotations", "ownerReferences")},
        spec=left["spec"],
    )
    await simulation.create(GROUPS, "hand-made", spec={"minMember": 1})
    simulation.start()
    await simulation.until(lambda: "w-g-old" not in simulation.groups())
    assert set(simulation.groups()) == {"w-g", "hand-made"}


@simulated
async def test_gang_pod_with_a_workload_follows_the_workload_and_its_owner_may_opt_out() -> None:
    simulation = Simulation()
    simulation.server.define(definition("grove.io", "v1alpha1", "podcliques", "PodClique"))
    cliques: Resource[Json] = Resource("grove.io", "v1alpha1", "podcliques", "PodClique", dict)
    simulation.start()
    made = await simulation.create(GANGS, "g-0", spec=pod_gang(a=1))
    owner = await simulation.create(cliques, "g-0-a")
    await workload(simulation, g=gang(1))
    labels = {"grove.io/podgang": "g-0", "grove.io/podclique": "g-0-a", "kai.scheduler/subgroup-name": "g-0-a"}
    await simulation.pod("g-0-a-0", owner, metadata={"labels": labels}, ref=ref("g"))
    await simulation.settle()
    assert simulation.marks("g-0-a-0") == ("w-g", None)
    await simulation.patch(cliques, "g-0-a", {"metadata": {"annotations": {IGNORE: "true"}}})
    await simulation.settle()
    assert simulation.marks("g-0-a-0") == (f"pg-g-0-{made['metadata']['uid']}", "g-0-a")
    assert "w-g" not in simulation.groups()


@simulated
async def test_pods_of_a_later_kubernetes_follow_its_own_pod_groups_once_they_are_served() -> None:
    simulation = Simulation()
    simulation.start()
    made = await simulation.pod("p", schedulingGroup={"podGroupName": "n"})
    await simulation.until(lambda: simulation.marks("p")[0] == f"pg-p-{made['metadata']['uid']}")
    for plural, kind in (("podgroups", "PodGroup"), ("workloads", "Workload")):
        simulation.server.define(definition("scheduling.k8s.io", "v1alpha2", plural, kind))
    native: Resource[Json] = Resource("scheduling.k8s.io", "v1alpha2", "podgroups", "PodGroup", dict)
    templates: Resource[Json] = Resource("scheduling.k8s.io", "v1alpha2", "workloads", "Workload", dict)
    await simulation.until(lambda: "WorkloadMissing" in simulation.events("p"))
    await simulation.until(lambda: simulation.groups() == {} and simulation.marks("p") == (None, None))
    origin = {"workload": {"workloadName": "w", "podGroupTemplateName": "t"}}
    policy = {"gang": {"minCount": 2}}
    await simulation.create(native, "n", spec={"podGroupTemplateRef": origin, "schedulingPolicy": policy})
    await simulation.until(lambda: simulation.marks("p") == ("n", None), within=1.0)
    assert minimums(simulation) == {"n": 2}
    await simulation.create(templates, "w", metadata={"labels": {"kai.scheduler/preemptibility": "preemptible"}})
    await simulation.until(lambda: simulation.groups()["n"]["spec"].get("preemptibility") == "preemptible")
