"""OnDelete: the operator takes nothing down; whatever goes comes back with the latest template."""

from __future__ import annotations

import pytest
from scenario_objects import Json, clique, image_of, names, node_of, pod_clique_set, uids
from workbench import CLIQUES, GROUPS, PODS, SETS, Workbench

OLD, NEW = "example/main:1", "example/main:2"
ON_DELETE = {"type": "OnDelete"}


@pytest.fixture
def web(bench: Workbench) -> Workbench:
    """`a` of two pods, and a group of two replicas with one pod of `b` and two of `c`, updated on deletion only."""
    group = {"name": "sg", "cliqueNames": ["b", "c"], "replicas": 2, "minAvailable": 2}
    wanted = pod_clique_set(
        "web",
        clique("a", 2, minimum=1),
        clique("b", 1),
        clique("c", 2),
        strategy=ON_DELETE,
        podCliqueScalingGroups=[group],
    )
    bench.add_nodes(9)
    bench.create(bench.placed(wanted))
    bench.until_counts(total=8, running=8)
    bench.until_settled("web")
    return bench


def change(bench: Workbench, *cliques: str) -> Json:
    """A new template, until the operator calls its own part done; nothing may have gone."""
    before = uids(bench.pods())
    status_before = bench.get(SETS, "web")["status"]["currentGenerationHash"]
    bench.set_image("web", NEW, *cliques)
    status = bench.until_updated("web")
    assert uids(bench.pods()) == before
    assert status["currentGenerationHash"] != status_before
    assert status["updateProgress"]["updateStartedAt"] == status["updateProgress"]["updateEndedAt"]
    assert not status["updateProgress"].get("updatingReplicas")
    return status


def replaced(bench: Workbench, pod: Json) -> Json:
    """Delete a pod; the one that takes its place, once it runs."""
    name, uid = pod["metadata"]["name"], pod["metadata"]["uid"]
    bench.delete(PODS, name)
    found = bench.until(
        f"{name} to be replaced",
        lambda: [one for one in bench.ready() if one["metadata"]["name"] == name and one["metadata"]["uid"] != uid],
    )
    return found[0]


def until_status(bench: Workbench, kind: str, name: str, **expected: int) -> None:
    def reached() -> bool:
        status = bench.get(kind, name)["status"]
        return all(status.get(field, 0) == value for field, value in expected.items())

    bench.until(f"{name} to report {expected}", reached)


def test_changed_clique_keeps_its_pods_until_they_are_deleted(web: Workbench) -> None:
    change(web, "a")
    until_status(web, CLIQUES, "web-0-a", replicas=2, updatedReplicas=0)
    status = web.get(CLIQUES, "web-0-a")["status"]
    progress = status["updateProgress"]
    assert progress["updateStartedAt"] == progress["updateEndedAt"]
    assert "readyPodsSelectedToUpdate" not in progress
    assert progress["podTemplateHash"] != status["currentPodTemplateHash"]
    spec = web.get(CLIQUES, "web-0-a")["spec"]
    assert spec["podSpec"]["containers"][0]["image"] == NEW

    assert image_of(replaced(web, web.pods(clique="web-0-a")[0])) == NEW
    until_status(web, CLIQUES, "web-0-a", replicas=2, readyReplicas=2, updatedReplicas=1)
    until_status(web, SETS, "web", updatedReplicas=0, availableReplicas=1)

    assert image_of(replaced(web, web.pods(clique="web-0-a")[1])) == NEW
    until_status(web, CLIQUES, "web-0-a", updatedReplicas=2)
    until_status(web, SETS, "web", updatedReplicas=1)


def test_scale_in_takes_the_outdated_pod_and_keeps_the_new_one(web: Workbench) -> None:
    change(web, "a")
    fresh = replaced(web, next(pod for pod in web.pods(clique="web-0-a") if pod["metadata"]["name"] == "web-0-a-1"))
    web.scale(CLIQUES, "web-0-a", 1)
    web.until_counts(total=7, running=7)
    assert uids(web.pods(clique="web-0-a")) == {fresh["metadata"]["uid"]}
    until_status(web, CLIQUES, "web-0-a", replicas=1, updatedReplicas=1)


def test_changed_group_keeps_its_replicas_and_counts_as_updated_when_they_are(web: Workbench) -> None:
    change(web, "b")
    progress = web.get(GROUPS, "web-0-sg")["status"]["updateProgress"]
    assert progress["updateStartedAt"] == progress["updateEndedAt"]
    assert "readyReplicaIndicesSelectedToUpdate" not in progress
    until_status(web, GROUPS, "web-0-sg", replicas=2, updatedReplicas=0)
    assert image_of(replaced(web, web.pods(clique="web-0-sg-0-b")[0])) == NEW
    until_status(web, GROUPS, "web-0-sg", updatedReplicas=1)


def test_deleted_pod_of_a_group_comes_back_new_and_its_siblings_stay(web: Workbench) -> None:
    change(web, "c")
    first, second = web.pods(clique="web-0-sg-1-c")
    assert image_of(replaced(web, first)) == NEW
    assert second["metadata"]["uid"] in uids(web.pods())
    until_status(web, CLIQUES, "web-0-sg-1-c", replicas=2, updatedReplicas=1)


def test_deleted_group_replica_comes_back_new_as_a_whole(web: Workbench) -> None:
    change(web, "b", "c")
    others = uids(web.pods()) - uids(pod for pod in web.pods() if "-sg-1-" in pod["metadata"]["name"])
    for name in ("web-0-sg-1-b", "web-0-sg-1-c"):
        web.delete(CLIQUES, name)
    web.until(
        "the group replica to run anew",
        lambda: [image_of(pod) for pod in web.ready() if "-sg-1-" in pod["metadata"]["name"]] == [NEW] * 3,
    )
    web.until_counts(total=8, running=8)
    assert others <= uids(web.pods())
    until_status(web, GROUPS, "web-0-sg", replicas=2, updatedReplicas=1)


def test_one_deleted_pod_of_each_kind_comes_back_new_and_the_rest_stays_old(web: Workbench) -> None:
    change(web)
    for name in ("web-0-a", "web-0-sg-0-b", "web-0-sg-1-c"):
        assert image_of(replaced(web, web.pods(clique=name)[0])) == NEW
    web.until_counts(total=8, running=8)
    assert sorted(image_of(pod) for pod in web.pods()) == [OLD] * 5 + [NEW] * 3


def test_pod_of_a_failed_node_comes_back_elsewhere_and_the_others_are_not_disturbed(web: Workbench) -> None:
    victim = web.pods(clique="web-0-a")[0]
    failed = node_of(victim)

    def avoid(spec: Json) -> None:
        rule = {"key": "kubernetes.io/hostname", "operator": "NotIn", "values": [failed]}
        terms = {"nodeSelectorTerms": [{"matchExpressions": [rule]}]}
        affinity = {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": terms}}
        spec["template"]["cliques"][0]["spec"]["podSpec"]["affinity"] = affinity

    others = uids(web.pods()) - {victim["metadata"]["uid"]}
    web.edit("web", avoid)
    web.until_updated("web")
    assert victim["metadata"]["uid"] in uids(web.pods())
    assert node_of(replaced(web, victim)) != failed
    assert others <= uids(web.pods())


def test_strategies_can_be_exchanged_in_the_middle(web: Workbench) -> None:
    change(web, "a")
    names_before = names(web.pods())
    web.patch(SETS, "web", {"spec": {"updateStrategy": {"type": "RollingRecreate"}}})
    web.until("the outdated pods to be rolled", lambda: {image_of(p) for p in web.ready(clique="web-0-a")} == {NEW})
    status = web.until_updated("web")
    assert status["updatedReplicas"] == 1
    assert names(web.pods()) == names_before

    web.set_image("web", "example/main:3", "a", "b", "c")
    web.until("the roll to begin", lambda: any(image_of(pod) == "example/main:3" for pod in web.pods()))
    web.patch(SETS, "web", {"spec": {"updateStrategy": ON_DELETE}})
    stopped = web.until_updated("web")
    assert not stopped["updateProgress"].get("updatingReplicas")
    web.until_counts(total=8, running=8)
    kept = uids(web.pods())
    assert {image_of(pod) for pod in web.pods()} > {"example/main:3"}, "the roll was stopped before its end"
    assert image_of(replaced(web, next(pod for pod in web.pods() if image_of(pod) != "example/main:3"))) == (
        "example/main:3"
    )
    assert len(kept - uids(web.pods())) == 1
