"""What a fresh API server is given before anyone uses it: KAI's kinds, queues and priorities, and the simulated nodes.

Everything is applied, never assumed absent, so that the same steps serve a first start and every later one.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import partial
from typing import Any

from grove.localcluster.binaries import KAI
from grove.localcluster.errors import LocalClusterError
from grove.localcluster.nodes import (
    is_schedulable,
    is_simulated,
    node_capacity,
    node_document,
    node_labels,
    node_name,
)
from grove.localcluster.rest import ApiError, ApiServer, Document
from grove.localcluster.spec import ClusterSpec

_NODES = "/api/v1/nodes"
_CRDS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
_QUEUES = "/apis/scheduling.run.ai/v2/queues"
_PRIORITIES = "/apis/scheduling.k8s.io/v1/priorityclasses"

PARENT_QUEUE = "default-parent-queue"
DEFAULT_QUEUE = "default-queue"
PRIORITY_CLASSES = {"train": 50, "build-preemptible": 75, "build": 100, "inference": 125}

_INSTALLED_AT = "local.grove.io/installed-at"
_NOT_YET = {404, 429, 503}
# Without a quota of its own a queue refuses what may not be preempted, and inference may not.
_UNLIMITED = {"quota": -1, "limit": -1, "overQuotaWeight": 1}
_WAIT_LIMIT = 60.0
_POLL_INTERVAL = 0.05


def install_kai(api: ApiServer) -> None:
    """KAI's custom resources, one unlimited queue below its parent, and the priority classes KAI knows."""
    import yaml

    crds: list[Document] = [
        yaml.load(path.read_text(), Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader))
        for path in sorted((KAI.folder() / "crds").glob("*.yaml"))
    ]
    install_definitions(api, crds)
    queue_kind: dict[str, Any] = {"apiVersion": "scheduling.run.ai/v2", "kind": "Queue"}
    for name, parent in ((PARENT_QUEUE, None), (DEFAULT_QUEUE, PARENT_QUEUE)):
        spec: dict[str, Any] = {"resources": dict.fromkeys(("cpu", "gpu", "memory"), _UNLIMITED)}
        if parent:
            spec["parentQueue"] = parent
        api.apply(f"{_QUEUES}/{name}", {**queue_kind, "metadata": {"name": name}, "spec": spec})
    for name, value in PRIORITY_CLASSES.items():
        priority = {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass"}
        api.apply(f"{_PRIORITIES}/{name}", {**priority, "metadata": {"name": name}, "value": value})


def install_definitions(api: ApiServer, crds: list[Document]) -> None:
    """Apply custom resource definitions and wait until the server answers for all of them."""
    for crd in crds:
        # A resource whose server was ended while installing it stays half installed until it changes again.
        crd["metadata"].setdefault("annotations", {})[_INSTALLED_AT] = str(time.time_ns())
    api.each(lambda crd: api.apply(f"{_CRDS}/{crd['metadata']['name']}", crd), crds)
    for crd in crds:
        name = crd["metadata"]["name"]
        _wait(f"{name} to be established", partial(_is_established, api, f"{_CRDS}/{name}"))
    for crd in crds:
        _wait(f"{crd['metadata']['name']} to be served", partial(_is_served, api, _collection(crd)))


def arrange_nodes(api: ApiServer, spec: ClusterSpec) -> None:
    """Bring the simulated nodes to what the spec says: create, relabel, remove. Other nodes are left alone."""
    existing = {node["metadata"]["name"]: node for node in api.get(_NODES)["items"] if is_simulated(node)}
    wanted = {node_name(index): index for index in range(spec.nodes)}
    api.each(lambda name: api.delete(f"{_NODES}/{name}"), existing.keys() - wanted.keys())
    api.each(
        lambda name: api.create(_NODES, node_document(spec, wanted[name])),
        sorted(wanted.keys() - existing.keys(), key=wanted.__getitem__),
    )
    api.each(
        lambda name: _rearrange(api, spec, wanted[name]),
        [name for name in wanted.keys() & existing.keys() if not _is_as_wanted(existing[name], spec, wanted[name])],
    )


def wait_for_nodes(api: ApiServer, spec: ClusterSpec) -> None:
    """Wait until every simulated node can take pods."""

    def all_schedulable() -> bool:
        nodes = [node for node in api.get(_NODES)["items"] if is_simulated(node)]
        return len(nodes) == spec.nodes and all(is_schedulable(node) for node in nodes)

    _wait(f"{spec.nodes} ready nodes", all_schedulable)


def _is_as_wanted(node: Document, spec: ClusterSpec, index: int) -> bool:
    labels = node["metadata"]["labels"]
    capacity = node["status"].get("capacity", {})
    return (
        node_labels(spec, index).items() <= labels.items()
        and node_capacity(spec).items() <= capacity.items()
        and ("nvidia.com/gpu" in capacity) == bool(spec.gpus)
    )


def _rearrange(api: ApiServer, spec: ClusterSpec, index: int) -> None:
    path = f"{_NODES}/{node_name(index)}"
    capacity: dict[str, str | None] = {"nvidia.com/gpu": None, **node_capacity(spec)}
    api.merge(path, {"metadata": {"labels": node_labels(spec, index)}})
    api.merge(f"{path}/status", {"status": {"capacity": capacity, "allocatable": capacity}})


def _collection(crd: Document) -> str:
    spec = crd["spec"]
    version = next(one["name"] for one in spec["versions"] if one["served"])
    return f"/apis/{spec['group']}/{version}/{spec['names']['plural']}?limit=1"


def _is_established(api: ApiServer, path: str) -> bool:
    conditions = api.get(path).get("status", {}).get("conditions") or []
    return any(one["type"] == "Established" and one["status"] == "True" for one in conditions)


def _is_served(api: ApiServer, path: str) -> bool:
    """A custom resource is established a moment before the server answers for it."""
    try:
        api.get(path)
    except ApiError as error:
        if error.status not in _NOT_YET:
            raise
        return False
    return True


def _wait(subject: str, reached: Callable[[], bool]) -> None:
    deadline = time.monotonic() + _WAIT_LIMIT
    while not reached():
        if time.monotonic() > deadline:
            raise LocalClusterError(f"gave up waiting for {subject} after {_WAIT_LIMIT:.0f} s")
        time.sleep(_POLL_INTERVAL)
