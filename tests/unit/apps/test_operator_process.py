"""The operator as a whole process, over HTTP, on an API server in memory."""

from __future__ import annotations

import asyncio
import base64
import contextlib
from collections.abc import AsyncIterator
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import Any

import aiohttp
import msgspec
import pytest
import yaml

from grove.apps.operator import Operator, init_image
from grove.config import OperatorConfiguration
from grove.localcluster.ports import pick_ports
from grove.runtime import certs, requests
from grove.runtime.certificate_store import SecretCertificates
from grove.runtime.client import Client
from grove.runtime.connection import Connection
from grove.runtime.resource import Resource
from grove.testing import ApiServer
from grove.testing.httpserver import serve

WEBHOOKS = Path(__file__).parents[3] / "deploy" / "webhooks.yaml"
API = "admissionregistration.k8s.io"


class Stand:
    """An API server with the webhook configurations of deploy/, and an operator on it."""

    def __init__(self, server: ApiServer, operator: Operator, health: str) -> None:
        self.server = server
        self.operator = operator
        self._health = health

    def bundles(self) -> set[str]:
        """The authorities that the webhooks are told to trust."""
        kinds = ("MutatingWebhookConfiguration", "ValidatingWebhookConfiguration")
        found = [item for kind in kinds for item in self.server.objects(f"{API}/v1", kind)]
        return {base64.b64decode(w["clientConfig"].get("caBundle", "")).decode() for c in found for w in c["webhooks"]}

    async def until_ready(self) -> None:
        async with aiohttp.ClientSession() as session, asyncio.timeout(30):
            while True:
                with contextlib.suppress(aiohttp.ClientConnectionError):
                    async with session.get(self._health) as answer:
                        if answer.status == 200:
                            return
                await asyncio.sleep(0.02)

    async def until_trusted(self, authority: bytes) -> None:
        async with asyncio.timeout(30):
            while self.bundles() != {authority.decode()}:  # noqa: ASYNC110 (the server's own state)
                await asyncio.sleep(0.02)


async def _install_webhooks(server: ApiServer) -> None:
    client = Client(server.transport())
    for document in yaml.safe_load_all(WEBHOOKS.read_text()):
        kind = document["kind"]
        resource: Resource[Any] = Resource(API, "v1", f"{kind.lower()}s", kind, dict, namespaced=False)
        await client.send(requests.create(resource, document))


@contextlib.asynccontextmanager
async def _standing() -> AsyncIterator[Stand]:
    server = ApiServer()
    await _install_webhooks(server)
    ports = pick_ports(("webhooks", "health", "metrics"), {})
    listening = {
        "webhooks": {"bindAddress": "127.0.0.1", "port": ports["webhooks"]},
        "healthProbes": {"bindAddress": "127.0.0.1", "port": ports["health"]},
        "metrics": {"bindAddress": "127.0.0.1", "port": ports["metrics"]},
    }
    configuration = msgspec.convert(
        {"server": listening, "leaderElection": {"enabled": True}}, OperatorConfiguration, strict=False
    )
    async with serve(server) as url:
        operator = Operator(configuration, Connection(server=url))
        running = asyncio.create_task(operator.run())
        try:
            yield Stand(server, operator, f"http://127.0.0.1:{ports['health']}/readyz")
        finally:
            running.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await running


async def test_the_operator_is_ready_when_the_api_server_trusts_its_webhooks() -> None:
    async with _standing() as stand:
        await stand.until_ready()
        (trusted,) = stand.bundles()
        assert trusted.startswith("-----BEGIN CERTIFICATE-----")


async def test_a_renewed_authority_is_told_to_the_api_server() -> None:
    async with _standing() as stand:
        await stand.until_ready()
        now = datetime.now(UTC)
        authority = certs.new_authority(now)
        serving = certs.issue(authority, ["localhost"], now)
        store = stand.operator._certificates
        assert isinstance(store, SecretCertificates)
        store.hold(certs.Material(authority, serving, authority.certificate))
        await stand.until_trusted(authority.certificate)


async def test_a_stopped_operator_gives_its_lease_back() -> None:
    async with _standing() as stand:
        await stand.until_ready()
    (lease,) = stand.server.objects("coordination.k8s.io/v1", "Lease", "default")
    assert not lease["spec"].get("holderIdentity")


@pytest.mark.parametrize(
    ("named", "image"),
    [
        ("registry.example.com:5000/grove/operator", f"registry.example.com:5000/grove/operator:{version('grove')}"),
        ("registry.example.com/grove:1.2", "registry.example.com/grove:1.2"),
        ("grove@sha256:0123", "grove@sha256:0123"),
        ("", f"grove:{version('grove')}"),
    ],
)
def test_the_waiting_program_has_the_operators_image_and_version(named: str, image: str) -> None:
    assert init_image({"GROVE_INIT_CONTAINER_IMAGE": named}) == image
