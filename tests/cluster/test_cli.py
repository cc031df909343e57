"""The command line against a cluster with the operator: what people ask, in situations that are really there."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tarfile
from pathlib import Path
from typing import IO

from grove_command import evidence, explained, grove, run_set, until_explained, watching, written
from scenario_objects import Json, clique, packed, pod_clique_set
from workbench import Workbench

from grove.localcluster.components import kubectl_binary

CRASH = {"local.grove.io/crash": "true"}


# get


def test_the_tree_shows_every_pod_with_gang_node_and_domain(bench: Workbench) -> None:
    bench.add_nodes(5, racks=1)
    group = {"name": "pool", "cliqueNames": ["w"], "replicas": 2, "minAvailable": 1}
    run_set(bench, clique("r", 1), clique("w", 2), podCliqueScalingGroups=[group])

    (found,) = json.loads(grove(bench, "get", "demo", "-o", "json"))["items"]
    text = grove(bench, "get", "demo")

    (replica,) = found["members"]
    members = replica["groups"][0]["members"]
    assert [m["gang"] for m in members] == ["demo-0", "demo-0-pool-1"]
    pods = [p for c in [*replica["cliques"], *(c for m in members for c in m["cliques"])] for p in c["pods"]]
    assert {p["name"] for p in pods} == {p["metadata"]["name"] for p in bench.pods()}
    assert all(p["ready"] and p["domains"]["rack"] == f"{bench.namespace}-rack-0" for p in pods)
    for pod in pods:
        assert pod["name"] in text
    assert max(len(line) for line in text.splitlines()) <= 80
    assert "\x1b" not in text
    wide = grove(bench, "get", "-o", "wide", columns=200)
    assert all(word in wide.splitlines()[0] for word in ("GANG", "REVISION", "WHERE", "UPDATED"))


def test_watching_tells_what_changed_and_nothing_twice(bench: Workbench) -> None:
    bench.add_nodes(2)
    run_set(bench, clique("w", 1))
    with watching(bench) as printed:
        first = [printed.readline() for _ in range(5)]
        assert "demo-0-w-0" in first[4]
        bench.scale("podcliques", "demo-0-w", 2)
        news = ""
        while "demo-0-w-1" not in news:
            news = printed.readline()
            assert news, "the watch ended"
        assert not news.startswith("NAME")


def test_watching_as_json_gives_one_whole_document_after_the_other(bench: Workbench) -> None:
    bench.add_nodes(2)
    run_set(bench, clique("w", 1))
    with watching(bench, "-o", "json") as printed:
        assert pods_in(document(printed)) == {"demo-0-w-0"}
        bench.scale("podcliques", "demo-0-w", 2)
        while pods_in(document(printed)) != {"demo-0-w-0", "demo-0-w-1"}:
            pass


def document(printed: IO[str]) -> Json:
    """The next document: it ends with the first line that closes the outermost brace."""
    lines = [printed.readline()]
    assert lines == ["{\n"]
    while lines[-1] != "}\n":
        lines.append(printed.readline())
        assert lines[-1], "the watch ended"
    found: Json = json.loads("".join(lines))
    return found


def pods_in(found: Json) -> set[str]:
    return {p["name"] for s in found["items"] for r in s["members"] for c in r["cliques"] for p in c["pods"]}


# explain: every tier


def test_healthy(bench: Workbench) -> None:
    bench.add_nodes(1)
    run_set(bench, clique("w", 1))

    assert explained(bench, "demo")["tier"] == "healthy"


def test_misconfigured_queue(bench: Workbench) -> None:
    bench.add_nodes(1)
    wanted = bench.placed(pod_clique_set("demo", clique("w", 1)))
    wanted["metadata"]["labels"] = {"kai.scheduler/queue": "nowhere"}
    bench.create(wanted)

    answer = until_explained(bench, "demo", "misconfigured")

    assert answer["reason"] == "QueueMissing"
    assert "queue nowhere does not exist" in answer["headline"]
    assert "default-queue" in evidence(answer, "queues that take gangs")


def test_misconfigured_priority_class_in_the_servers_words(bench: Workbench) -> None:
    bench.add_nodes(1)
    bench.create(bench.placed(pod_clique_set("demo", clique("w", 1), priorityClassName="nonesuch")))

    answer = until_explained(bench, "demo", "misconfigured")

    assert answer["reason"] == "WriteRefused"
    assert "nonesuch" in answer["headline"]


def test_can_never_fit_offers_the_wider_domain_that_would_do(bench: Workbench) -> None:
    bench.add_nodes(4, racks=2)
    bench.create(bench.placed(pod_clique_set("demo", clique("w", 3), topologyConstraint=packed("rack"))))

    answer = until_explained(bench, "demo", "can never fit")

    assert "2 of 3 pods" in answer["headline"]
    assert answer["nextStep"].startswith("packDomain: block would do")
    bench.until("the scheduler's own words", lambda: evidence(explained(bench, "demo"), "scheduler says"))


def test_fits_but_not_now_names_what_is_missing_where(bench: Workbench) -> None:
    bench.add_nodes(4, racks=2)
    bench.cordon(bench.nodes[1], bench.nodes[3])
    bench.create(bench.placed(pod_clique_set("demo", clique("w", 2), topologyConstraint=packed("rack"))))

    answer = until_explained(bench, "demo", "fits, but not now")

    assert answer["reason"] == "NoRoomNow"
    assert "1 of 2 pods" in answer["headline"]
    assert "1 node cordoned" in evidence(answer, "missing")
    bench.uncordon()
    until_explained(bench, "demo", "healthy")


def test_fits_but_not_now_because_of_quota(bench: Workbench) -> None:
    bench.add_nodes(2)
    quota = {"apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": "few"}, "spec": {"hard": {"pods": "1"}}}
    bench.api.create(f"/api/v1/namespaces/{bench.namespace}/resourcequotas", quota)
    bench.create(bench.placed(pod_clique_set("demo", clique("w", 2))))

    answer = until_explained(bench, "demo", "can never fit")

    assert answer["reason"] == "QuotaTooSmall"
    assert "few pods: 1 of 1 used, the set needs 2" in evidence(answer, "quota")


def test_held_by_somebodys_gate(bench: Workbench) -> None:
    bench.add_nodes(1)
    wanted = bench.placed(pod_clique_set("demo", clique("w", 1)))
    wanted["spec"]["template"]["cliques"][0]["spec"]["podSpec"]["schedulingGates"] = [{"name": "example.com/wait"}]
    bench.create(wanted)

    answer = until_explained(bench, "demo", "held by a gate or dependency")

    assert answer["reason"] == "SchedulingGate"
    assert "example.com/wait" in answer["headline"]


def test_a_scaled_gang_is_held_behind_the_base_gang_that_does_not_fit(bench: Workbench) -> None:
    bench.add_nodes(1)
    group = {"name": "pool", "cliqueNames": ["w"], "replicas": 2, "minAvailable": 1}
    bench.create(bench.placed(pod_clique_set("demo", clique("w", 2), podCliqueScalingGroups=[group])))

    answer = until_explained(bench, "demo", "can never fit")

    assert answer["subject"] == "demo-0"
    assert [other["reason"] for other in answer["others"]] == ["BaseGangUnscheduled"]


def test_scheduler_silent(bench: Workbench) -> None:
    bench.add_nodes(1)
    elsewhere = clique("w", 1, labels={"kai.scheduler/node-pool": "elsewhere"})
    bench.create(bench.placed(pod_clique_set("demo", elsewhere)))

    answer = until_explained(bench, "demo", "scheduler silent")

    assert answer["reason"] == "SchedulerSilent"
    assert "demo-0-w-0" in evidence(answer, "pending")


def test_crash_looping(bench: Workbench) -> None:
    bench.add_nodes(2)
    bench.create(bench.placed(pod_clique_set("demo", clique("w", 2, annotations=CRASH))))

    answer = until_explained(bench, "demo", "crash looping")

    assert answer["reason"] == "CrashLoop"
    assert "2 of 2 pods of demo-0-w" in answer["headline"]
    assert "kubectl logs --previous demo-0-w-0" in answer["nextStep"]
    text = grove(bench, "explain", "demo")
    assert len(text.splitlines()) <= 24
    assert max(len(line) for line in text.splitlines()) <= 80


def test_a_crashing_parent_is_the_reason_and_not_those_who_wait_for_it(bench: Workbench) -> None:
    bench.add_nodes(2)
    ordered = {"cliqueStartupType": "CliqueStartupTypeInOrder"}
    bench.create(bench.placed(pod_clique_set("demo", clique("a", 1, annotations=CRASH), clique("b", 1), **ordered)))

    answer = until_explained(bench, "demo", "crash looping")

    assert answer["subject"] == "demo-0-a"
    bench.until(
        "those who wait to be told of",
        lambda: "WaitingForStartOrder" in [o["reason"] for o in explained(bench, "demo")["others"]],
    )


# topology, whatif, diagnose


def test_whatif_agrees_with_the_scheduler_about_what_fits(bench: Workbench, tmp_path: Path) -> None:
    bench.add_nodes(4, racks=2)
    wanted = bench.placed(pod_clique_set("demo", clique("w", 2), replicas=2, topologyConstraint=packed("rack")))
    file = written(bench, tmp_path, wanted)

    assert "Everything would fit now" in grove(bench, "whatif", "-f", file)
    answer = json.loads(grove(bench, "whatif", "-f", file, "--replicas", "3", "-o", "json", expect=3))
    assert [g["state"] for g in answer["gangs"]] == ["fits", "fits", "does not fit"]

    bench.create({**wanted, "spec": {**wanted["spec"], "replicas": 3}})
    bench.until_refused(total=6, running=4)
    drained = json.loads(grove(bench, "whatif", "demo", "--drain", bench.nodes[0], "-o", "json", expect=3))
    assert [g["state"] for g in drained["gangs"]].count("runs") == 1


def test_topology_shows_where_a_gang_sits(bench: Workbench) -> None:
    bench.add_nodes(4, racks=2)
    run_set(bench, clique("w", 2), topologyConstraint=packed("rack"))

    answer = json.loads(grove(bench, "topology", "--gang", "demo-0", "-o", "json"))

    (gang,) = answer["gangs"]
    assert (gang["placed"], list(gang["spread"]["rack"].values())) == (2, [2])
    assert bench.domains(bench.pods()) == set(gang["spread"]["rack"])
    text = grove(bench, "topology", "--gang", "demo-0", "--shape", "2x8")
    assert "racks that can still take a gang of 2 x 8" in text


def test_a_support_bundle_holds_answers_and_objects_but_no_secrets(bench: Workbench, tmp_path: Path) -> None:
    bench.add_nodes(1)
    wanted = bench.placed(pod_clique_set("demo", clique("w", 1)))
    container = wanted["spec"]["template"]["cliques"][0]["spec"]["podSpec"]["containers"][0]
    container["env"] = [{"name": "API_TOKEN", "value": "hunter2"}]
    secret = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "s"}, "stringData": {"k": "hunter3"}}
    bench.api.create(f"/api/v1/namespaces/{bench.namespace}/secrets", secret)
    bench.create(wanted)
    bench.until_settled("demo")

    grove(bench, "diagnose", "-o", str(tmp_path / "bundle.tar.gz"))

    with tarfile.open(tmp_path / "bundle.tar.gz") as bundle:
        files = {m.name: (bundle.extractfile(m) or sys.stdin.buffer).read().decode() for m in bundle.getmembers()}
    assert "bundle/objects/pods.yaml" in files
    assert f"bundle/explain/{bench.namespace}.demo.yaml" in files
    assert "API_TOKEN" in files["bundle/objects/pods.yaml"]
    whole = "".join(files.values())
    assert "hunter2" not in whole
    assert "hunter3" not in whole


def test_names_are_completed_from_the_cluster_for_a_shell_and_for_kubectl(bench: Workbench) -> None:
    bench.create(bench.placed(pod_clique_set("demo", clique("w", 1))))
    programs = Path(sys.executable).parent
    environment = {
        **os.environ,
        "KUBECONFIG": str(bench.cluster.kubeconfig),
        "PATH": f"{programs}:{os.environ['PATH']}",
    }
    words = f"grove explain -n {bench.namespace} d"
    asked = {"_GROVE_COMPLETE": "bash_complete", "COMP_WORDS": words, "COMP_CWORD": "4"}

    shell = subprocess.run([programs / "grove"], capture_output=True, text=True, check=True, env=environment | asked)
    kubectl = subprocess.run(
        [kubectl_binary(), "__complete", *words.split()], capture_output=True, text=True, check=True, env=environment
    )

    assert shell.stdout == "plain,demo\n"
    assert kubectl.stdout.splitlines() == ["demo", ":4"]


def test_what_is_not_there_is_said_in_one_line(bench: Workbench) -> None:
    for command in (
        ["explain", "ghost"],
        ["get", "ghost"],
        ["rollout", "status", "ghost"],
        ["rollout", "undo", "ghost"],
    ):
        grove(bench, *command, expect=1)
