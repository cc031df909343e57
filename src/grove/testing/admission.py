"""Admission webhooks called in process: the server builds an AdmissionReview, a Python coroutine answers it.

The handlers are the ones the webhook server runs, so tests exercise the same code that answers over HTTPS.
"""

from __future__ import annotations

import base64
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import msgspec

from grove.testing import failures, patch, selectors
from grove.testing.objects import JsonObject, deep_copy, labels_of
from grove.testing.requests import ApiRequest

Handler = Callable[[JsonObject], Awaitable[JsonObject]]
"""Takes the `request` of an AdmissionReview and returns its `response`."""


@dataclass(frozen=True)
class Webhook:
    """One webhook of a configuration, with the coroutine that stands for its URL."""

    name: str
    handler: Handler
    mutating: bool
    rules: Sequence[JsonObject]
    failure_policy: str = "Fail"
    object_selector: JsonObject | None = None
    namespace_selector: JsonObject | None = None

    def wants(self, operation: str, request: ApiRequest) -> bool:
        resource = request.target.resource
        plural, subresource = resource.plural, request.target.subresource
        return any(
            _listed(rule.get("operations"), operation)
            and _listed(rule.get("apiGroups"), resource.group)
            and _listed(rule.get("apiVersions"), resource.version)
            and _matches_resource(rule.get("resources") or (), plural, subresource)
            for rule in self.rules
        )


def _listed(values: Iterable[str] | None, wanted: str) -> bool:
    return values is not None and any(value in ("*", wanted) for value in values)


def _matches_resource(patterns: Iterable[str], plural: str, subresource: str) -> bool:
    wanted = f"{plural}/{subresource}" if subresource else plural
    wildcards = {"*/*", f"{plural}/*", *([f"*/{subresource}"] if subresource else ["*"])}
    return any(pattern == wanted or pattern in wildcards for pattern in patterns)


def webhooks_from_configuration(configuration: JsonObject, handlers: Mapping[str, Handler]) -> list[Webhook]:
    """The webhooks of a webhook configuration object; handlers are found by the path they are served at."""
    mutating = configuration["kind"] == "MutatingWebhookConfiguration"
    found = []
    for declared in configuration.get("webhooks") or ():
        client = declared["clientConfig"]
        path = (client.get("service") or {}).get("path") or "/" + client.get("url", "").split("/", 3)[-1]
        found.append(
            Webhook(
                name=declared["name"],
                handler=handlers[path],
                mutating=mutating,
                rules=declared.get("rules") or (),
                failure_policy=declared.get("failurePolicy", "Fail"),
                object_selector=declared.get("objectSelector"),
                namespace_selector=declared.get("namespaceSelector"),
            )
        )
    return found


@dataclass(frozen=True)
class Attempt:
    """A write on its way through admission."""

    operation: str
    request: ApiRequest
    obj: JsonObject | None
    old: JsonObject | None
    options: JsonObject = field(default_factory=dict)
    uid: str = "00000000-0000-4000-8000-000000000000"


class Admission:
    """The webhooks in force, in the order they were added."""

    def __init__(self, namespace_labels: Callable[[str], Mapping[str, str]]) -> None:
        self._webhooks: list[Webhook] = []
        self._namespace_labels = namespace_labels

    def add(self, webhook: Webhook) -> None:
        self._webhooks.append(webhook)

    def remove(self, name: str) -> None:
        self._webhooks = [webhook for webhook in self._webhooks if webhook.name != name]

    def concerns(self, operation: str, request: ApiRequest) -> bool:
        return any(webhook.wants(operation, request) for webhook in self._webhooks)

    async def mutate(self, attempt: Attempt) -> JsonObject | None:
        """The object as the mutating webhooks leave it."""
        obj = attempt.obj
        for webhook in self._matching(attempt, mutating=True):
            answer = await _ask(webhook, _review(attempt, obj))
            if answer.get("patch") and obj is not None:
                operations = msgspec.json.decode(base64.b64decode(answer["patch"]))
                obj = patch.json_patch(obj, operations)
        return obj

    async def validate(self, attempt: Attempt) -> None:
        for webhook in self._matching(attempt, mutating=False):
            await _ask(webhook, _review(attempt, attempt.obj))

    def _matching(self, attempt: Attempt, *, mutating: bool) -> list[Webhook]:
        return [
            webhook
            for webhook in self._webhooks
            if webhook.mutating is mutating
            and webhook.wants(attempt.operation, attempt.request)
            and self._selected(webhook, attempt)
        ]

    def _selected(self, webhook: Webhook, attempt: Attempt) -> bool:
        namespace = attempt.request.target.namespace
        in_namespace = selectors.matches_structured(webhook.namespace_selector, dict(self._namespace_labels(namespace)))
        if namespace and not in_namespace:
            return False
        versions = [version for version in (attempt.obj, attempt.old) if version is not None]
        return any(selectors.matches_structured(webhook.object_selector, dict(labels_of(obj))) for obj in versions)


async def _ask(webhook: Webhook, review: JsonObject) -> JsonObject:
    try:
        answer = await webhook.handler(review)
    except Exception as error:
        if webhook.failure_policy == "Ignore":
            return {"allowed": True}
        raise failures.internal(f'failed calling webhook "{webhook.name}": {error}') from error
    if not answer.get("allowed"):
        raise _denial(webhook, answer.get("status") or {})
    return answer


def _denial(webhook: Webhook, status: JsonObject) -> failures.ApiError:
    said = status.get("message") or status.get("reason")
    because = f" {said}" if said else " without explanation"
    message = f'admission webhook "{webhook.name}" denied the request{":" if said else ""}{because}'
    code = status.get("code") or 400
    reason = status.get("reason") or ("BadRequest" if code == 400 else "")
    return failures.ApiError(code, reason, message, status.get("details") or {})


def _review(attempt: Attempt, obj: JsonObject | None) -> JsonObject:
    request = attempt.request
    resource = request.target.resource
    kind = {"group": resource.group, "version": resource.version, "kind": resource.kind}
    named = {"group": resource.group, "version": resource.version, "resource": resource.plural}
    review: dict[str, Any] = {
        "uid": attempt.uid,
        "kind": kind,
        "resource": named,
        "requestKind": kind,
        "requestResource": named,
        "name": request.target.name,
        "namespace": request.target.namespace,
        "operation": attempt.operation,
        "userInfo": request.identity.user_info(),
        "object": deep_copy(obj),
        "oldObject": deep_copy(attempt.old),
        "dryRun": request.dry_run,
        "options": attempt.options,
    }
    if request.target.subresource:
        review["subResource"] = review["requestSubResource"] = request.target.subresource
    return review
