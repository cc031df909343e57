"""What an explanation is made of: tiers in the order in which they matter, findings, evidence.

Reasons are the operator's own words wherever it has one; the few causes that only an onlooker can see have theirs here,
with meaning and remedy like every other reason.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

import msgspec

from grove.api.reasons import Reason


class Tier(StrEnum):
    """What kind of trouble, worst first: what must be corrected, then what must be waited for, then what runs badly."""

    MISCONFIGURED = "misconfigured"
    NEVER_FITS = "can never fit"
    NOT_NOW = "fits, but not now"
    HELD = "held by a gate or dependency"
    SILENT = "scheduler silent"
    CRASHING = "crash looping"
    STARTING = "starting"
    UPDATING = "updating"
    HEALTHY = "healthy"

    @property
    def rank(self) -> int:
        return list(Tier).index(self)


class Cause(StrEnum):
    """Causes that no condition tells; `meaning` and `remedy` as with every reason."""

    meaning: str
    remedy: str

    def __new__(cls, word: str, meaning: str, remedy: str) -> Cause:
        member = str.__new__(cls, word)
        member._value_ = word
        member.meaning = meaning
        member.remedy = remedy
        return member

    QUEUE_MISSING = (
        "QueueMissing",
        "The gang names a queue that does not exist, and the scheduler passes over it in silence.",
        "Create the queue, or name an existing one in the label kai.scheduler/queue.",
    )
    QUEUE_NOT_LEAF = (
        "QueueNotLeaf",
        "The scheduler places gangs only from queues that have a parent and no children.",
        "Name a leaf queue in the label kai.scheduler/queue.",
    )
    IMAGE = ("ImageUnavailable", "A container's image cannot be fetched.", "Correct the image or its pull secret.")
    CONTAINER_CONFIG = (
        "ContainerConfigError",
        "A container cannot be created from its spec.",
        "Correct what the message names: usually a missing ConfigMap, Secret or command.",
    )
    NEVER_FITS = (
        "TooLargeForCluster",
        "Even the empty cluster could not take this gang.",
        "Ask for less, allow a wider packDomain, or add nodes.",
    )
    QUOTA_TOO_SMALL = (
        "QuotaTooSmall",
        "The namespace's ResourceQuota is smaller than the gang.",
        "Raise the quota, or ask for less.",
    )
    QUEUE_TOO_SMALL = (
        "QueueLimitTooSmall",
        "The queue's limit is smaller than the gang.",
        "Raise the queue's limit, or ask for less.",
    )
    NO_ROOM = (
        "NoRoomNow",
        "The gang would fit if others were not there.",
        "Wait for room, free some, or raise the gang's priority.",
    )
    QUOTA_USED = (
        "QuotaUsedUp",
        "The namespace's ResourceQuota leaves less than the gang needs.",
        "Free some of it, or raise the quota.",
    )
    QUEUE_USED = (
        "QueueLimitReached",
        "The gang's queue is at its limit.",
        "Wait for the queue's other gangs, or raise its limit.",
    )
    REFUSED = (
        "SchedulerRefuses",
        "The scheduler says no although there is room by this arithmetic.",
        "Read its message; priority, quota of the queue or a constraint this tool does not know may stand behind it.",
    )
    FOREIGN_GATE = (
        "SchedulingGate",
        "The pods carry a scheduling gate that is not the operator's.",
        "Look to whoever set the gate; the operator never removes it.",
    )
    START_ORDER = (
        "WaitingForStartOrder",
        "The pods are on their nodes and wait for the cliques they start after.",
        "See why those cliques are not ready.",
    )
    CLAIM = (
        "ResourceClaimPending",
        "The pods wait for a resource claim.",
        "See `kubectl describe resourceclaim`, and whether the driver for its device class runs.",
    )
    SCHEDULER_SILENT = (
        "SchedulerSilent",
        "There is room, nothing holds the pods, and no scheduler has said a word about them.",
        "See whether the scheduler that schedulerName names is running.",
    )
    OPERATOR_SILENT = (
        "OperatorSilent",
        "The operator has not looked at this spec yet.",
        "See whether the operator is running and leads: `kubectl get lease -A`.",
    )
    CRASHING = (
        "CrashLoop",
        "Containers end soon after they start, again and again.",
        "Read why: `kubectl logs --previous POD`.",
    )
    FAILED = ("PodFailed", "Pods have ended in failure.", "Read why: `kubectl describe pod POD`.")
    NOT_READY = (
        "NotReady",
        "Pods run but do not pass their readiness check.",
        "See `kubectl describe pod POD`, and the container's log.",
    )
    STARTING = ("Starting", "Pods are being placed or started.", "Nothing to do; `grove get NAME -w` follows it.")


class Evidence(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """Facts of one kind."""

    title: str
    lines: tuple[str, ...]


class Finding(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """One thing that is wrong. `behind` names what it waits for: a finding about that says more."""

    tier: Tier
    reason: str
    subject: str
    headline: str
    next_step: str
    evidence: tuple[Evidence, ...] = ()
    behind: tuple[str, ...] = ()


class Explanation(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """The answer: the dominant finding, what is behind it, and what else was found."""

    namespace: str
    name: str
    tier: Tier
    reason: str
    meaning: str
    subject: str
    headline: str
    next_step: str
    evidence: tuple[Evidence, ...] = ()
    others: tuple[Finding, ...] = ()
    blind: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Word:
    """A reason with its explanation, whoever's it is."""

    reason: str
    meaning: str
    remedy: str


def look_up(reason: str) -> Word:
    """What a reason means."""
    known: list[Cause | Reason] = [*Cause, *Reason]
    found = next((one for one in known if one == reason), None)
    return Word(reason, found.meaning, found.remedy) if found else Word(reason, "", "")


def counted(number: int, noun: str) -> str:
    """`1 pod`, `3 pods`."""
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"
