"""Who may write what the operator owns: the ClusterTopology, and the objects made for a PodCliqueSet.

Kubernetes' own caretakers are never in the way: the garbage collector and the namespace controller must be able to
delete, and an object that is being deleted may lose its finalizers, or a namespace could hang for ever.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from grove.api import labels
from grove.api.pod_clique_set import PodCliqueSet

Json = Mapping[str, Any]
Operation = Literal["CREATE", "UPDATE", "DELETE", "CONNECT"]

_SYSTEM = "system:serviceaccount:kube-system:"
CARETAKERS = frozenset(
    {
        f"{_SYSTEM}generic-garbage-collector",
        f"{_SYSTEM}namespace-controller",
        "system:kube-controller-manager",
    }
)
# Controllers of Kubernetes that write to objects of ours as part of their work.
_WORKERS = CARETAKERS | {
    f"{_SYSTEM}horizontal-pod-autoscaler",
    f"{_SYSTEM}endpoint-controller",
    f"{_SYSTEM}endpointslice-controller",
    f"{_SYSTEM}service-controller",
    f"{_SYSTEM}node-controller",
    f"{_SYSTEM}pod-garbage-collector",
    f"{_SYSTEM}disruption-controller",
    f"{_SYSTEM}tokens-controller",
    f"{_SYSTEM}legacy-service-account-token-cleaner",
    f"{_SYSTEM}resource-claim-controller",
    "system:kube-scheduler",
}
_TOPOLOGY_MESSAGES = {
    "CREATE": "ClusterTopology can only be created by the operator",
    "UPDATE": "ClusterTopology can only be modified by the operator",
    "DELETE": "ClusterTopology can only be deleted by the operator",
}


@dataclass(frozen=True, slots=True)
class Identities:
    """The user names that count: the operator's own, and those an administrator exempts."""

    operator: str
    exempt: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class Attempt:
    """One write to a protected object."""

    user: str
    operation: Operation
    resource: str
    namespace: str
    name: str
    before: Json | None
    after: Json | None

    @property
    def object(self) -> Json:
        """The object as stored; for a creation, as sent."""
        return self.before or self.after or {}

    @property
    def being_deleted(self) -> bool:
        return bool(_metadata(self.before or {}).get("deletionTimestamp"))


@dataclass(frozen=True, slots=True)
class Decision:
    """Whether a write may go ahead, and what to say about it."""

    allowed: bool
    message: str = ""
    warning: str = ""


ALLOWED = Decision(True)


def topology_write(attempt: Attempt, identities: Identities) -> Decision:
    """A ClusterTopology follows the operator's configuration, so the operator alone writes it."""
    if attempt.user == identities.operator or attempt.being_deleted:
        return ALLOWED
    if attempt.user in CARETAKERS and (attempt.operation == "DELETE" or _same_spec(attempt)):
        return ALLOWED
    message = _TOPOLOGY_MESSAGES.get(attempt.operation)
    return ALLOWED if message is None else Decision(False, message)


def managed_write(attempt: Attempt, owner: PodCliqueSet | None, identities: Identities) -> Decision:
    """An object made for a PodCliqueSet is written by the operator, unless its owner's annotation opens it."""
    if attempt.operation == "CONNECT" or attempt.being_deleted or _is_worker(attempt.user):
        return ALLOWED
    if attempt.user == identities.operator or attempt.user in identities.exempt:
        return ALLOWED
    if attempt.resource == "pods" and attempt.operation == "DELETE":
        return ALLOWED
    if not set_name(attempt):
        return Decision(True, warning=f"{_called(attempt)} carries no {labels.PART_OF} label, so it is not protected")
    if owner is None:
        return Decision(True, warning=f"the PodCliqueSet of {_called(attempt)} does not exist, so it is not protected")
    if owner.metadata.annotations.get(labels.DISABLE_PROTECTION) == "true" or _is_manual_update(attempt, owner):
        return ALLOWED
    verb = {"CREATE": "created", "UPDATE": "changed", "DELETE": "deleted"}[attempt.operation]
    return Decision(
        False,
        f"{_called(attempt)} is managed by the operator and cannot be {verb} by {attempt.user} "
        f"(change PodCliqueSet '{owner.metadata.name}' instead, or annotate it {labels.DISABLE_PROTECTION}=true)",
    )


def set_name(attempt: Attempt) -> str:
    """The PodCliqueSet a managed object belongs to, as its label says; empty when it says nothing."""
    marks = _metadata(attempt.object).get("labels") or {}
    return str(marks.get(labels.PART_OF) or "")


def _is_worker(user: str) -> bool:
    return user in _WORKERS or user.startswith("system:node:")


def _is_manual_update(attempt: Attempt, owner: PodCliqueSet) -> bool:
    """Under OnDelete, deleting the cliques of a group replica is how its owner asks for the new version."""
    return owner.spec.strategy.type == "OnDelete" and attempt.operation == "DELETE" and attempt.resource == "podcliques"


def _same_spec(attempt: Attempt) -> bool:
    return attempt.operation == "UPDATE" and (attempt.before or {}).get("spec") == (attempt.after or {}).get("spec")


def _called(attempt: Attempt) -> str:
    return f"{attempt.resource} {attempt.namespace}/{attempt.name}"


def _metadata(value: Json) -> Json:
    metadata = value.get("metadata")
    return metadata if isinstance(metadata, Mapping) else {}
