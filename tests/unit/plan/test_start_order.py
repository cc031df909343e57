"""Start order: which PodCliques a clique waits for, by full name, in base and scaled gangs."""

from __future__ import annotations

import pytest
from sample_sets import NOW, clique, group, pod_clique_set, running, spec

from grove.api.kinds import POD_CLIQUES, ROLE_BINDINGS, ROLES, SERVICE_ACCOUNTS
from grove.api.pod_clique_set import PodCliqueSet
from grove.insight.model import Model
from grove.plan.layout import Slot, layout
from grove.plan.start_order import parent_cliques, parents

IN_ORDER, EXPLICIT, ANY = "CliqueStartupTypeInOrder", "CliqueStartupTypeExplicit", "CliqueStartupTypeAnyOrder"


def owner(kind: str | None) -> PodCliqueSet:
    return pod_clique_set(
        spec(
            2,
            cliques=[
                clique("router", 3, minAvailable=2),
                clique("leader", 1, startsAfter=["router"]),
                clique("worker", 4, minAvailable=3, startsAfter=["leader", "router"]),
                clique("probe", 1, startsAfter=["worker"]),
            ],
            podCliqueScalingGroups=[group("pool", ["leader", "worker"], 3, minAvailable=2)],
            **({"cliqueStartupType": kind} if kind else {}),
        )
    )


def slot(found: PodCliqueSet, name: str) -> Slot:
    return next(s for s in layout(found, 1, {"pool": (0, 1, 2)}).slots() if s.name == name)


def waits_for(kind: str, name: str) -> list[tuple[str, int]]:
    found = owner(kind)
    return parents(found, 1, slot(found, name))


@pytest.mark.parametrize("kind", [ANY, None])
def test_any_order_waits_for_nothing_whatever_starts_after_says(kind: str | None) -> None:
    found = owner(kind)
    assert all(parents(found, 1, s) == [] for s in layout(found, 1, {"pool": (0, 1, 2)}).slots())


def test_in_order_waits_for_exactly_the_clique_before() -> None:
    assert waits_for(IN_ORDER, "web-1-router") == []
    assert waits_for(IN_ORDER, "web-1-pool-0-leader") == [("web-1-router", 2)]
    assert parent_cliques(owner(IN_ORDER).spec.template, "worker") == ["leader"]


def test_a_parent_in_a_group_means_all_its_replicas_in_the_base_gang() -> None:
    assert waits_for(IN_ORDER, "web-1-probe") == [("web-1-pool-0-worker", 3), ("web-1-pool-1-worker", 3)]
    assert waits_for(EXPLICIT, "web-1-pool-0-worker") == [
        ("web-1-pool-0-leader", 1),
        ("web-1-pool-1-leader", 1),
        ("web-1-router", 2),
    ]


def test_in_a_scaled_gang_only_parents_of_the_same_group_replica_count() -> None:
    assert waits_for(EXPLICIT, "web-1-pool-2-worker") == [("web-1-pool-2-leader", 1)]
    assert waits_for(EXPLICIT, "web-1-pool-2-leader") == []


def test_names_that_begin_or_end_alike_are_told_apart() -> None:
    found = pod_clique_set(
        spec(
            1,
            cliques=[clique("a"), clique("a-a"), clique("a-a-a"), clique("b-a", startsAfter=["a"])],
            podCliqueScalingGroups=[group("a-b", ["a-a"], 2, minAvailable=2), group("b", ["b-a"], 1)],
            cliqueStartupType=IN_ORDER,
        )
    )
    places = {s.name: s for s in layout(found, 0, {"a-b": (0, 1), "b": (0,)}).slots()}
    assert parents(found, 0, places["web-0-a-b-0-a-a"]) == [("web-0-a", 1)]
    assert parents(found, 0, places["web-0-a-a-a"]) == [("web-0-a-b-0-a-a", 1), ("web-0-a-b-1-a-a", 1)]
    assert parents(found, 0, places["web-0-b-0-b-a"]) == [("web-0-a-a-a", 1)]
    found.spec.template.clique_startup_type = "CliqueStartupTypeExplicit"
    assert parents(found, 0, places["web-0-b-0-b-a"]) == [("web-0-a", 1)]


def test_the_clique_and_its_pods_carry_what_they_wait_for() -> None:
    model = running(owner(EXPLICIT).spec)
    seen = model.objects.of(POD_CLIQUES)["web-0-pool-2-worker"]
    assert seen.spec.starts_after == ["web-0-pool-2-leader"]


def test_an_identity_is_made_only_when_something_waits() -> None:
    ordered, free = (Model.from_objects(owner(kind)) for kind in (EXPLICIT, ANY))
    for model in (ordered, free):
        model.settle(NOW)
    for resource in (SERVICE_ACCOUNTS, ROLES, ROLE_BINDINGS):
        assert len(ordered.objects.of(resource)) == 1
        assert not free.objects.of(resource)
