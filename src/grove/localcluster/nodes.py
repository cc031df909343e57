"""The simulated nodes: names, topology labels and capacity.

Nodes are dealt to racks, racks to blocks and blocks to zones in contiguous, even runs, so that neighbours by number are
neighbours in the topology. Names of domains are unique in the whole cluster.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from grove.localcluster.spec import ClusterSpec

OWNER_LABEL = "local.grove.io/node"

ZONE_LABEL = "topology.kubernetes.io/zone"
BLOCK_LABEL = "topology.kubernetes.io/block"
RACK_LABEL = "topology.kubernetes.io/rack"
HOST_LABEL = "kubernetes.io/hostname"

# A cordoned node is somebody's wish and no reason to wait, so its taint is not among these.
_UNHEALTHY_TAINTS = {"node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable"}

_CPU = "128"
_MEMORY = "2Ti"
_PODS = "250"


def node_name(index: int) -> str:
    return f"node-{index}"


def node_labels(spec: ClusterSpec, index: int) -> dict[str, str]:
    """The labels of one node of the cluster."""
    rack = _share(index, spec.nodes, spec.racks)
    block = _share(rack, spec.racks, spec.blocks)
    zone = _share(block, spec.blocks, spec.zones)
    return {
        HOST_LABEL: node_name(index),
        RACK_LABEL: f"rack-{rack}",
        BLOCK_LABEL: f"block-{block}",
        ZONE_LABEL: f"zone-{zone}",
        OWNER_LABEL: "simulated",
        "kubernetes.io/os": "linux",
        "kubernetes.io/arch": "amd64",
        "type": "kwok",
    }


def node_capacity(spec: ClusterSpec) -> dict[str, str]:
    capacity = {"cpu": _CPU, "memory": _MEMORY, "pods": _PODS}
    if spec.gpus:
        capacity["nvidia.com/gpu"] = str(spec.gpus)
    return capacity


def node_document(spec: ClusterSpec, index: int) -> dict[str, Any]:
    """A Node as it is first created; kwok fills in the rest of the status."""
    capacity = node_capacity(spec)
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {
            "name": node_name(index),
            "labels": node_labels(spec, index),
            "annotations": {"kwok.x-k8s.io/node": "fake", "node.alpha.kubernetes.io/ttl": "0"},
        },
        "status": {"capacity": capacity, "allocatable": capacity},
    }


def is_simulated(node: Mapping[str, Any]) -> bool:
    """Whether the node was made by this room; nodes that a person added are left alone."""
    return OWNER_LABEL in (node["metadata"].get("labels") or {})


def is_schedulable(node: Mapping[str, Any]) -> bool:
    """Whether the node is Ready and the taint of its birth is gone."""
    conditions = node.get("status", {}).get("conditions", [])
    ready = any(one["type"] == "Ready" and one["status"] == "True" for one in conditions)
    tainted = any(taint["key"] in _UNHEALTHY_TAINTS for taint in node["spec"].get("taints", []))
    return ready and not tainted


def _share(index: int, total: int, shares: int) -> int:
    """Which of `shares` even runs the item belongs to."""
    return index * shares // total
