"""The two webhooks of multi-node NVLink.

A PodClique that asks gets its ComputeDomain and claim made before it is stored, and the claim put into its pod spec. A
PodGang that will own such things is marked; they move to it after it is stored, because only then does it have a UID.
A dry run looks and answers alike but writes nothing. Any number of these may run at once: whoever comes second finds
what the first has made, sees that it is ours, and goes on.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from grove.api import labels
from grove.api.devices import COMPUTE_DOMAINS
from grove.api.kinds import POD_CLIQUE_SETS, POD_GANGS
from grove.plan import mnnvl, mnnvl_ownership
from grove.plan.mnnvl import Apis, ClaimForm, Domain
from grove.plan.revision import owner_reference
from grove.runtime import errors, requests
from grove.runtime.client import Client
from grove.runtime.objects import ObjectMeta, PartialObject
from grove.runtime.resource import Resource
from grove.webhooks import reviews
from grove.webhooks.patches import additions
from grove.webhooks.reviews import Json, request_of

_SETS = POD_CLIQUE_SETS.with_model(PartialObject)
_GANGS = POD_GANGS.with_model(PartialObject)


class Refusal(Exception):
    """The write cannot go ahead; the message says why and what would help."""


@dataclass(frozen=True, slots=True)
class MnnvlWebhooks:
    """Asks the API server itself, not a cache: what it decides on was there a moment ago. `client` must not be fenced,
    since every replica of the operator answers, whoever leads."""

    client: Client
    apis: Callable[[], Apis]
    per_pod: bool = False

    async def pod_clique(self, review: Json) -> Json:
        """PodClique CREATE and UPDATE."""
        request = request_of(review)
        document = request.get("object")
        if not isinstance(document, dict) or not _asks(document):
            return reviews.allowed(review)
        try:
            pod_spec = await self._joined(request, document)
        except Refusal as refusal:
            return _refused(review, 403, "Forbidden", str(refusal))
        except errors.ApiError as error:
            return _refused(review, 500, "InternalError", f"the ComputeDomain could not be looked up or made: {error}")
        joined = {**document, "spec": {**document["spec"], "podSpec": pod_spec}}
        return reviews.patched(review, additions(document, joined))

    async def pod_gang(self, review: Json) -> Json:
        """PodGang CREATE. A mark only, on gangs that will own domains: the transfer does not depend on it."""
        annotations = _metadata(request_of(review).get("object")).get("annotations") or {}
        if not mnnvl.enabled(annotations) or labels.MNNVL_ADOPTED in annotations:
            return reviews.allowed(review)
        return reviews.patched(review, mnnvl_ownership.annotated(annotations, mnnvl_ownership.PENDING))

    async def _joined(self, request: Json, document: Json) -> Json:
        """The pod spec of a clique that asks, with everything it refers to in place."""
        meta, pod_spec = _metadata(document), document["spec"]["podSpec"]
        if not mnnvl.uses_gpus(pod_spec):
            return mnnvl.withdraw(pod_spec) if mnnvl.claimed(pod_spec) else pod_spec
        namespace = request.get("namespace") or meta.get("namespace") or ""
        try:
            domain = mnnvl.domain_of(namespace, meta.get("labels") or {}, meta["annotations"])
        except mnnvl.Unplaceable as problem:
            raise Refusal(str(problem)) from problem
        form = ClaimForm(self.apis().claims_version or "v1", self.per_pod)
        entry = mnnvl.reference(domain, form)
        _check_entry(pod_spec, domain)
        if not _carries(request.get("oldObject"), entry):
            await self._ensure(domain, form, document, dry_run=bool(request.get("dryRun")))
        return mnnvl.inject(pod_spec, entry)

    async def _ensure(self, domain: Domain, form: ClaimForm, document: Json, *, dry_run: bool) -> None:
        """Both objects are there and ours. Both are looked at before either is made, so that nothing is half made."""
        missing = self.apis().missing
        if missing:
            raise Refusal(missing)
        owner = await self._owner(domain, document)
        wishes: list[tuple[Resource[Any], Json]] = [
            (COMPUTE_DOMAINS, mnnvl.domain_body(domain, owner)),
            (form.resource, mnnvl.claim_body(domain, form, owner)),
        ]
        found = await asyncio.gather(*(self._standing(resource, body, domain) for resource, body in wishes))
        for standing, (resource, body) in zip(found, wishes, strict=True):
            if not standing and not dry_run:
                await self._create(resource, body, domain)

    async def _owner(self, domain: Domain, document: Json) -> Json:
        """The PodCliqueSet as the owner until the PodGang is there."""
        called = f"PodCliqueSet '{domain.set_name}'"
        try:
            meta = (await self.client.send(requests.get(_SETS, domain.namespace, domain.set_name))).metadata
        except errors.NotFound as gone:
            raise Refusal(f"{called} does not exist, so nobody would own the ComputeDomain") from gone
        if meta.terminating:
            raise Refusal(f"{called} is being deleted")
        for reference in _metadata(document).get("ownerReferences") or ():
            if reference.get("kind") == _SETS.kind and reference.get("uid") != meta.uid:
                raise Refusal(f"the PodClique belongs to an earlier {called}")
        return owner_reference(_SETS.api_version, _SETS.kind, meta.name, meta.uid)

    async def _standing(self, resource: Resource[Any], body: Json, domain: Domain) -> bool:
        """Whether the object exists; a Refusal when it exists and is not ours."""
        name = body["metadata"]["name"]
        try:
            item = await self.client.send(requests.get(resource, domain.namespace, name))
        except errors.NotFound:
            return False
        set_uid = body["metadata"]["ownerReferences"][0]["uid"]
        against = mnnvl_ownership.objection(item.metadata, domain, set_uid, await self._gang_uid(item.metadata, domain))
        if not against and resource is not COMPUTE_DOMAINS:
            against = _other_class(mnnvl.device_class_of(item), domain)
        if against:
            raise Refusal(f"{resource.kind} {domain.namespace}/{name} exists and cannot be used: {against}")
        return True

    async def _gang_uid(self, meta: ObjectMeta, domain: Domain) -> str:
        """The UID of the domain's PodGang as it stands, asked for only where the object says it is owned by one."""
        if mnnvl_ownership.held_by(meta, POD_GANGS) is None:
            return ""
        try:
            gang = await self.client.send(requests.get(_GANGS, domain.namespace, domain.gang))
        except errors.NotFound:
            return ""
        return gang.metadata.uid

    async def _create(self, resource: Resource[Any], body: Json, domain: Domain) -> None:
        try:
            await self.client.send(requests.create(resource, body))
        except errors.AlreadyExists:
            # Another clique of the domain, or another webhook, was faster. If it is gone again, the write is repeated.
            if not await self._standing(resource, body, domain):
                raise


def _asks(document: Json) -> bool:
    meta, spec = _metadata(document), document.get("spec")
    annotations = meta.get("annotations") or {}
    pod_spec = spec.get("podSpec") if isinstance(spec, dict) else None
    return not meta.get("deletionTimestamp") and mnnvl.enabled(annotations) and isinstance(pod_spec, dict)


def _check_entry(pod_spec: Json, domain: Domain) -> None:
    entry = mnnvl.claimed(pod_spec)
    if entry is not None and domain.claim not in (
        entry.get("resourceClaimName"),
        entry.get("resourceClaimTemplateName"),
    ):
        raise Refusal(f"podSpec.resourceClaims has an entry '{mnnvl.CLAIM}' of its own; MNNVL adds one of that name")


def _other_class(found: str | None, domain: Domain) -> str:
    if found == domain.device_class:
        return ""
    return f"it asks for device class '{found}', not '{domain.device_class}'"


def _carries(before: Any, entry: Json) -> bool:
    """Whether the clique as it was stored already leads to the domain; then there is nothing to make."""
    spec = before.get("spec") if isinstance(before, dict) else None
    return isinstance(spec, dict) and mnnvl.claimed(spec.get("podSpec") or {}) == entry


def _metadata(document: Any) -> Json:
    meta = document.get("metadata") if isinstance(document, dict) else None
    return meta if isinstance(meta, dict) else {}


def _refused(review: Json, code: int, reason: str, message: str) -> Json:
    status = {"status": "Failure", "code": code, "reason": reason, "message": message}
    return reviews.answer(review, {"allowed": False, "status": status})
