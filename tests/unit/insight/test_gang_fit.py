"""Fit: placements are real, refusals name the closest domain and what is missing there."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st
from insight_samples import NOW, SETTINGS, TOPOLOGY, clique, node, nodes, occupant, pod_clique_set

from grove.api.core import Node
from grove.insight import demand, resources
from grove.insight.capacity import Room, rooms
from grove.insight.demand import Part
from grove.insight.fit import Fit, Ledger, place
from grove.insight.kinds import PodDetail
from grove.insight.snapshot import Snapshot

RACK = "example.com/rack"


def world(cluster: tuple[Node, ...], *pods: PodDetail) -> list[Room]:
    return rooms(Snapshot(now=NOW, nodes=cluster, pods=pods, topologies=(TOPOLOGY,)))


def gang(*cliques: dict[str, Any], **template: Any) -> Part:
    return demand.of_set(pod_clique_set(*cliques, **template), SETTINGS)[0][1]


def asked(part: Part, found: list[Room]) -> Fit:
    return place(part, Ledger(found))


def racks(fit: Fit, found: list[Room]) -> set[str]:
    by_name = {room.name: room.labels[RACK] for room in found}
    return {by_name[name] for name in fit.used()}


def test_a_packed_gang_goes_into_one_rack() -> None:
    found = world(nodes(8))
    fit = asked(gang(clique("worker", 4, gpus=8), topologyConstraint={"packDomain": "rack"}), found)

    assert fit.fits
    assert len(racks(fit, found)) == 1


def test_the_tightest_rack_that_can_take_the_gang_is_taken() -> None:
    found = world(nodes(8), occupant("a", "node-4", 8))
    fit = asked(gang(clique("worker", 3, gpus=8), topologyConstraint={"packDomain": "rack"}), found)

    assert racks(fit, found) == {"rack-1"}


def test_a_gang_larger_than_a_rack_names_the_rack_that_comes_closest() -> None:
    taken = [occupant(f"p{i}", f"node-{i}", 8) for i in (0, 1)]
    fit = asked(gang(clique("worker", 6, gpus=8), topologyConstraint={"packDomain": "rack"}), world(nodes(8), *taken))

    short = fit.shortage
    assert short is not None
    assert (short.domain, short.placed, short.wanted) == ("rack-1", 4, 6)
    assert short.missing == {"nvidia.com/gpu": 16}


def test_only_minimums_count() -> None:
    part = gang(clique("worker", 6, gpus=8, minimum=4), topologyConstraint={"packDomain": "rack"})

    assert asked(part, world(nodes(8))).fits


def test_group_replicas_are_packed_inside_the_gangs_wider_domain() -> None:
    part = gang(
        clique("leader", 1, gpus=8),
        clique("worker", 3, gpus=8),
        topologyConstraint={"packDomain": "block"},
        podCliqueScalingGroups=[
            {
                "name": "pool",
                "cliqueNames": ["leader", "worker"],
                "replicas": 2,
                "minAvailable": 2,
                "topologyConstraint": {"packDomain": "rack"},
            }
        ],
    )
    found = world(nodes(16))
    fit = asked(part, found)

    assert fit.fits
    by_name = {room.name: room for room in found}
    assert len({by_name[n].labels["example.com/block"] for n in fit.used()}) == 1
    for index in (0, 1):
        used = {n for name, counts in fit.nodes.items() if name.startswith(f"demo-0-pool-{index}-") for n in counts}
        assert len({by_name[n].labels[RACK] for n in used}) == 1


def test_parts_of_a_gang_are_not_promised_the_same_room() -> None:
    part = gang(clique("one", 2, gpus=8), clique("two", 2, gpus=8))
    short = asked(part, world(nodes(3))).shortage

    assert short is not None
    assert (short.placed, short.wanted) == (3, 4)
    assert short.missing == {"nvidia.com/gpu": 8}


def test_taints_selectors_and_closed_nodes_keep_pods_out_and_are_named() -> None:
    taint = {"key": "special", "effect": "NoSchedule"}
    cluster = (node(0, 0, 0, taints=[taint]), node(1, 0, 0, unschedulable=True), node(2, 0, 0))
    part = gang(clique("worker", 1, gpus=8, nodeSelector={"kubernetes.io/hostname": "node-0"}))

    short = asked(part, world(cluster)).shortage

    assert short is not None
    assert short.refused == {"tainted special": 1, "cordoned": 1, "not matched by nodeSelector": 1}


def test_a_toleration_opens_a_tainted_node() -> None:
    cluster = (node(0, 0, 0, taints=[{"key": "special", "effect": "NoSchedule"}]),)
    part = gang(clique("worker", 1, gpus=8, tolerations=[{"key": "special", "operator": "Exists"}]))

    assert asked(part, world(cluster)).fits


def test_a_failed_placement_leaves_the_ledger_as_it_was() -> None:
    ledger = Ledger(world(nodes(4)))
    before = {name: dict(free) for name, free in ledger.free.items()}

    assert not place(gang(clique("worker", 9, gpus=8)), ledger).fits
    assert ledger.free == before


def test_requests_are_the_larger_of_running_and_starting_and_limits_count_as_requests() -> None:
    spec = {
        "containers": [{"resources": {"limits": {"cpu": "2"}}}, {"resources": {"requests": {"cpu": "500m"}}}],
        "initContainers": [
            {"resources": {"requests": {"cpu": "4"}}},
            {"restartPolicy": "Always", "resources": {"requests": {"cpu": "1"}}},
        ],
        "overhead": {"memory": "1Gi"},
    }

    assert resources.pod_requests(spec) == {"cpu": 4.0, "memory": 2.0**30, "pods": 1.0}


@given(
    sizes=st.lists(st.integers(1, 8), min_size=1, max_size=4),
    counts=st.lists(st.integers(1, 5), min_size=4, max_size=4),
    taken=st.lists(st.tuples(st.integers(0, 11), st.integers(1, 8)), max_size=12, unique_by=lambda pair: pair[0]),
    packed=st.sampled_from([None, "rack", "block", "host"]),
)
def test_no_node_is_overfilled_and_no_packing_broken(
    sizes: list[int], counts: list[int], taken: list[tuple[int, int]], packed: str | None
) -> None:
    cliques = [clique(f"c{i}", counts[i], gpus=size) for i, size in enumerate(sizes)]
    template = {"topologyConstraint": {"packDomain": packed}} if packed else {}
    part = gang(*cliques, **template)
    found = world(nodes(12), *(occupant(f"p{n}", f"node-{n}", g) for n, g in taken))
    ledger = Ledger(found)
    fit = place(part, ledger)

    assert all(value >= -1e-6 for free in ledger.free.values() for value in free.values())
    if fit.fits:
        assert sum(sum(c.values()) for c in fit.nodes.values()) == part.pods
        by_name = {room.name: room.labels for room in found}
        if part.key:
            assert len({by_name[n][part.key] for n in fit.used()}) == 1
    else:
        assert fit.shortage is not None
        assert fit.shortage.placed < fit.shortage.wanted
