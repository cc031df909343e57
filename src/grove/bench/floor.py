"""The floor: the very objects the operator ends up with, for a bare script to post.

They are what the operator's own plans make on a model, so nothing about them is cheaper: labels that Services select
pods by, environment, hostnames. Only what ties them to the operator is taken off: owners that do not exist here would
have them collected as garbage, gates would hold them, and the labels the operator watches would make it work for both.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

import msgspec

from grove.api import labels
from grove.api.kinds import PODS
from grove.api.pod_clique_set import PodCliqueSet
from grove.bench.workloads import FLOOR_LABEL, Body, Shape, pod_clique_set
from grove.insight.model import Model
from grove.insight.objects import Objects
from grove.plan.actions import Action, Apply, Create

_SET = "floor-set"
_UID = "floor-uid"
_ANY_TIME = datetime(2026, 1, 1, tzinfo=UTC)
_NOT_OURS = ((labels.PART_OF, "bench.grove.io/part-of"), (f'"{labels.MANAGER}"', '"grove-bench"'))


class _Recorded(Objects):
    """Objects that remember what they were made from."""

    def __init__(self) -> None:
        super().__init__(_UID)
        self.bodies: dict[tuple[str, str], Body] = {}

    def carry_out(self, action: Action, now: datetime) -> bool:
        if isinstance(action, Create | Apply) and labels.REPLICA_INDEX in action.body["metadata"].get("labels", {}):
            self.bodies[action.resource.kind, action.body["metadata"]["name"]] = dict(action.body)
        return super().carry_out(action, now)


def floor_replicas(shape: Shape) -> Iterator[tuple[list[Body], list[Body]]]:
    """For every replica of every set: the objects around its pods, and its pods."""
    one = _text_of_one_replica(shape)
    for index in range(shape.sets * shape.replicas):
        bodies: list[Body] = msgspec.json.decode(one.replace(_SET, f"floor-{index}"))
        yield [b for b in bodies if b["kind"] != PODS.kind], [b for b in bodies if b["kind"] == PODS.kind]


def _text_of_one_replica(shape: Shape) -> str:
    wish = pod_clique_set(_SET, Shape(1, shape.cliques, shape.groups))
    wish["metadata"] |= {"uid": _UID, "generation": 1}
    made = _Recorded()
    Model(msgspec.convert(wish, PodCliqueSet), made).settle(_ANY_TIME)
    text = msgspec.json.encode([_unbound(body) for body in made.bodies.values()]).decode()
    for ours, theirs in _NOT_OURS:
        text = text.replace(ours, theirs)
    return text


def _unbound(body: Body) -> Body:
    metadata: dict[str, Any] = {k: v for k, v in body["metadata"].items() if k != "ownerReferences"}
    metadata["labels"] = {**metadata["labels"], FLOOR_LABEL: "true"}
    spec = {k: v for k, v in body["spec"].items() if k != "schedulingGates"}
    return {**body, "metadata": metadata, "spec": spec}
