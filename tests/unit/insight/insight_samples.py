"""Snapshots for questions: what the operator would make of a set, on nodes in racks, with pods where a test wants them.

Objects come from the model that runs the operator's own plans, so that names and labels are the real ones.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec

from grove.api import labels
from grove.api.cluster_topology import ClusterTopology
from grove.api.core import Node
from grove.api.kinds import CONTROLLER_REVISIONS, POD_CLIQUES, POD_GANGS, PODS, SCALING_GROUPS
from grove.api.pod_clique_set import PodCliqueSet
from grove.insight.forecast import run_to_rest
from grove.insight.kinds import PodDetail
from grove.insight.model import Conduct, Model
from grove.insight.snapshot import Snapshot
from grove.plan.settings import Settings, TopologySettings

NOW = datetime(2026, 3, 1, 12, 0, tzinfo=UTC)
BORN = NOW - timedelta(minutes=10)
LEVELS = [
    {"domain": "block", "key": "example.com/block"},
    {"domain": "rack", "key": "example.com/rack"},
    {"domain": "host", "key": "kubernetes.io/hostname"},
]
TOPOLOGY = msgspec.convert({"metadata": {"name": "grove-topology"}, "spec": {"levels": LEVELS}}, ClusterTopology)
SETTINGS = Settings(topology=TopologySettings(True, "grove-topology", tuple(TOPOLOGY.spec.levels)))


def clique(
    name: str, replicas: int = 1, *, gpus: int = 0, minimum: int | None = None, **pod_spec: Any
) -> dict[str, Any]:
    resources = {"limits": {"nvidia.com/gpu": str(gpus)}} if gpus else {"requests": {"cpu": "1"}}
    spec = {
        "schedulerName": "kai-scheduler",
        "containers": [{"name": "main", "image": f"{name}:1", "resources": resources}],
        **pod_spec,
    }
    return {
        "name": name,
        "spec": {
            "roleName": name,
            "replicas": replicas,
            "minAvailable": replicas if minimum is None else minimum,
            "podSpec": spec,
        },
    }


def pod_clique_set(*cliques: dict[str, Any], replicas: int = 1, strategy: Any = None, **template: Any) -> PodCliqueSet:
    document = {
        "metadata": {"name": "demo", "namespace": "team", "uid": "root", "generation": 1},
        "spec": {
            "replicas": replicas,
            "template": {"cliques": list(cliques), **template},
            **({"updateStrategy": strategy} if strategy else {}),
        },
    }
    return msgspec.convert(document, PodCliqueSet)


def nodes(count: int, *, per_rack: int = 4, racks_per_block: int = 2, gpus: int = 8) -> tuple[Node, ...]:
    return tuple(node(i, i // per_rack, i // per_rack // racks_per_block, gpus) for i in range(count))


def node(index: int, rack: int, block: int, gpus: int = 8, **spec: Any) -> Node:
    document = {
        "metadata": {
            "name": f"node-{index}",
            "labels": {
                "example.com/block": f"block-{block}",
                "example.com/rack": f"rack-{rack}",
                "kubernetes.io/hostname": f"node-{index}",
            },
        },
        "spec": spec,
        "status": {
            "allocatable": {"cpu": "64", "memory": "256Gi", "pods": "110", "nvidia.com/gpu": str(gpus)},
            "conditions": [{"type": "Ready", "status": "True"}],
        },
    }
    return msgspec.convert(document, Node)


def grown(owner: PodCliqueSet, conduct: Conduct | None = None) -> Model:
    """The set after operator and cluster have done what they can."""
    model = Model.from_objects(owner, settings=SETTINGS)
    model.conduct = conduct or Conduct()
    run_to_rest(model, BORN)
    return model


Placing = Callable[[int, PodDetail], str]


def snapshot(model: Model, cluster: Iterable[Node] = (), place: Placing | None = None, **further: Any) -> Snapshot:
    """What a lister would have seen. Pods that the model placed go to `place(position, pod)`."""
    found = tuple(cluster)
    chosen = place or (lambda i, pod: found[i % len(found)].metadata.name if found else "node")
    cliques = model.objects.of(POD_CLIQUES)
    pods = []
    for i, (_, pod) in enumerate(sorted(model.objects.of(PODS).items())):
        detail = msgspec.convert(msgspec.to_builtins(pod), PodDetail)
        source = cliques[pod.metadata.labels[labels.POD_CLIQUE]].spec.pod_spec
        detail.spec.containers = source["containers"]
        detail.spec.node_name = chosen(i, detail) if pod.spec.node_name else ""
        pods.append(detail)
    return Snapshot(
        now=NOW,
        sets=(model.owner,),
        cliques=tuple(cliques.values()),
        groups=tuple(model.objects.of(SCALING_GROUPS).values()),
        gangs=tuple(model.objects.of(POD_GANGS).values()),
        pods=(*pods, *further.pop("other_pods", ())),
        revisions=tuple(model.objects.of(CONTROLLER_REVISIONS).values()),
        nodes=found,
        topologies=(TOPOLOGY,),
        **further,
    )


def with_pod(found: Snapshot, name: str, **changes: Any) -> Snapshot:
    """The snapshot with fields of one pod's status or spec replaced, given as in a manifest."""
    pods = []
    for pod in found.pods:
        if pod.metadata.name == name:
            document = msgspec.to_builtins(pod)
            for part, values in changes.items():
                document.setdefault(part, {}).update(values)
            pod = msgspec.convert(document, PodDetail)
        pods.append(pod)
    return replace(found, pods=tuple(pods))


def occupant(name: str, on: str, gpus: int) -> PodDetail:
    """Somebody else's pod."""
    document = {
        "metadata": {"name": name, "namespace": "others"},
        "spec": {
            "nodeName": on,
            "containers": [{"name": "c", "resources": {"limits": {"nvidia.com/gpu": str(gpus)}}}],
        },
        "status": {"phase": "Running"},
    }
    return msgspec.convert(document, PodDetail)


def nothing_placed() -> Conduct:
    return Conduct(places=lambda pod: False)
