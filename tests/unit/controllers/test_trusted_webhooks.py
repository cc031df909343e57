"""When the API server trusts the webhooks we serve."""

from __future__ import annotations

import base64
from collections.abc import Callable

import pytest

from grove.controllers.stores import Stores
from grove.controllers.webhook_bundles import (
    MUTATING,
    BundleController,
    ClientConfig,
    WebhookConfiguration,
    WebhookEntry,
    add_stores,
)
from grove.runtime.client import Client
from grove.runtime.objects import ObjectMeta
from grove.testing import ApiServer

OURS, OTHER = b"our authority", b"another authority"


class Ours:
    """An authority that never changes."""

    trusted = OURS

    def subscribe(self, changed: Callable[[], None]) -> None:
        """There is nothing to tell."""


def configuration(*authorities: bytes) -> WebhookConfiguration:
    entries = [
        WebhookEntry(name=f"w{i}", client_config=ClientConfig(ca_bundle=base64.b64encode(one).decode()))
        for i, one in enumerate(authorities)
    ]
    return WebhookConfiguration(metadata=ObjectMeta(name="ours", resource_version="1"), webhooks=entries)


@pytest.mark.parametrize(
    ("authorities", "expected"),
    [((OURS, OURS), True), ((OURS, OTHER), False), ((b"",), False), ((), True)],
)
async def test_webhooks_are_in_place_when_all_of_them_trust_our_authority(
    authorities: tuple[bytes, ...], expected: bool
) -> None:
    stores = Stores()
    add_stores(stores)
    bundles = BundleController(Client(ApiServer().transport()), stores, Ours())
    stores[MUTATING].replace([configuration(*authorities)], 1)
    assert bundles.in_place() is expected
