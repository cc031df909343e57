"""One handler per webhook: a review in, the rules of admission, a review out."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass, replace
from typing import Any

from grove.admission import Context, cluster_topology, default, scale, validate
from grove.admission.authorization import Identities, managed_write, set_name, topology_write
from grove.admission.findings import ADMITTED, Verdict
from grove.api.pod_clique_set import PodCliqueSet
from grove.webhooks import reviews
from grove.webhooks.patches import additions
from grove.webhooks.reviews import Json, attempt_of, request_of

_SCALED = {"podcliques": "PodClique", "podcliquescalinggroups": "PodCliqueScalingGroup"}


async def _no_minimum(resource: str, namespace: str, name: str) -> int | None:
    return None


async def _no_owner(namespace: str, name: str) -> PodCliqueSet | None:
    return None


def _no_neighbours(namespace: str, name: str) -> Iterable[PodCliqueSet]:
    return ()


@dataclass(frozen=True, slots=True)
class Surroundings:
    """What handlers ask of the running operator. Contexts change, so each review asks anew."""

    context: Callable[[], Context]
    identities: Identities
    minimum: Callable[[str, str, str], Awaitable[int | None]] = _no_minimum
    """The minAvailable of a PodClique or PodCliqueScalingGroup, by resource, namespace and name."""
    owner: Callable[[str, str], Awaitable[PodCliqueSet | None]] = _no_owner
    """A PodCliqueSet, by namespace and name."""
    neighbours: Callable[[str, str], Iterable[PodCliqueSet]] = _no_neighbours
    """The PodCliqueSets of a namespace that one of this name could meet."""


@dataclass(frozen=True, slots=True)
class Handlers:
    """The webhooks of one operator."""

    surroundings: Surroundings

    async def default_pod_clique_set(self, review: Json) -> Json:
        request = request_of(review)
        document = request.get("object")
        if not isinstance(document, dict) or _being_deleted(document):
            return reviews.allowed(review)
        old = request.get("oldObject")
        filled = default(document, old if isinstance(old, dict) else None)
        return reviews.patched(review, additions(document, filled))

    async def validate_pod_clique_set(self, review: Json) -> Json:
        request = request_of(review)
        document, old = request.get("object"), request.get("oldObject")
        if not isinstance(document, dict):
            return reviews.allowed(review)
        before = old if isinstance(old, dict) else None
        context = self.surroundings.context()
        if before is None:
            place = str(request.get("namespace") or ""), str(request.get("name") or "")
            context = replace(context, neighbours=tuple(self.surroundings.neighbours(*place)))
        return reviews.judged(review, validate(document, before, context))

    async def validate_scale(self, review: Json) -> Json:
        """PodCliques and scaling groups, written whole or through their scale subresource."""
        return reviews.judged(review, await self._scaled(request_of(review)))

    async def _scaled(self, request: Json) -> Verdict:
        attempt = attempt_of(request)
        kind = _SCALED.get(attempt.resource)
        replicas = _replicas(attempt.after)
        if kind is None or replicas is None or attempt.being_deleted or replicas == _replicas(attempt.before):
            return ADMITTED
        minimum = _minimum(attempt.after)
        if request.get("subResource") == "scale":
            minimum = await self.surroundings.minimum(attempt.resource, attempt.namespace, attempt.name)
        return ADMITTED if minimum is None else scale.check(kind, replicas, minimum)

    async def validate_cluster_topology(self, review: Json) -> Json:
        document = request_of(review).get("object")
        if not isinstance(document, dict) or _being_deleted(document):
            return reviews.allowed(review)
        return reviews.judged(review, Verdict(tuple(cluster_topology.check(document))))

    async def authorize_cluster_topology(self, review: Json) -> Json:
        attempt = attempt_of(request_of(review))
        return reviews.decided(review, topology_write(attempt, self.surroundings.identities))

    async def authorize_managed(self, review: Json) -> Json:
        attempt = attempt_of(request_of(review))
        name = set_name(attempt)
        owner = await self.surroundings.owner(attempt.namespace, name) if name else None
        return reviews.decided(review, managed_write(attempt, owner, self.surroundings.identities))


def _being_deleted(document: Json) -> bool:
    metadata = document.get("metadata")
    return isinstance(metadata, dict) and bool(metadata.get("deletionTimestamp"))


def _spec(document: Any) -> Any:
    spec = document.get("spec") if document else None
    return spec if isinstance(spec, dict) else {}


def _replicas(document: Any) -> int | None:
    replicas = _spec(document).get("replicas")
    return replicas if isinstance(replicas, int) else None


def _minimum(document: Any) -> int | None:
    minimum = _spec(document).get("minAvailable")
    return minimum if isinstance(minimum, int) else None
