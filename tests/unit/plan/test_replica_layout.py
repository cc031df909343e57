"""Layout: which cliques and gangs a replica consists of, and how gangs are written."""

from __future__ import annotations

from sample_sets import clique, group, pod_clique_set, running, spec

from grove.api import labels
from grove.api.cluster_topology import TopologyLevel
from grove.api.kinds import POD_CLIQUES, POD_GANGS, PODS
from grove.plan.layout import layout
from grove.plan.settings import Settings, TopologySettings

WANTED = spec(
    1,
    cliques=[clique("front", 2, minAvailable=1), clique("leader"), clique("worker", 3, minAvailable=2)],
    podCliqueScalingGroups=[group("pool", ["leader", "worker"], 3, minAvailable=2)],
)
LEVELS = (TopologyLevel(domain="zone", key="zone-key"), TopologyLevel(domain="rack", key="rack-key"))
TOPOLOGY = Settings(topology=TopologySettings(enabled=True, levels=LEVELS))


def test_replicas_below_the_minimum_are_in_the_base_gang_and_each_further_one_is_its_own() -> None:
    found = layout(pod_clique_set(WANTED), 4, {"pool": (0, 1, 2)})
    base, scaled = found.gangs
    assert [s.name for s in base.slots] == [
        "web-4-front",
        "web-4-pool-0-leader",
        "web-4-pool-0-worker",
        "web-4-pool-1-leader",
        "web-4-pool-1-worker",
    ]
    assert (base.name, base.base) == ("web-4", None)
    assert (scaled.name, scaled.base) == ("web-4-pool-2", "web-4")
    assert [s.name for s in scaled.slots] == ["web-4-pool-2-leader", "web-4-pool-2-worker"]
    assert {s.gang for s in scaled.slots} == {"web-4-pool-2"}


def test_a_gang_lists_every_pod_with_the_minimum_of_its_clique() -> None:
    model = running(WANTED)
    gangs = model.objects.of(POD_GANGS)
    assert {
        g.name: (g.min_replicas, [r.name for r in g.pod_references]) for g in gangs["web-0-pool-2"].spec.podgroups
    } == {
        "web-0-pool-2-leader": (1, ["web-0-pool-2-leader-0"]),
        "web-0-pool-2-worker": (2, [f"web-0-pool-2-worker-{i}" for i in range(3)]),
    }
    listed = [r.name for gang in gangs.values() for g in gang.spec.podgroups for r in g.pod_references]
    assert sorted(listed) == sorted(model.objects.of(PODS))


def test_cliques_of_scaled_gangs_point_at_their_base_gang() -> None:
    model = running(WANTED)
    scaled = model.objects.of(POD_CLIQUES)["web-0-pool-2-worker"].metadata.labels
    assert (scaled[labels.POD_GANG], scaled[labels.BASE_POD_GANG]) == ("web-0-pool-2", "web-0")
    base = model.objects.of(POD_CLIQUES)["web-0-pool-1-worker"].metadata.labels
    assert base[labels.POD_GANG] == "web-0"
    assert labels.BASE_POD_GANG not in base


def test_topology_groups_are_the_group_replicas_of_the_base_gang_under_names_no_pod_group_has() -> None:
    wanted = spec(
        1,
        cliques=[clique("front"), clique("leader"), clique("worker", 2)],
        podCliqueScalingGroups=[
            group("pool", ["leader", "worker"], 3, minAvailable=2, topologyConstraint={"packDomain": "rack"})
        ],
        topologyConstraint={"packDomain": "zone"},
    )
    gangs = running(wanted, TOPOLOGY).objects.of(POD_GANGS)
    base, scaled = gangs["web-0"].spec, gangs["web-0-pool-2"].spec
    configs = {g.name: g.pod_group_names for g in base.topology_constraint_group_configs}
    assert configs == {
        "web-0-pool-0": ["web-0-pool-0-leader", "web-0-pool-0-worker"],
        "web-0-pool-1": ["web-0-pool-1-leader", "web-0-pool-1-worker"],
    }
    assert configs.keys().isdisjoint(g.name for g in base.podgroups)
    assert scaled.topology_constraint_group_configs == []
    assert base.topology_constraint is not None
    assert base.topology_constraint.pack_constraint is not None
    assert base.topology_constraint.pack_constraint.required == "zone-key"
    assert scaled.topology_constraint is not None
    assert scaled.topology_constraint.pack_constraint is not None
    assert scaled.topology_constraint.pack_constraint.required == "rack-key"
