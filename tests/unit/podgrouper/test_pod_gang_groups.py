"""A PodGang becomes one PodGroup: flat without topology, a tree of at most two levels with it."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
import yaml
from grouper_objects import gang, packed, part, pod

from grove.api.pod_gang import PodGang
from grove.api.reasons import Reason
from grove.plan.actions import Why
from grove.podgrouper.gang_plan import GangWorld, plan_gang
from grove.podgrouper.inheritance import Surroundings
from grove.podgrouper.kinds import PodGroup
from grove.podgrouper.pod_gang import part_of, pod_group

CLASSES = Surroundings(frozenset({"train", "high"}))
NAMED = {"grove.io/topology-name": "grove-topology"}


def group(source: PodGang, **pod_fields: Any) -> dict[str, Any]:
    found = pod_group(source, pod(**pod_fields), CLASSES)
    assert isinstance(found, dict), found
    return found


def stored(body: dict[str, Any]) -> PodGroup:
    return msgspec.convert(body, PodGroup)


def sub_groups(source: PodGang) -> list[tuple[str, int, str, dict[str, str]]]:
    """Name, minimum, parent and constraint of each, in order."""
    return [
        (each["name"], each.get("minMember", 0), each.get("parent", ""), each.get("topologyConstraint", {}))
        for each in group(source)["spec"]["subGroups"]
    ]


def test_gang_without_topology_becomes_flat_subgroups_with_summed_minimums() -> None:
    body = group(gang(spec={"podgroups": [part("g-0-a", 2), part("g-0-b", 3)]}, labels={"team": "x"}))
    assert body["metadata"] == {
        "name": "pg-g-0-uid-g-0",
        "namespace": "ns",
        "labels": {"team": "x"},
        "annotations": {
            "kai.scheduler/top-owner-metadata": (
                "name: g-0\nuid: uid-g-0\ngroup: scheduler.grove.io\nversion: v1alpha1\nkind: PodGang\n"
            )
        },
        "ownerReferences": [
            {"apiVersion": "scheduler.grove.io/v1alpha1", "kind": "PodGang", "name": "g-0", "uid": "uid-g-0"}
        ],
    }
    assert body["spec"] == {
        "queue": "default-queue",
        "priorityClassName": "train",
        "minMember": 5,
        "subGroups": [{"name": "g-0-a", "minMember": 2}, {"name": "g-0-b", "minMember": 3}],
    }


@pytest.mark.parametrize("name", ["123", "1e3", "2024-01-01", "on", "1.5", "true", "0x1f"])
def test_owner_whose_name_looks_like_a_number_is_still_read_as_text(name: str) -> None:
    body = group(gang(name, spec={"podgroups": [part("a")]}))
    facts = yaml.safe_load(body["metadata"]["annotations"]["kai.scheduler/top-owner-metadata"])
    assert facts["name"] == name


def test_gang_priority_wins_over_labels_even_if_the_class_does_not_exist() -> None:
    source = gang(spec={"podgroups": [part("a")], "priorityClassName": "absent"}, labels={"priorityClassName": "high"})
    assert group(source)["spec"]["priorityClassName"] == "absent"


def test_queue_of_the_gang_wins_over_the_pods() -> None:
    queued = {"kai.scheduler/queue": "q1"}
    source = gang(spec={"podgroups": [part("a")]}, labels=queued)
    assert group(source, labels={"kai.scheduler/queue": "q2"})["spec"]["queue"] == "q1"
    bare = gang(spec={"podgroups": [part("a")]})
    assert group(bare, labels={"kai.scheduler/queue": "q2"})["spec"]["queue"] == "q2"


def test_queue_and_node_pool_stay_as_they_were_created() -> None:
    source = gang(
        spec={"podgroups": [part("a")]}, labels={"kai.scheduler/queue": "new", "kai.scheduler/node-pool": "p"}
    )
    old = stored({"metadata": {"name": "x", "labels": {"kai.scheduler/queue": "old"}}, "spec": {"queue": "old"}})
    body = pod_group(source, pod(), CLASSES, old)
    assert isinstance(body, dict)
    assert body["spec"]["queue"] == "old"
    assert body["metadata"]["labels"] == {"kai.scheduler/queue": "old"}


def test_three_levels_of_topology() -> None:
    source = gang(
        annotations=NAMED,
        spec={
            "podgroups": [part("g-0-sg-0-a", 1, required="host"), part("g-0-sg-0-b", 2)],
            "topologyConstraint": {"packConstraint": {"required": "zone", "preferred": "host"}},
            "topologyConstraintGroupConfigs": [packed("G-0-SG-0", ["g-0-sg-0-a", "g-0-sg-0-b"], required="rack")],
        },
    )
    body = group(source)
    assert body["spec"]["topologyConstraint"] == {
        "topology": "grove-topology",
        "requiredTopologyLevel": "zone",
        "preferredTopologyLevel": "host",
    }
    rack = {"topology": "grove-topology", "requiredTopologyLevel": "rack"}
    host = {"topology": "grove-topology", "requiredTopologyLevel": "host"}
    assert sub_groups(source) == [
        ("g-0-sg-0", 0, "", rack),
        ("g-0-sg-0-a", 1, "g-0-sg-0", host),
        ("g-0-sg-0-b", 2, "g-0-sg-0", {}),
    ]
    assert body["spec"]["minMember"] == 3


def test_leaf_beside_a_parent_gets_a_parent_of_its_own() -> None:
    source = gang(
        annotations=NAMED,
        spec={
            "podgroups": [part("front"), part("sg-0-a"), part("front-alone")],
            "topologyConstraintGroupConfigs": [packed("sg-0", ["sg-0-a"], required="rack")],
        },
    )
    found = sub_groups(source)
    assert [(name, parent) for name, _, parent, _ in found] == [
        ("front-alone-1", ""),
        ("sg-0", ""),
        ("front-alone-alone", ""),
        ("front", "front-alone-1"),
        ("sg-0-a", "sg-0"),
        ("front-alone", "front-alone-alone"),
    ]


def test_a_leaf_listed_twice_keeps_the_last_parent_and_no_parent_stays_empty() -> None:
    source = gang(
        annotations=NAMED,
        spec={
            "podgroups": [part("a")],
            "topologyConstraintGroupConfigs": [
                packed("one", ["a"], required="rack"),
                packed("two", ["a"], required="host"),
                packed("three", ["unknown"], required="host"),
            ],
        },
    )
    assert [(name, parent) for name, _, parent, _ in sub_groups(source)] == [("two", ""), ("a", "two")]


def test_preferred_is_left_out_where_it_equals_required() -> None:
    source = gang(annotations=NAMED, spec={"podgroups": [part("a", required="host", preferred="host")]})
    assert sub_groups(source)[0][3] == {"topology": "grove-topology", "requiredTopologyLevel": "host"}


def test_parent_names_fit_into_a_label_and_stay_distinct() -> None:
    long = "x" * 60
    source = gang(
        annotations=NAMED,
        spec={
            "podgroups": [part(f"{long}-a"), part(f"{long}-b"), part("c")],
            "topologyConstraintGroupConfigs": [packed("sg", ["c"], required="rack")],
        },
    )
    names = [name for name, *_ in sub_groups(source)]
    assert len(set(names)) == len(names) == 6
    assert all(len(name) <= 63 for name in names)


def test_constraint_without_a_topology_name_waits_and_says_so() -> None:
    found = pod_group(gang(spec={"podgroups": [part("a", required="rack")]}), pod(), CLASSES)
    assert isinstance(found, Why)
    assert found.reason is Reason.TOPOLOGY_UNNAMED


def test_kai_annotations_count_where_the_gang_has_no_constraint() -> None:
    notes = {"kai.scheduler/topology": "t", "kai.scheduler/topology-required-placement": "rack"}
    body = group(gang(annotations=notes, spec={"podgroups": [part("a")]}))
    assert body["spec"]["topologyConstraint"] == {"topology": "t", "requiredTopologyLevel": "rack"}


def world(source: PodGang, pods: list[Any], before: PodGroup | None = None) -> GangWorld:
    return GangWorld(source, pods[0] if pods else None, pods, before, CLASSES)


MARKED = {"annotations": {"pod-group-name": "pg-g-0-uid-g-0"}}
LABELLED = {"labels": {"kai.scheduler/subgroup-name": "a"}}
ON_KAI = {"grove.io/scheduler-name": "kai-scheduler"}


def test_nothing_is_written_at_rest() -> None:
    source = gang(spec={"podgroups": [part("a")]}, labels=ON_KAI)
    ours = stored(group(source))
    assert not plan_gang(world(source, [pod("a-0", **MARKED, **LABELLED)], ours)).acts


def test_no_group_is_made_before_the_first_pod_or_for_another_scheduler() -> None:
    spec = {"podgroups": [part("a")]}
    assert not plan_gang(world(gang(spec=spec, labels=ON_KAI), [])).acts
    other = {"grove.io/scheduler-name": "default-scheduler"}
    assert not plan_gang(world(gang(spec=spec, labels=other), [pod("a-0")])).acts


def test_group_comes_before_the_repair_of_pods() -> None:
    source = gang(spec={"podgroups": [part("a", pods=2)]}, labels=ON_KAI)
    plan = plan_gang(world(source, [pod("a-0", **MARKED, **LABELLED), pod("a-1")]))
    assert [[type(action).__name__ for action in stage] for stage in plan.stages] == [["Apply"], ["Patch"]]
    assert "a-1" in plan.stages[1][0].why.message


def test_pod_that_a_workload_groups_is_left_alone() -> None:
    source = gang(spec={"podgroups": [part("a")]}, labels=ON_KAI)
    referring = pod("a-0", spec={"workloadRef": {"name": "w", "podGroup": "g"}})
    assert len(plan_gang(world(source, [referring])).stages) == 1


def test_part_is_found_by_reference_and_else_by_clique() -> None:
    source = gang(spec={"podgroups": [part("a"), part("b")]})
    assert part_of(source, pod("b-0")) == "b"
    assert part_of(source, pod("late", labels={"grove.io/podclique": "a"})) == "a"
    assert part_of(source, pod("stranger")) == ""
