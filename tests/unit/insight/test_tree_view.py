"""The tree: what belongs where, how many are ready, which revision, which domain."""

from __future__ import annotations

import msgspec
from insight_samples import NOW, clique, grown, nodes, pod_clique_set, snapshot, with_pod

from grove.insight.progress import Phase
from grove.insight.snapshot import Snapshot
from grove.insight.tree import SetView, age, tree, trees

GROUP = {"name": "pool", "cliqueNames": ["leader", "worker"], "replicas": 2, "minAvailable": 1}


def sample(replicas: int = 1) -> Snapshot:
    owner = pod_clique_set(
        clique("router", 2, minimum=1),
        clique("leader", 1, gpus=8),
        clique("worker", 2, gpus=8),
        replicas=replicas,
        podCliqueScalingGroups=[GROUP],
    )
    return snapshot(grown(owner), nodes(16))


def of(found: Snapshot) -> SetView:
    return tree(found, found.sets[0])


def test_replicas_hold_standalone_cliques_and_groups_in_template_order() -> None:
    view = of(sample(replicas=2))

    assert [r.index for r in view.members] == [0, 1]
    first = view.members[0]
    assert [c.role for c in first.cliques] == ["router"]
    assert [g.title for g in first.groups] == ["pool"]
    assert [[c.role for c in m.cliques] for m in first.groups[0].members] == [["leader", "worker"]] * 2


def test_group_replicas_beyond_the_minimum_are_gangs_of_their_own() -> None:
    first, second = of(sample()).members[0].groups[0].members

    assert (first.gang, second.gang) == ("demo-0", "demo-0-pool-1")


def test_pods_carry_node_domains_and_revision() -> None:
    pod = of(sample()).members[0].cliques[0].pods[0]

    assert pod.name == "demo-0-router-0"
    assert pod.domains == {"block": "block-0", "rack": pod.domains["rack"], "host": pod.node}
    assert pod.revision
    assert pod.updated


def test_a_clique_is_shown_in_the_narrowest_domain_that_holds_all_its_pods() -> None:
    owner = pod_clique_set(clique("worker", 4, gpus=8))
    model = grown(owner)

    assert of(snapshot(model, nodes(8))).members[0].domain == "rack-0"
    assert of(snapshot(model, nodes(8), lambda i, pod: f"node-{2 * i}")).members[0].domain == "block-0"
    assert of(snapshot(model, nodes(8), lambda i, pod: "node-5")).members[0].domain == "node-5"


def test_a_terminating_pod_is_shown_and_counts_nowhere() -> None:
    found = with_pod(sample(), "demo-0-router-0", metadata={"deletionTimestamp": "2026-03-01T11:59:00Z"})

    router = of(found).members[0].cliques[0]

    assert [p.state for p in router.pods] == ["Terminating", "Running"]
    assert (router.existing, router.ready, router.scheduled) == (1, 1, 1)
    assert router.available


def test_a_replica_is_unavailable_when_a_standalone_clique_is_below_its_minimum() -> None:
    found = sample()
    for name in ("demo-0-router-0", "demo-0-router-1"):
        found = with_pod(found, name, status={"conditions": [{"type": "Ready", "status": "False"}]})

    assert not of(found).members[0].available


def test_after_a_new_template_all_pods_are_outdated_and_the_operator_has_not_seen_it() -> None:
    found = sample()
    owner = found.sets[0]
    document = msgspec.to_builtins(owner)
    document["metadata"]["generation"] = 2
    for one in document["spec"]["template"]["cliques"]:
        one["spec"]["podSpec"]["containers"][0]["image"] = "new"
    changed = msgspec.convert(document, type(owner))

    view = tree(found, changed)

    assert view.progress.phase is Phase.UNSEEN
    assert not any(pod.updated for pod in view.pods())


def test_at_rest_the_update_is_done_with_every_pod_counted() -> None:
    progress = of(sample()).progress

    assert progress.done
    assert (progress.updated_pods, progress.total_pods) == (8, 8)


def test_json_speaks_camel_case_and_holds_the_whole_tree() -> None:
    document = msgspec.to_builtins(trees(sample()))[0]

    assert document["progress"]["updatedPods"] == 8
    assert document["members"][0]["groups"][0]["members"][1]["cliques"][0]["pods"][0]["gang"] == "demo-0-pool-1"


def test_ages_read_as_in_kubectl() -> None:
    assert age("2026-03-01T11:59:15Z", NOW) == "45s"
    assert age("2026-03-01T11:48:00Z", NOW) == "12m"
    assert age("2026-03-01T07:00:00Z", NOW) == "5h"
    assert age("2026-02-26T12:00:00Z", NOW) == "3d"
    assert age(None, NOW) == ""
