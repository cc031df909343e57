"""The objects of a scenario: short ways to write PodCliqueSets, and to read what came of them."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from grove.localcluster.rest import ApiError

Json = dict[str, Any]


def clique(name: str, replicas: int, minimum: int | None = None, **beside: Any) -> Json:
    """A clique whose pods fill a node each; what is not of its spec is given by name."""
    container = {"name": "main", "image": "example/main:1"}
    spec: Json = {
        "roleName": name,
        "replicas": replicas,
        "minAvailable": replicas if minimum is None else minimum,
        "podSpec": {"schedulerName": "kai-scheduler", "containers": [container], "terminationGracePeriodSeconds": 1},
    }
    return {"name": name, "spec": spec, **beside}


def pod_clique_set(name: str, *cliques: Json, replicas: int = 1, strategy: Json | None = None, **template: Any) -> Json:
    """A PodCliqueSet; the rest of its template is given by name."""
    spec: Json = {"replicas": replicas, "template": {"cliques": list(cliques), **template}}
    if strategy:
        spec["updateStrategy"] = strategy
    return {"apiVersion": "grove.io/v1alpha1", "kind": "PodCliqueSet", "metadata": {"name": name}, "spec": spec}


def packed(domain: str) -> Json:
    return {"packDomain": domain}


def condition_of(document: Json, wanted: str) -> Json:
    found = document.get("status", {}).get("conditions") or []
    return next((one for one in found if one["type"] == wanted), {})


def is_ready(pod: Json) -> bool:
    return condition_of(pod, "Ready").get("status") == "True"


def is_refused(pod: Json) -> bool:
    return condition_of(pod, "PodScheduled").get("reason") == "Unschedulable"


def is_gated(pod: Json) -> bool:
    return bool(pod["spec"].get("schedulingGates"))


def node_of(pod: Json) -> str:
    found: str = pod["spec"].get("nodeName", "")
    return found


def image_of(pod: Json) -> str:
    found: str = pod["spec"]["containers"][0]["image"]
    return found


def names(documents: Iterable[Json]) -> set[str]:
    return {one["metadata"]["name"] for one in documents}


def uids(documents: Iterable[Json]) -> set[str]:
    return {one["metadata"]["uid"] for one in documents}


def refusal(act: Callable[[], object]) -> str:
    """What the API server has against it."""
    try:
        act()
    except ApiError as error:
        return str(error)
    raise AssertionError("it was not refused")
