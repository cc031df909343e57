"""Where KAI really puts packed gangs: domains hold on nodes, at each level, for base and scaled gangs.

Every node has room for one pod unless pods are made smaller, so a rack of three nodes takes three pods.
"""

from __future__ import annotations

from typing import Any

from scenario_objects import Json, clique, condition_of, packed, pod_clique_set
from workbench import GANGS, POD_GROUPS, SETS, Workbench

from grove.localcluster.nodes import BLOCK_LABEL, HOST_LABEL, RACK_LABEL, ZONE_LABEL


def group(name: str, *cliques: str, **more: Any) -> Json:
    return {"name": name, "cliqueNames": list(cliques), **more}


def pod_group_of(bench: Workbench, gang: str) -> Json:
    """The scheduler's own picture of a gang."""
    owned = [one for one in bench.all(POD_GROUPS) if one["metadata"]["ownerReferences"][0]["name"] == gang]
    assert len(owned) == 1
    found: Json = owned[0]["spec"]
    return found


def required(constraint: Json | None) -> str | None:
    return (constraint or {}).get("requiredTopologyLevel")


def test_each_replica_sits_in_one_rack_and_replicas_may_differ(bench: Workbench) -> None:
    bench.add_nodes(8, racks=2)
    wanted = pod_clique_set("web", clique("w", 3), replicas=2, topologyConstraint=packed("rack"))
    bench.create(bench.placed(wanted))
    bench.until_counts(total=6, running=6)
    racks = [bench.domains(bench.pods(replica=str(i))) for i in range(2)]
    assert [len(found) for found in racks] == [1, 1]
    assert racks[0] != racks[1]
    pack = bench.get(GANGS, "web-0")["spec"]["topologyConstraint"]["packConstraint"]
    assert pack == {"required": RACK_LABEL, "preferred": HOST_LABEL}
    condition = bench.condition(SETS, "web", "TopologyConstraints")
    assert (condition["status"], condition["reason"]) == ("True", "TopologyLevelsAvailable")
    sub_groups = pod_group_of(bench, "web-0")["subGroups"]
    assert all("parent" not in one for one in sub_groups)


def test_cliques_pack_on_their_own_levels(bench: Workbench) -> None:
    bench.add_nodes(8, racks=4, blocks=2)
    wanted = pod_clique_set(
        "web",
        clique("close", 2, topologyConstraint=packed("rack")),
        clique("near", 4, topologyConstraint=packed("block")),
    )
    bench.create(bench.placed(wanted))
    bench.until_counts(total=6, running=6)
    assert len(bench.domains(bench.pods(clique="web-0-close"))) == 1
    assert len(bench.domains(bench.pods(clique="web-0-near"), BLOCK_LABEL)) == 1
    assert len(bench.domains(bench.pods(clique="web-0-near"))) == 2


def test_each_group_replica_packs_and_a_free_clique_goes_where_there_is_room(bench: Workbench) -> None:
    bench.add_nodes(6, racks=2)
    wanted = pod_clique_set(
        "web",
        clique("router", 1),
        clique("w", 2),
        podCliqueScalingGroups=[
            group("sg", "w", replicas=2, minAvailable=2, topologyConstraint=packed("rack")),
        ],
    )
    bench.create(bench.placed(wanted))
    bench.until_counts(total=5, running=5)
    for j in range(2):
        assert len(bench.domains(bench.pods(clique=f"web-0-sg-{j}-w"))) == 1
    spec = pod_group_of(bench, "web-0")
    parents = [one for one in spec["subGroups"] if "minMember" not in one and required(one.get("topologyConstraint"))]
    assert {one["name"]: required(one["topologyConstraint"]) for one in parents} == {
        "web-0-sg-0": RACK_LABEL,
        "web-0-sg-1": RACK_LABEL,
    }
    assert required(spec.get("topologyConstraint")) is None


def test_clique_packed_on_a_host_shares_one_within_the_block_of_its_replica(bench: Workbench) -> None:
    bench.add_nodes(4, racks=2, blocks=2)
    wanted = pod_clique_set(
        "web", clique("w", 2, topologyConstraint=packed("host")), clique("x", 2), topologyConstraint=packed("block")
    )
    bench.create(bench.placed(wanted, cpu="2"))
    bench.until_running(4)
    assert len(bench.domains(bench.pods(clique="web-0-w"), HOST_LABEL)) == 1
    assert len(bench.domains(bench.pods(), BLOCK_LABEL)) == 1


def test_set_in_a_zone_constrains_the_gang_and_not_its_clique(bench: Workbench) -> None:
    bench.add_nodes(8, racks=2, blocks=2, zones=2)
    bench.create(bench.placed(pod_clique_set("web", clique("w", 4), topologyConstraint=packed("zone"))))
    bench.until_counts(total=4, running=4)
    assert len(bench.domains(bench.pods(), ZONE_LABEL)) == 1
    spec = pod_group_of(bench, "web-0")
    assert required(spec["topologyConstraint"]) == ZONE_LABEL
    assert [required(one.get("topologyConstraint")) for one in spec["subGroups"]] == [None]


def test_workload_without_constraints_is_scheduled_without_any_being_required(bench: Workbench) -> None:
    bench.add_nodes(4, racks=4)
    wanted = pod_clique_set(
        "web",
        clique("a", 1),
        clique("b", 1),
        clique("c", 1),
        podCliqueScalingGroups=[group("sg", "b", "c", replicas=1)],
    )
    bench.create(bench.placed(wanted))
    bench.until_counts(total=3, running=3)
    spec = pod_group_of(bench, "web-0")
    leaves = [one for one in spec["subGroups"] if "minMember" in one]
    assert len(leaves) == 3
    assert {required(one.get("topologyConstraint")) for one in (spec, *spec["subGroups"])} == {None}
    assert bench.condition(SETS, "web", "TopologyConstraints") == {}


def test_scaled_group_replicas_pack_each_in_a_rack_of_their_own(bench: Workbench) -> None:
    bench.add_nodes(6, racks=3)
    wanted = pod_clique_set(
        "web",
        clique("w", 2),
        topologyConstraint=packed("rack"),
        podCliqueScalingGroups=[
            group("sg", "w", replicas=3, minAvailable=1, topologyConstraint=packed("rack")),
        ],
    )
    bench.create(bench.placed(wanted))
    bench.until_counts(total=6, running=6)
    racks = [bench.domains(bench.pods(clique=f"web-0-sg-{j}-w")) for j in range(3)]
    assert [len(found) for found in racks] == [1, 1, 1]
    assert len(set.union(*racks)) == 3
    for gang in ("web-0", "web-0-sg-1", "web-0-sg-2"):
        assert required(pod_group_of(bench, gang)["topologyConstraint"]) == RACK_LABEL


def test_group_in_a_rack_with_a_clique_on_a_host_needs_no_constraint_of_the_set(bench: Workbench) -> None:
    bench.add_nodes(4, racks=2)
    wanted = pod_clique_set(
        "web",
        clique("w", 2, topologyConstraint=packed("host")),
        clique("x", 2),
        podCliqueScalingGroups=[group("sg", "w", "x", replicas=1, topologyConstraint=packed("rack"))],
    )
    bench.create(bench.placed(wanted, cpu="2"))
    bench.until_running(4)
    assert len(bench.domains(bench.pods())) == 1
    assert len(bench.domains(bench.pods(clique="web-0-sg-0-w"), HOST_LABEL)) == 1


def test_rack_in_block_in_zone_holds_on_nodes(bench: Workbench) -> None:
    bench.add_nodes(16, racks=8, blocks=4, zones=2)
    wanted = pod_clique_set(
        "web",
        clique("leader", 1),
        clique("worker", 2, topologyConstraint=packed("rack")),
        topologyConstraint=packed("zone"),
        podCliqueScalingGroups=[
            group("sg", "leader", "worker", replicas=2, minAvailable=2, topologyConstraint=packed("block")),
        ],
    )
    bench.create(bench.placed(wanted))
    bench.until_counts(total=6, running=6)
    assert len(bench.domains(bench.pods(), ZONE_LABEL)) == 1
    for j in range(2):
        replica = [pod for pod in bench.pods() if f"-sg-{j}-" in pod["metadata"]["name"]]
        assert len(bench.domains(replica, BLOCK_LABEL)) == 1
        assert len(bench.domains(bench.pods(clique=f"web-0-sg-{j}-worker"))) == 1


def test_gang_too_big_for_a_rack_stays_pending_as_a_whole_and_says_why(bench: Workbench) -> None:
    """Racks of the shared cluster have three nodes of eight GPUs; four pods that need a node each do not fit."""
    wanted = pod_clique_set("web", clique("w", 4), topologyConstraint=packed("rack"))
    container = wanted["spec"]["template"]["cliques"][0]["spec"]["podSpec"]["containers"][0]
    container["resources"] = {"limits": {"nvidia.com/gpu": "8"}}
    bench.create(wanted)
    bench.until_refused(total=4, running=0)
    scheduled = bench.until(
        "the gang to repeat what the scheduler says",
        lambda: told(bench.condition(GANGS, "web-0", "Scheduled"), "Unschedulable"),
    )
    ready = bench.until(
        "the set to repeat it",
        lambda: told(bench.condition(SETS, "web", "Ready"), "ReplicasUnavailable", "cannot be scheduled"),
    )
    event = bench.until("an event", lambda: bench.events("PodCliqueSet", "web", "Unschedulable"))
    for message in (scheduled, ready, event[0]):
        assert f"of 4 pods cannot be scheduled in one {RACK_LABEL}: " in message
        assert "rack-0 can allocate only 3 of 4 required pods" in message
        assert f"requirement {RACK_LABEL} couldn't be satisfied" in message
    assert not bench.scheduled()
    assert pod_group_of(bench, "web-0")["minMember"] == 4

    bench.edit("web", lambda spec: spec["template"].update(topologyConstraint=packed("block")))
    bench.until_counts(total=4, running=4)
    bench.until(
        "the gang to be told scheduled",
        lambda: condition_of(bench.get(GANGS, "web-0"), "Scheduled")["reason"] == "GangScheduled",
    )


def told(condition: Json, reason: str, part: str = "") -> str:
    message: str = condition.get("message", "")
    return message if condition.get("reason") == reason and part in message else ""


def test_preference_reaches_gang_and_scheduler(bench: Workbench) -> None:
    bench.add_nodes(3, racks=1)
    constraint = {"pack": {"preferred": "rack"}}
    bench.create(bench.placed(pod_clique_set("web", clique("w", 3), topologyConstraint=constraint)))
    bench.until_counts(total=3, running=3)
    assert bench.get(GANGS, "web-0")["spec"]["topologyConstraint"]["packConstraint"] == {"preferred": RACK_LABEL}
    assert pod_group_of(bench, "web-0")["topologyConstraint"]["preferredTopologyLevel"] == RACK_LABEL
