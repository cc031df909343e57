"""The real command line against the cluster of a workbench, and what it answers."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

import yaml
from scenario_objects import Json, pod_clique_set
from workbench import Workbench


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


def pods_of(spec: Json) -> int:
    """How many pods a set asks for."""
    groups = {c: g["replicas"] for g in spec["template"].get("podCliqueScalingGroups", []) for c in g["cliqueNames"]}
    cliques = spec["template"]["cliques"]
    return int(spec["replicas"]) * sum(int(c["spec"]["replicas"]) * groups.get(c["name"], 1) for c in cliques)


@contextmanager
def watching(bench: Workbench, *arguments: str) -> Iterator[IO[str]]:
    """What a command that watches prints, while it runs."""
    command = [sys.executable, "-m", "grove.cli.main", "get", "demo", "-w", "-n", bench.namespace, *arguments]
    process = subprocess.Popen(
        [*command, "--kubeconfig", str(bench.cluster.kubeconfig)], stdout=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    try:
        yield process.stdout
    finally:
        process.terminate()
        process.communicate()
