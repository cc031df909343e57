"""The command line against a cluster with the operator: what people ask, in situations that are really there."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tarfile
from pathlib import Path
from typing import Any

import pytest
import yaml
from pod_moves import PodMoves
from scenario_objects import Json, clique, packed, pod_clique_set
from workbench import SETS, Workbench

from grove.localcluster.components import kubectl_binary

CRASH = {"local.grove.io/crash": "true"}


def grove(bench: Workbench, *arguments: str, expect: int = 0, columns: int = 80) -> str:
    """Run the real command; what it printed."""
    command = [sys.executable, "-m", "grove.cli.main", *arguments]
    where = ["--kubeconfig", str(bench.cluster.kubeconfig), "-n", bench.namespace]
    environment = {**os.environ, "COLUMNS": str(columns)}
    done = subprocess.run([*command, *where], capture_output=True, text=True, check=False, env=environment, timeout=120)
    assert "Traceback" not in done.stderr
    assert done.returncode == expect, f"{arguments} ended with {done.returncode}:\n{done.stdout}\n{done.stderr}"
    return done.stdout


def explained(bench: Workbench, name: str) -> Json:
    answer: Json = json.loads(grove(bench, "explain", name, "-o", "json"))
    return answer


def until_explained(bench: Workbench, name: str, tier: str) -> Json:
    """Ask until the situation has arrived; the answer then."""
    last: list[Json] = []

    def asked() -> Json | None:
        last[:] = [explained(bench, name)]
        return last[0] if last[0]["tier"] == tier else None

    try:
        return bench.until(f"{name} to be {tier}", asked) or {}
    except AssertionError as late:
        raise AssertionError(f"{late}\nlast answer: {json.dumps(last, indent=1)}") from None


def evidence(answer: Json, title: str) -> str:
    return "\n".join(line for one in answer["evidence"] if one["title"] == title for line in one["lines"])


def run_set(bench: Workbench, *cliques: Json, **options: Any) -> None:
    """A set named `demo`, every pod of it running."""
    wanted = bench.create(bench.placed(pod_clique_set("demo", *cliques, **options)))
    bench.until("every pod to run", lambda: len(bench.ready()) == pods_of(wanted["spec"]))
    bench.until_settled("demo")


def written(bench: Workbench, path: Path, document: Json) -> str:
    file = path / "set.yaml"
    document.setdefault("metadata", {})["namespace"] = bench.namespace
    file.write_text(yaml.safe_dump(document))
    return str(file)


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
    command = [sys.executable, "-m", "grove.cli.main", "get", "demo", "-w", "-n", bench.namespace]
    watching = subprocess.Popen(
        [*command, "--kubeconfig", str(bench.cluster.kubeconfig)], stdout=subprocess.PIPE, text=True
    )
    assert watching.stdout is not None
    try:
        first = [watching.stdout.readline() for _ in range(5)]
        assert "demo-0-w-0" in first[4]
        bench.scale("podcliques", "demo-0-w", 2)
        news = ""
        while "demo-0-w-1" not in news:
            news = watching.stdout.readline()
            assert news, "the watch ended"
        assert not news.startswith("NAME")
    finally:
        watching.terminate()
        watching.communicate()


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


# rollout


def test_status_ends_with_0_when_done_and_2_when_time_is_up(bench: Workbench) -> None:
    bench.add_nodes(2)
    run_set(bench, clique("w", 2, 1))
    assert "is up to date" in grove(bench, "rollout", "status", "demo")

    assert "paused" in grove(bench, "rollout", "pause", "demo")
    bench.set_image("demo", "example/main:2")
    bench.until("the pause to be seen", lambda: explained(bench, "demo")["reason"] == "UpdatePaused")
    assert "demo: paused" in grove(bench, "rollout", "status", "demo", "--timeout", "1s", expect=2)
    assert "demo: paused" in grove(bench, "rollout", "status", "demo", "--no-watch", expect=2)

    assert "resumed" in grove(bench, "rollout", "resume", "demo")
    assert "already running" in grove(bench, "rollout", "resume", "demo")
    assert "2 of 2 pods updated" in grove(bench, "rollout", "status", "demo", "--timeout", "60s").splitlines()[-1]


def test_status_ends_with_1_when_the_update_is_stuck(bench: Workbench) -> None:
    bench.add_nodes(1)
    run_set(bench, clique("w", 1), strategy={"type": "RollingRecreate", "progressDeadlineSeconds": 2})

    def too_large(spec: Json) -> None:
        container = spec["template"]["cliques"][0]["spec"]["podSpec"]["containers"][0]
        container["resources"]["requests"]["cpu"] = "40"

    bench.edit("demo", too_large)

    assert "stuck" in grove(bench, "rollout", "status", "demo", "--timeout", "60s", expect=1)
    assert until_explained(bench, "demo", "can never fit")["reason"] == "TooLargeForCluster"


def test_history_undo_and_restart(bench: Workbench) -> None:
    bench.add_nodes(2)
    run_set(bench, clique("a", 1), clique("b", 1))
    bench.set_image("demo", "example/main:2", "a")
    grove(bench, "rollout", "status", "demo", "--timeout", "60s")

    told = grove(bench, "rollout", "history", "demo")
    assert "a: podSpec.containers[main].image example/main:1 → example/main:2" in told
    assert "revision 2" in told

    assert "rolled back to revision 1" in grove(bench, "rollout", "undo", "demo")
    grove(bench, "rollout", "status", "demo", "--timeout", "60s")
    assert {p["spec"]["containers"][0]["image"] for p in bench.pods()} == {"example/main:1"}
    views = json.loads(grove(bench, "rollout", "history", "demo", "-o", "json"))
    assert [(v["number"], v["current"]) for v in views] == [(2, False), (3, True)]
    grove(bench, "rollout", "undo", "demo", "--to-revision", "3", expect=1)

    before = {p["metadata"]["name"]: p["metadata"]["uid"] for p in bench.pods()}
    assert "restarted" in grove(bench, "rollout", "restart", "demo", "--clique", "b")
    grove(bench, "rollout", "status", "demo", "--timeout", "60s")
    after = {p["metadata"]["name"]: p["metadata"]["uid"] for p in bench.pods()}
    assert before["demo-0-a-0"] == after["demo-0-a-0"]
    assert before["demo-0-b-0"] != after["demo-0-b-0"]


STORIES: dict[str, tuple[list[Json], dict[str, Any]]] = {
    "pods one by one": ([clique("w", 3, 2)], {}),
    "pods two at a time": ([clique("w", 4, 1, updateStrategy={"maxUnavailable": 2})], {}),
    "pods with surge": ([clique("w", 2, 1, updateStrategy={"maxUnavailable": 0, "maxSurge": 1})], {}),
    "group replicas": (
        [clique("a", 1), clique("b", 1)],
        {"podCliqueScalingGroups": [{"name": "g", "cliqueNames": ["a", "b"], "replicas": 3, "minAvailable": 1}]},
    ),
    "group replicas with surge": (
        [clique("a", 1)],
        {
            "podCliqueScalingGroups": [
                {
                    "name": "g",
                    "cliqueNames": ["a"],
                    "replicas": 2,
                    "minAvailable": 1,
                    "updateStrategy": {"maxUnavailable": 0, "maxSurge": 1},
                }
            ]
        },
    ),
    "one replica after the other": ([clique("w", 2, 1)], {"replicas": 2}),
    "whole replicas with surge": (
        [clique("w", 2)],
        {
            "replicas": 2,
            "strategy": {"type": "ReplicaRecreate", "rollingUpdate": {"maxUnavailable": 0, "maxSurge": 1}},
        },
    ),
    "a whole replica": ([clique("a", 2), clique("b", 1)], {"strategy": {"type": "ReplicaRecreate"}}),
}


def pods_of(spec: Json) -> int:
    """How many pods a set asks for."""
    groups = {c: g["replicas"] for g in spec["template"].get("podCliqueScalingGroups", []) for c in g["cliqueNames"]}
    cliques = spec["template"]["cliques"]
    return int(spec["replicas"]) * sum(int(c["spec"]["replicas"]) * groups.get(c["name"], 1) for c in cliques)


def pod_steps(planned: Json) -> list[list[str]]:
    """What a preview says of pods, step by step. Pods of a clique that is removed go with it, without being named."""
    found, made = [], set()
    for step in planned["steps"]:
        moves = [f"{m['verb']} {m['name']}" for m in step["moves"] if m["kind"] == "Pod"]
        made |= {m["name"] for m in step["moves"] if m["kind"] == "Pod" and m["verb"] == "create"}
        gone = {m["name"] for m in step["moves"] if m["kind"] == "PodClique" and m["verb"] == "delete"}
        moves += [f"delete {name}" for name in sorted(made) if name.rpartition("-")[0] in gone]
        found.append(moves)
    return [moves for moves in found if moves]


@pytest.mark.parametrize("story", STORIES)
def test_what_plan_says_is_what_happens_step_by_step(bench: Workbench, story: str, tmp_path: Path) -> None:
    cliques, options = STORIES[story]
    bench.add_nodes(8)
    wanted = bench.placed(pod_clique_set("demo", *json.loads(json.dumps(cliques)), **options))
    bench.create(wanted)
    # A unit that still starts would be replaced first: the plan is about a set at rest.
    bench.until("every pod to run", lambda: len(bench.ready()) == pods_of(wanted["spec"]))
    bench.until_settled("demo")
    for one in wanted["spec"]["template"]["cliques"]:
        one["spec"]["podSpec"]["containers"][0]["image"] = "example/main:2"
    file = written(bench, tmp_path, wanted)

    planned = json.loads(grove(bench, "rollout", "plan", "-f", file, "--json"))
    assert planned["completes"]
    assert planned["blockers"] == []
    with PodMoves(bench) as moves:
        bench.patch(SETS, "demo", {"spec": wanted["spec"]})
        grove(bench, "rollout", "status", "demo", "--timeout", "90s")
        bench.until_settled("demo")

    steps = pod_steps(planned)
    happened = list(moves.seen)
    for expected in steps:
        step, happened = happened[: len(expected)], happened[len(expected) :]
        assert sorted(step) == sorted(expected), f"planned {steps}, happened {moves.seen}"
    assert happened == [], f"planned {steps}, happened {moves.seen}"
    assert grove(bench, "rollout", "plan", "-f", file).endswith("no pod is restarted\n")


def test_a_plan_that_would_not_fit_says_so(bench: Workbench, tmp_path: Path) -> None:
    bench.add_nodes(2)
    wanted = bench.placed(pod_clique_set("demo", clique("w", 2)))
    bench.create(wanted)
    bench.until_settled("demo")
    wanted["spec"]["template"]["cliques"][0]["spec"]["podSpec"]["containers"][0]["resources"]["requests"]["cpu"] = "40"

    planned = json.loads(grove(bench, "rollout", "plan", "-f", written(bench, tmp_path, wanted), "--json"))

    assert any("would not fit" in blocker for blocker in planned["blockers"])


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
