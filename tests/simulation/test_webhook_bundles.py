"""The API server trusts what our webhooks show it: from the start, after an edit, and when the authority changes."""

from __future__ import annotations

import asyncio
import base64
from datetime import UTC, datetime, timedelta
from typing import Any

from operator_harness import OPERATOR, documents, operator_rules, simulated

from grove.apps.engine import Engine
from grove.config import OperatorConfiguration
from grove.controllers.webhook_bundles import MUTATING, VALIDATING
from grove.runtime import certs, requests
from grove.runtime.certificate_store import CertificateStore
from grove.runtime.client import Client
from grove.testing import ApiServer, SimClock
from grove.testing.waiting import quiet

NOW = datetime(2026, 1, 1, tzinfo=UTC)
RESOURCES = {resource.kind: resource.with_model(dict) for resource in (MUTATING, VALIDATING)}


def bundles(server: ApiServer) -> set[str]:
    """What the webhook configurations say is to be trusted."""
    found: list[Any] = [item for kind in RESOURCES for item in server.objects("admissionregistration.k8s.io/v1", kind)]
    assert len(found) == len(documents("deploy/webhooks.yaml"))
    return {webhook["clientConfig"].get("caBundle", "") for item in found for webhook in item["webhooks"]}


@simulated
async def test_every_webhook_configuration_carries_the_authority_of_the_day() -> None:
    server = ApiServer()
    people = Client(server.transport(), field_manager="kubectl")
    for document in documents("deploy/webhooks.yaml"):
        await people.send(requests.create(RESOURCES[document["kind"]], document))
    certificates = CertificateStore()
    first = certs.renewed(None, ["hook"], NOW)
    certificates.hold(first)
    client = Client(server.transport(OPERATOR, rules=operator_rules()))
    engine = Engine(client, OperatorConfiguration(), SimClock(), authority=certificates)
    running = [asyncio.create_task(engine.watch()), asyncio.create_task(engine.control())]
    await quiet(server, 5)
    assert bundles(server) == {base64.b64encode(first.trusted).decode()}

    # The authority is renewed while the operator runs.
    second = certs.renewed(first, ["hook"], NOW + timedelta(days=2500))
    certificates.hold(second)
    await quiet(server, 5)
    assert bundles(server) == {base64.b64encode(second.trusted).decode()}

    # Somebody applies the published file again, which names no authority.
    name = "podcliqueset-validating-webhook"
    patch = {"op": "remove", "path": "/webhooks/0/clientConfig/caBundle"}
    await people.send(requests.json_patch(VALIDATING, None, name, [patch]))
    await quiet(server, 5)
    assert bundles(server) == {base64.b64encode(second.trusted).decode()}
    for task in running:
        task.cancel()
    await asyncio.gather(*running, return_exceptions=True)
