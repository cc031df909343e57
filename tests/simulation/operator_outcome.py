"""The end of a story in comparable form: everything that belongs to a workload, without what differs from run to run.

Left out are identifiers, times, the history of updates, and places of pods on nodes. Pods that kept a hole in their
indices after a scale-in are counted from zero, in their gang as well.
"""

from __future__ import annotations

import copy
import functools
import json
from collections.abc import Mapping
from typing import Any

import msgspec
from operator_harness import NAMESPACE, Json, Simulation
from operator_stories import NAME

from grove.api import labels
from grove.api.kinds import POD_CLIQUES, SCALING_GROUPS
from grove.testing import simulate

Outcome = dict[str, Any]
_UNCOUNTED_STATUS = ("updateProgress", "observedGeneration", "currentPodCliqueSetGenerationHash", "podIP", "startTime")


def outcome(sim: Simulation) -> Outcome:
    """Everything of the workload, by kind and name."""
    renamed = _renamed(sim)
    found: Outcome = {}
    latest = sim.server.object("grove.io/v1alpha1", "PodCliqueSet", NAME, NAMESPACE)
    if latest is not None:
        found["set"] = _status(latest["status"])
    for table in sim.server.storage.tables():
        for stored in table.sorted(NAMESPACE):
            obj = stored.obj
            marks = obj["metadata"].get("labels") or {}
            if marks.get(labels.PART_OF) != NAME or obj["kind"] in ("ControllerRevision", "PodGroup"):
                continue
            name = obj["metadata"]["name"]
            found[f"{obj['kind']}/{renamed.get(name, name)}"] = _content(obj, renamed)
    return found


def scales(sim: Simulation) -> dict[str, int]:
    """How many replicas cliques and groups are asked for, which anybody may change."""
    found = {}
    for resource in (POD_CLIQUES, SCALING_GROUPS):
        for name, item in sim.objects(resource).items():
            found[name] = item["spec"]["replicas"]
    return found


def expected(document: Json, wanted: Mapping[str, int]) -> Outcome:
    """The outcome of creating this workload, scaled like this, in a world without accidents.

    How it is updated and when it is terminated leaves no trace in what it becomes, so many stories share an outcome.
    """
    plain = copy.deepcopy(document)
    template = plain["spec"]["template"]
    for part in (plain["spec"], *template["cliques"], *template.get("podCliqueScalingGroups", ())):
        part.pop("updateStrategy", None)
    template.pop("terminationDelay", None)
    return _expected(json.dumps(plain, sort_keys=True), tuple(sorted(wanted.items())))


@functools.cache
def _expected(document: str, wanted: tuple[tuple[str, int], ...]) -> Outcome:
    async def run() -> Outcome:
        sim = Simulation(webhooks=False)
        sim.start_operator()
        await sim.people.create(msgspec.json.decode(document))
        await sim.settle(10)
        for kind in (SCALING_GROUPS, POD_CLIQUES):
            standing = sim.objects(kind)
            for name, replicas in wanted:
                if name in standing and standing[name]["spec"]["replicas"] != replicas:
                    await sim.people.scale(kind, name, replicas)
            await sim.settle(10)
        return outcome(sim)

    return simulate(run(), limit=3600)


def differences(found: Any, wanted: Any, path: str = "") -> list[str]:
    """Where two outcomes differ, for a person to read."""
    if isinstance(found, dict) and isinstance(wanted, dict):
        keys = sorted({*found, *wanted})
        return [line for key in keys for line in differences(found.get(key), wanted.get(key), f"{path}.{key}")]
    return [] if found == wanted else [f"{path} is {found} instead of {wanted}"]


def _renamed(sim: Simulation) -> dict[str, str]:
    by_clique: dict[str, list[tuple[int, str]]] = {}
    for name, pod in sim.pods().items():
        marks = pod["metadata"].get("labels") or {}
        if labels.POD_INDEX in marks:
            by_clique.setdefault(marks[labels.POD_CLIQUE], []).append((int(marks[labels.POD_INDEX]), name))
    found = {}
    for clique, pods in by_clique.items():
        for position, (_, name) in enumerate(sorted(pods)):
            found[name] = f"{clique}-{position}"
    return found


def _content(obj: Json, renamed: Mapping[str, str]) -> Json:
    meta = obj["metadata"]
    name = meta["name"]
    marks = dict(meta.get("labels") or {})
    spec = dict(obj.get("spec") or {})
    if obj["kind"] == "Pod":
        marks[labels.POD_INDEX] = renamed.get(name, name).rpartition("-")[2]
        spec = {k: v for k, v in spec.items() if k != "nodeName" and v != []}
        spec["hostname"] = renamed.get(spec["hostname"], spec["hostname"])
    if obj["kind"] == "PodGang":
        spec["podgroups"] = [
            {**g, "podReferences": [renamed.get(r["name"], r["name"]) for r in g["podReferences"]]}
            for g in spec["podgroups"]
        ]
    marks.pop(labels.GENERATION_HASH, None)
    return {
        "labels": marks,
        "owners": [(o["kind"], o["name"]) for o in meta.get("ownerReferences", ())],
        "leaving": "deletionTimestamp" in meta,
        "spec": spec,
        "ready": _ready(obj) if obj["kind"] == "Pod" else None,
        "status": {} if obj["kind"] == "Pod" else _status(obj.get("status") or {}),
    }


def _status(status: Json) -> Json:
    kept = {k: v for k, v in status.items() if k not in _UNCOUNTED_STATUS and v not in ([], None)}
    if "conditions" in kept:
        kept["conditions"] = {c["type"]: (c["status"], c["reason"], c.get("message")) for c in kept["conditions"]}
    return kept


def _ready(pod: Json) -> bool:
    return any(c["type"] == "Ready" and c["status"] == "True" for c in pod.get("status", {}).get("conditions", ()))
