"""Keeps the CA of our own certificate in the webhook configurations, so that the API server trusts what we serve.

Awake are configurations that appeared or changed, and all of them when the authority changed.
"""

from __future__ import annotations

import base64
from collections.abc import Callable
from functools import partial
from typing import Any, Protocol

import msgspec

from grove.api.meta import Model, ObjectMeta
from grove.api.reasons import Reason
from grove.controllers.apply import Applier
from grove.controllers.stores import Stores
from grove.plan.actions import Patch, Why
from grove.runtime.client import Client
from grove.runtime.queue import WorkQueue
from grove.runtime.resource import Resource
from grove.runtime.worker import DONE, Result


class ClientConfig(Model):
    ca_bundle: str = ""


class WebhookEntry(Model):
    name: str = ""
    client_config: ClientConfig = msgspec.field(default_factory=ClientConfig)


class WebhookConfiguration(Model):
    metadata: ObjectMeta
    webhooks: list[WebhookEntry] = []


_GROUP = "admissionregistration.k8s.io"
MUTATING = Resource(
    _GROUP,
    "v1",
    "mutatingwebhookconfigurations",
    "MutatingWebhookConfiguration",
    WebhookConfiguration,
    namespaced=False,
)
VALIDATING = Resource(
    _GROUP,
    "v1",
    "validatingwebhookconfigurations",
    "ValidatingWebhookConfiguration",
    WebhookConfiguration,
    namespaced=False,
)


def add_stores(stores: Stores) -> None:
    stores.add(MUTATING, managed_only=True)
    stores.add(VALIDATING, managed_only=True)


class Authority(Protocol):
    """Where the certificates that clients are to trust come from, and who is told when they change."""

    @property
    def trusted(self) -> bytes: ...

    def subscribe(self, changed: Callable[[], None]) -> None: ...


class BundleController:
    """One key per webhook configuration."""

    def __init__(self, client: Client, stores: Stores, authority: Authority) -> None:
        self.queue: WorkQueue[tuple[str, str]] = WorkQueue(fairness=lambda key: key[0])
        self._stores = stores
        self._authority = authority
        self._applier = Applier(client, stores)
        for resource in (MUTATING, VALIDATING):
            stores[resource].subscribe(partial(self._changed, resource))
        authority.subscribe(self._wake_all)

    def _changed(
        self, resource: Resource[Any], _: WebhookConfiguration | None, new: WebhookConfiguration | None
    ) -> None:
        self._wake(resource, new)

    def _wake(self, resource: Resource[Any], item: WebhookConfiguration | None) -> None:
        if item is not None:
            self.queue.add((resource.plural, item.metadata.name))

    def _wake_all(self) -> None:
        for resource in (MUTATING, VALIDATING):
            for item in self._stores[resource].all():
                self._wake(resource, item)

    def in_place(self) -> bool:
        """Whether the API server is told to trust us in every webhook there is."""
        wanted = self._wanted()
        standing = (item for resource in (MUTATING, VALIDATING) for item in self._stores[resource].all())
        return all(entry.client_config.ca_bundle == wanted for item in standing for entry in item.webhooks)

    def _wanted(self) -> str:
        return base64.b64encode(self._authority.trusted).decode()

    async def reconcile(self, key: tuple[str, str]) -> Result:
        resource = MUTATING if key[0] == MUTATING.plural else VALIDATING
        item = self._stores[resource].get(key[1])
        if item is None:
            return DONE
        wanted = self._wanted()
        operations = tuple(
            {"op": "add", "path": f"/webhooks/{position}/clientConfig/caBundle", "value": wanted}
            for position, entry in enumerate(item.webhooks)
            if entry.client_config.ca_bundle != wanted
        )
        if operations:
            why = Why(Reason.CHILD_CHANGED, "the webhooks' certificate authority is ours")
            failures = await self._applier.write((Patch(resource, "", key[1], operations, why),))
            if failures:
                raise failures[0].error
        return DONE
