"""The map of domains and openings, and what-if questions about new workloads, more replicas and drained nodes."""

from __future__ import annotations

from typing import Any

import msgspec
from insight_samples import NOW, TOPOLOGY, clique, grown, nodes, occupant, pod_clique_set, snapshot

from grove.api.pod_clique_set import PodCliqueSet
from grove.insight.snapshot import Snapshot
from grove.insight.topology_map import topology_map
from grove.insight.whatif import WhatIf, whatif

RACK = {"packDomain": "rack"}


def running(count: int = 4, size: int = 8, **template: Any) -> Snapshot:
    return snapshot(grown(pod_clique_set(clique("worker", count, gpus=8), **template)), nodes(size))


def states(answer: WhatIf) -> dict[str, str]:
    return {gang.name: gang.state for gang in answer.gangs}


def scaled(owner: PodCliqueSet, replicas: int) -> PodCliqueSet:
    return msgspec.structs.replace(owner, spec=msgspec.structs.replace(owner.spec, replicas=replicas))


def test_gpus_add_up_through_the_levels() -> None:
    found = topology_map(running(3))

    (block,) = found.domains
    first, second = block.domains
    assert (block.gpus, block.used, block.free) == (64, 24, 40)
    assert (first.name, first.free, second.name, second.free) == ("rack-0", 8, "rack-1", 32)
    assert [host.name for host in first.domains] == ["node-0", "node-1", "node-2", "node-3"]


def test_openings_count_whole_gangs_not_scattered_gpus() -> None:
    scattered = [occupant(f"p{i}", f"node-{i}", 1) for i in range(4)]
    found = topology_map(
        Snapshot(now=NOW, nodes=nodes(8), pods=tuple(scattered), topologies=(TOPOLOGY,)), (), [(4, 8), (4, 7)]
    )

    assert [str(o) for o in found.openings] == [
        "racks that can still take a gang of 4 x 8: 1 of 2: rack-1",
        "racks that can still take a gang of 4 x 7: 2 of 2: rack-0, rack-1",
    ]


def test_a_gang_is_marked_where_it_sits() -> None:
    found = running(4)
    view = topology_map(found, found.gangs)

    assert view.gangs[0].spread["rack"] == {"rack-0": 4}
    assert [rack.gang_pods for rack in view.domains[0].domains] == [4, 0]


def test_nodes_without_the_label_are_shown_apart() -> None:
    bare = msgspec.convert(
        {"metadata": {"name": "bare"}, "status": {"allocatable": {"nvidia.com/gpu": "8"}}}, type(nodes(1)[0])
    )
    found = topology_map(Snapshot(now=NOW, nodes=(*nodes(1), bare), topologies=(TOPOLOGY,)))

    assert [d.name for d in found.domains] == ["(no label)", "block-0"]


def test_a_new_set_is_judged_gang_by_gang() -> None:
    owner = pod_clique_set(clique("worker", 3, gpus=8), replicas=3, topologyConstraint=RACK)
    answer = whatif(Snapshot(now=NOW, nodes=nodes(8), topologies=(TOPOLOGY,)), owner)

    assert states(answer) == {"demo-0": "fits", "demo-1": "fits", "demo-2": "does not fit"}
    assert not answer.fits
    last = answer.gangs[2]
    assert (last.placed, last.pods, last.missing) == (1, 3, "2 more pods: 16 GPUs")
    assert {gang.where for gang in answer.gangs[:2]} == {"rack-0", "rack-1"}


def test_replicas_that_run_stay_and_only_new_ones_need_room() -> None:
    found = running(4, topologyConstraint=RACK)

    assert states(whatif(found, scaled(found.sets[0], 2))) == {"demo-0": "runs", "demo-1": "fits"}
    assert states(whatif(found, scaled(found.sets[0], 3)))["demo-2"] == "does not fit"


def test_pods_that_would_ask_for_something_else_are_placed_anew() -> None:
    found = running(4, size=4)
    owner = pod_clique_set(clique("worker", 4, gpus=4))

    assert states(whatif(found, owner)) == {"demo-0": "fits"}


def test_a_drained_node_must_be_replaced_in_the_gangs_own_rack() -> None:
    found = running(3, topologyConstraint=RACK)

    spare = whatif(found, None, ["node-0"])
    full = whatif(found, None, ["node-0", "node-3"])

    assert (spare.evicted, states(spare)) == (1, {"demo-0": "fits"})
    assert spare.gangs[0].nodes == {"node-3": 1}
    assert states(full) == {"demo-0": "does not fit"}
    assert full.gangs[0].where == "rack-0"


def test_draining_an_empty_node_affects_nobody() -> None:
    answer = whatif(running(2), None, ["node-7"])

    assert answer.fits
    assert answer.gangs == ()
