"""Why a pod is not on a node, in the scheduler's own words.

Every scheduler says so in the pod's PodScheduled condition; the gang, the PodCliqueSet and an event repeat it. A
scheduler that lists every rack of a large cluster is cut to what a person reads: the first findings and the conclusion.
"""

from __future__ import annotations

from grove.api.core import Pod
from grove.api.meta import condition

_FINDINGS = 2
_LONGEST = 300


def refusal_of(pod: Pod) -> str:
    """What the scheduler says against placing the pod now; empty when it has not refused it."""
    if pod.spec.node_name:
        return ""
    placed = condition(pod.status.conditions, "PodScheduled")
    refused = placed is not None and placed.status == "False" and placed.reason == "Unschedulable"
    return shortened(placed.message) if placed and refused else ""


def shortened(message: str) -> str:
    """One line, not too long, that still ends with what the scheduler concludes."""
    lines = [line for line in (part.strip(" .;")[:_LONGEST] for part in message.splitlines()) if line]
    if len(lines) > _FINDINGS + 1:
        lines = [*lines[:_FINDINGS], f"{len(lines) - _FINDINGS - 1} more like these", lines[-1]]
    return "; ".join(lines)
