"""Pods as they are created: the clique's pod spec, and around it what a member of a gang needs to find its place.

Nothing here enters the revision hash: a changed default in this file reaches new pods and restarts none.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from grove.api import labels, names
from grove.api.kinds import POD_CLIQUES
from grove.api.pod_clique import PodClique
from grove.plan.revision import owner_reference
from grove.plan.settings import Settings
from grove.schedulers.choice import PodMarks

TOKEN_VOLUME = "grove-initc-token"
TOKEN_PATH = "/var/run/secrets/kubernetes.io/serviceaccount"
_TOKEN_SECONDS = 3600
_OWN_LABELS = (labels.GENERATION_HASH,)


@dataclass(frozen=True, slots=True)
class PodContext:
    """What the pods of one clique share besides the clique itself."""

    set_name: str
    set_index: int
    priority_class_name: str
    scheduler: str
    marks: PodMarks
    parents: Sequence[tuple[str, int]]
    group_pods: int | None
    settings: Settings


def pod(clique: PodClique, index: int, context: PodContext, *, gated: bool) -> dict[str, Any]:
    """The pod at this index, ready to be created."""
    meta = clique.metadata
    name = names.pod(meta.name, index)
    spec: dict[str, Any] = dict(clique.spec.pod_spec)
    spec["schedulerName"] = context.scheduler
    spec |= context.marks.spec
    if context.priority_class_name:
        spec["priorityClassName"] = context.priority_class_name
    if gated:
        spec["schedulingGates"] = [*spec.get("schedulingGates", ()), {"name": labels.GATE}]
    spec["hostname"] = name
    spec["subdomain"] = names.replica(context.set_name, context.set_index)
    _add_environment(spec, clique, context)
    if context.parents:
        _add_init_container(spec, context)
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": name,
            "namespace": meta.namespace,
            "labels": _labels(clique, index, context),
            "annotations": {**meta.annotations, **context.marks.annotations},
            "ownerReferences": [owner_reference(POD_CLIQUES.api_version, POD_CLIQUES.kind, meta.name, meta.uid)],
        },
        "spec": spec,
    }


def _labels(clique: PodClique, index: int, context: PodContext) -> dict[str, str]:
    inherited = {k: v for k, v in clique.metadata.labels.items() if k not in _OWN_LABELS}
    return {
        **inherited,
        labels.POD_CLIQUE: clique.metadata.name,
        labels.POD_INDEX: str(index),
        **context.marks.labels,
    }


def _add_environment(spec: dict[str, Any], clique: PodClique, context: PodContext) -> None:
    """Ours first, so that the user's variables may refer to them; a user's variable of the same name gives way."""
    ours = _environment(clique, context)
    reserved = {entry["name"] for entry in ours}
    for kind in ("containers", "initContainers"):
        if kind in spec:
            spec[kind] = [_with_environment(container, ours, reserved) for container in spec[kind]]


def _with_environment(container: Mapping[str, Any], ours: Sequence[Any], reserved: set[str]) -> dict[str, Any]:
    theirs = [entry for entry in container.get("env", ()) if entry.get("name") not in reserved]
    return {**container, "env": [*ours, *theirs]}


def _environment(clique: PodClique, context: PodContext) -> list[dict[str, Any]]:
    namespace = clique.metadata.namespace
    found = [
        {"name": labels.ENV_SET_NAME, "value": context.set_name},
        {"name": labels.ENV_SET_INDEX, "value": str(context.set_index)},
        {"name": labels.ENV_CLIQUE_NAME, "value": clique.metadata.name},
        {
            "name": labels.ENV_HEADLESS_SERVICE,
            "value": names.service_domain(context.set_name, context.set_index, namespace),
        },
        _from_label(labels.ENV_POD_INDEX, labels.POD_INDEX),
    ]
    if context.group_pods is not None:
        found += [
            _from_label(labels.ENV_GROUP_NAME, labels.SCALING_GROUP),
            _from_label(labels.ENV_GROUP_INDEX, labels.SCALING_GROUP_REPLICA_INDEX),
            {"name": labels.ENV_GROUP_PODS, "value": str(context.group_pods)},
        ]
    return found


def _from_label(name: str, label: str) -> dict[str, Any]:
    return {"name": name, "valueFrom": {"fieldRef": {"fieldPath": f"metadata.labels['{label}']"}}}


def _add_init_container(spec: dict[str, Any], context: PodContext) -> None:
    """The waiting program goes last, behind the user's own init containers, and reads pods with the pod's identity."""
    container = {
        "name": labels.INIT_CONTAINER,
        "image": context.settings.init_image,
        "command": ["grove-initc"],
        "args": [f"--podcliques={name}:{minimum}" for name, minimum in context.parents],
        "env": [
            {"name": "POD_NAMESPACE", "valueFrom": {"fieldRef": {"fieldPath": "metadata.namespace"}}},
            _from_label("POD_GANG", labels.POD_GANG),
        ],
        "volumeMounts": [{"name": TOKEN_VOLUME, "mountPath": TOKEN_PATH, "readOnly": True}],
    }
    spec["initContainers"] = [*spec.get("initContainers", ()), container]
    spec["volumes"] = [*spec.get("volumes", ()), _token_volume()]
    if not spec.get("serviceAccountName"):
        spec["serviceAccountName"] = names.service_account(context.set_name)


def _token_volume() -> dict[str, Any]:
    return {
        "name": TOKEN_VOLUME,
        "projected": {
            "sources": [
                {"serviceAccountToken": {"path": "token", "expirationSeconds": _TOKEN_SECONDS}},
                {"configMap": {"name": "kube-root-ca.crt", "items": [{"key": "ca.crt", "path": "ca.crt"}]}},
                {"downwardAPI": {"items": [{"path": "namespace", "fieldRef": {"fieldPath": "metadata.namespace"}}]}},
            ]
        },
    }
