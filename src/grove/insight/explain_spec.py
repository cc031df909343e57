"""Misconfigured: what no waiting will cure, because what was asked for cannot be carried out as it is written."""

from __future__ import annotations

from collections.abc import Iterator

from grove.api import labels
from grove.api.meta import condition
from grove.api.reasons import Reason
from grove.insight import pod_state
from grove.insight.case import Case
from grove.insight.findings import Cause, Evidence, Finding, Tier, counted, look_up
from grove.plan.set_status import TOPOLOGY_CONSTRAINTS
from grove.schedulers import kai


def misconfigured(case: Case) -> Iterator[Finding]:
    """Everything that must be written differently."""
    yield from _topology(case)
    yield from _refused_writes(case)
    yield from _queues(case)
    yield from _containers(case)


def _topology(case: Case) -> Iterator[Finding]:
    said = condition(case.owner.status.conditions, TOPOLOGY_CONSTRAINTS) if case.owner.status else None
    if said is None or said.status != "False":
        return
    levels = ", ".join(level.domain for level in case.snapshot.levels) if case.snapshot.topology else "none"
    yield Finding(
        tier=Tier.MISCONFIGURED,
        reason=said.reason,
        subject=case.owner.metadata.name,
        headline=said.message,
        next_step=look_up(said.reason).remedy,
        evidence=(Evidence(title="topology levels of this cluster", lines=(levels,)),),
    )


def quota_refusal(text: str) -> bool:
    """Whether a refused write is a matter of room in a quota rather than of what was written."""
    return "exceeded quota" in text


def _refused_writes(case: Case) -> Iterator[Finding]:
    errors = case.owner.status.last_errors if case.owner.status else []
    told = [error.description for error in errors if not quota_refusal(error.description)]
    if told:
        yield Finding(
            tier=Tier.MISCONFIGURED,
            reason=Reason.WRITE_REFUSED,
            subject=case.owner.metadata.name,
            headline=told[0],
            next_step=Reason.WRITE_REFUSED.remedy,
            evidence=(Evidence(title="refused by the API server", lines=tuple(told[:3])),),
        )


def _queues(case: Case) -> Iterator[Finding]:
    if "Queue" in case.snapshot.unread:
        return
    known = {queue.metadata.name: queue for queue in case.snapshot.queues}
    parents = {queue.spec.parent_queue for queue in case.snapshot.queues}
    for gang in case.unplaced:
        if case.scheduler(gang) != kai.NAME:
            continue
        group = case.pod_group(gang)
        name = (group.spec.queue if group else "") or gang.metadata.labels.get(kai.QUEUE_LABEL, "")
        if not name:
            continue
        queue = known.get(name)
        leaves = ", ".join(sorted(n for n, q in known.items() if q.spec.parent_queue and n not in parents)) or "none"
        if queue is None:
            cause, words = Cause.QUEUE_MISSING, f"queue {name} does not exist"
        elif name in parents or not queue.spec.parent_queue:
            cause, words = Cause.QUEUE_NOT_LEAF, f"queue {name} is not a leaf queue"
        else:
            continue
        yield Finding(
            tier=Tier.MISCONFIGURED,
            reason=cause,
            subject=gang.metadata.name,
            headline=f"gang {gang.metadata.name} cannot be scheduled: {words}",
            next_step=cause.remedy,
            evidence=(Evidence(title="queues that take gangs", lines=(leaves,)),),
        )


def _containers(case: Case) -> Iterator[Finding]:
    """Containers that cannot be made: the same words of several pods of a clique are one finding."""
    found: dict[tuple[str, Cause, str], list[str]] = {}
    for pod in case.live:
        for container, reason in pod_state.waiting_reasons(pod):
            cause = (
                Cause.IMAGE
                if reason in pod_state.IMAGE_REASONS
                else Cause.CONTAINER_CONFIG
                if reason in pod_state.CONFIG_REASONS
                else None
            )
            if cause:
                clique = pod.metadata.labels.get(labels.POD_CLIQUE, "")
                found.setdefault((clique, cause, f"{container}: {reason}"), []).append(pod.metadata.name)
    for (clique, cause, words), pods in found.items():
        message = pod_state.waiting_message(case.pods[pods[0]])
        yield Finding(
            tier=Tier.MISCONFIGURED,
            reason=cause,
            subject=clique,
            headline=f"{counted(len(pods), 'pod')} of {clique} cannot start, container {words}",
            next_step=cause.remedy,
            evidence=(Evidence(title="the node says", lines=(message,)),) if message else (),
        )
