"""`grove rollout` against a cluster with the operator: every verb, and a preview that comes true step by step."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from grove_command import explained, grove, pods_of, run_set, until_explained, written
from pod_moves import PodMoves
from scenario_objects import Json, clique, pod_clique_set
from workbench import SETS, Workbench


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
