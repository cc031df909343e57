"""What is left of a PodCliqueSet that is gone. The garbage collector would get to it at its own pace; a thousand
pods on expensive machines should not wait for that.

Only what still names a managing owner goes: objects a user chose to keep (`--cascade=orphan`) name none.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from grove.api.core import Autoscaler, Pod, Service
from grove.api.kinds import AUTOSCALERS, POD_CLIQUES, POD_GANGS, PODS, SCALING_GROUPS, SERVICES
from grove.api.pod_clique import PodClique
from grove.api.pod_gang import PodGang
from grove.api.reasons import Reason
from grove.api.scaling_group import ScalingGroup
from grove.plan.actions import Action, Delete, Plan, Why
from grove.runtime.resource import Resource

Leftover = Pod | PodClique | ScalingGroup | PodGang | Service | Autoscaler
_KINDS: dict[type[Any], Resource[Any]] = {
    Pod: PODS,
    PodClique: POD_CLIQUES,
    ScalingGroup: SCALING_GROUPS,
    PodGang: POD_GANGS,
    Service: SERVICES,
    Autoscaler: AUTOSCALERS,
}


# What makes work while it stands: autoscalers make pods, and a Service has its endpoints written anew for every pod.
_FIRST = Pod | Autoscaler | Service


def plan_orphans(leftovers: Iterable[Leftover], *, pods_left: bool) -> Plan:
    """Pods and what follows them at once; everything else once the last pod of the set is gone (`pods_left` no more).
    The garbage collector has mostly been there by then, and until then the API server has the pods to see to.
    """
    ours = [item for item in leftovers if item.metadata.controller is not None]
    due = [item for item in ours if isinstance(item, _FIRST)] if pods_left else ours
    stage = tuple(_removal(item) for item in due if not item.metadata.terminating)
    return Plan((stage,) if stage else ())


def _removal(item: Leftover) -> Action:
    meta = item.metadata
    why = Why(Reason.CHILD_UNWANTED, f"the PodCliqueSet {meta.name} belonged to is gone")
    return Delete(_KINDS[type(item)], meta.namespace, meta.name, meta.uid, why)
