"""Deleting a PodCliqueSet takes everything that was made for it, and nothing that was not."""

from __future__ import annotations

from scenario_objects import Json, clique, names, pod_clique_set
from workbench import CLIQUES, GANGS, GROUPS, POD_GROUPS, PODS, SETS, Workbench

MADE = [
    CLIQUES,
    GROUPS,
    GANGS,
    POD_GROUPS,
    PODS,
    "services",
    "serviceaccounts",
    "roles",
    "rolebindings",
    "controllerrevisions",
]


def made_for(bench: Workbench, name: str) -> dict[str, list[Json]]:
    found = {kind: [one for one in bench.all(kind) if belongs_to(one, name)] for kind in MADE}
    return {kind: objects for kind, objects in found.items() if objects}


def belongs_to(document: Json, name: str) -> bool:
    return bool(document["metadata"].get("labels", {}).get("app.kubernetes.io/part-of") == name)


def test_everything_of_a_deleted_set_goes_and_its_neighbour_stays(bench: Workbench) -> None:
    bench.add_nodes(11)
    neighbour = bench.placed(pod_clique_set("workload3-neighbour", clique("a", 1)))
    bench.create(bench.workload(3))
    bench.create(neighbour)
    bench.until_counts(total=11, running=11)
    before = made_for(bench, "workload3")
    assert {kind: len(objects) for kind, objects in before.items()} == {
        CLIQUES: 5,
        GROUPS: 1,
        GANGS: 1,
        POD_GROUPS: 1,
        PODS: 10,
        "services": 1,
        "serviceaccounts": 1,
        "roles": 1,
        "rolebindings": 1,
        "controllerrevisions": 1,
    }
    kept = names(one for objects in made_for(bench, "workload3-neighbour").values() for one in objects)

    bench.delete(SETS, "workload3")
    bench.until("everything of the set to go", lambda: not made_for(bench, "workload3"))
    bench.until_counts(total=1, running=1)
    assert names(one for objects in made_for(bench, "workload3-neighbour").values() for one in objects) == kept


def test_set_that_is_created_again_under_its_name_starts_afresh(bench: Workbench) -> None:
    bench.add_nodes(4)
    wanted = bench.placed(pod_clique_set("again", clique("a", 2)))
    bench.create(wanted)
    bench.until_counts(total=2, running=2)
    first = {pod["metadata"]["uid"] for pod in bench.pods()}
    bench.delete(SETS, "again")
    bench.until("the set itself to go", lambda: not bench.all(SETS))
    bench.create(wanted)
    bench.until(
        "two new pods to run",
        lambda: len(bench.ready()) == 2 and not first & {pod["metadata"]["uid"] for pod in bench.pods()},
    )
    bench.until_settled("again")
