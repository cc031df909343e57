"""Which pods need the waiting program, and how a kubelet would call it there: arguments and environment."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from grove.localcluster.stages import INIT_CONTAINER, INITC_FINISHED

Pod = Mapping[str, Any]

# What a reference to a field of the pod may name here; a kubelet knows a few more.
_PLAIN_FIELDS = {
    "metadata.name": ("metadata", "name"),
    "metadata.namespace": ("metadata", "namespace"),
    "metadata.uid": ("metadata", "uid"),
    "spec.nodeName": ("spec", "nodeName"),
    "spec.serviceAccountName": ("spec", "serviceAccountName"),
    "status.podIP": ("status", "podIP"),
    "status.hostIP": ("status", "hostIP"),
}
_KEYED_FIELD = re.compile(r"metadata\.(labels|annotations)\['(.+)'\]")


@dataclass(frozen=True)
class WaitingPod:
    """A pod that is held until its waiting program has ended, with what the program is called with."""

    namespace: str
    name: str
    uid: str
    service_account: str
    arguments: tuple[str, ...]
    environment: Mapping[str, str]

    def __str__(self) -> str:
        return f"{self.namespace}/{self.name}"


def waiting_pod(pod: Pod) -> WaitingPod | None:
    """The pod as one that waits; None when it has no such init container, is finished with it, not bound or leaving."""
    metadata, spec = pod["metadata"], pod["spec"]
    container = _init_container(pod)
    finished = (metadata.get("annotations") or {}).get(INITC_FINISHED) == "true"
    if container is None or finished or not spec.get("nodeName") or metadata.get("deletionTimestamp"):
        return None
    return WaitingPod(
        namespace=metadata["namespace"],
        name=metadata["name"],
        uid=metadata["uid"],
        service_account=spec.get("serviceAccountName") or "default",
        arguments=tuple(container.get("args") or ()),
        environment={entry["name"]: _value(pod, entry) for entry in container.get("env") or ()},
    )


def _init_container(pod: Pod) -> Mapping[str, Any] | None:
    containers = pod["spec"].get("initContainers") or ()
    return next((one for one in containers if one["name"] == INIT_CONTAINER), None)


def _value(pod: Pod, entry: Mapping[str, Any]) -> str:
    """The value of a variable; empty where it refers to something the pod does not have, as with a kubelet."""
    if "valueFrom" not in entry:
        return str(entry.get("value") or "")
    field = (entry["valueFrom"].get("fieldRef") or {}).get("fieldPath", "")
    if field in _PLAIN_FIELDS:
        part, name = _PLAIN_FIELDS[field]
        return str((pod.get(part) or {}).get(name) or "")
    keyed = _KEYED_FIELD.fullmatch(field)
    if keyed is None:
        return ""
    return str((pod["metadata"].get(keyed[1]) or {}).get(keyed[2]) or "")
