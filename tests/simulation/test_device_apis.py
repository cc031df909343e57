"""What MNNVL needs of the cluster is known when it changes, and never asked for while it does not."""

from __future__ import annotations

import asyncio
from typing import Any

from operator_harness import OPERATOR, documents, operator_rules, simulated

from grove.api.devices import COMPUTE_DOMAINS
from grove.apps.engine import Engine
from grove.config import parse
from grove.plan.mnnvl import Apis
from grove.runtime import requests
from grove.runtime.client import Client
from grove.runtime.resource import Resource
from grove.runtime.transport import HttpRequest, HttpResponse
from grove.testing import ApiServer, SimClock
from grove.testing.coretable import core_resource
from grove.testing.requests import Identity

(CRD,) = documents("tests/data/computedomains.yaml")
DEFINITIONS = Resource(
    "apiextensions.k8s.io", "v1", "customresourcedefinitions", "CustomResourceDefinition", dict, False
)
API_SERVICES = Resource("apiregistration.k8s.io", "v1", "apiservices", "APIService", dict, False)
CLAIMS = "resourceclaims=ResourceClaim/status resourceclaimtemplates=ResourceClaimTemplate"


class Stage:
    """An operator with MNNVL switched on, and every plain request it sends."""

    def __init__(self) -> None:
        self.server = ApiServer()
        self.asked: list[str] = []
        self.people = Client(self.server.transport(), field_manager="kubectl")
        self.away = False
        self._answer = self.server.handle
        self.server.handle = self._count  # type: ignore[method-assign]

    async def _count(self, http: HttpRequest, identity: Identity) -> HttpResponse:
        self.asked.append(http.path)
        if self.away and http.path.startswith("/apis/resource.k8s.io"):
            return HttpResponse(500, {}, b"{}")
        return await self._answer(http, identity)

    def serve_claims(self, *versions: str) -> None:
        registry = self.server.state.registry
        for plural in ("resourceclaims", "resourceclaimtemplates"):
            registry.remove("resource.k8s.io", plural)
        for version in versions:
            for entry in CLAIMS.split():
                registry.add(core_resource(f"resource.k8s.io/{version}", entry, namespaced=True))

    def start(self) -> None:
        configuration = parse({"mnnvl": {"enabled": True}})
        client = Client(self.server.transport(OPERATOR, rules=operator_rules()))
        self.engine = Engine(client, configuration, SimClock())
        self._running = [asyncio.create_task(self.engine.watch()), asyncio.create_task(self.engine.control())]

    @property
    def apis(self) -> Apis:
        assert self.engine.mnnvl
        return self.engine.mnnvl.apis.current

    async def stop(self) -> None:
        for task in self._running:
            task.cancel()
        await asyncio.gather(*self._running, return_exceptions=True)


@simulated
async def test_at_rest_nothing_is_asked() -> None:
    stage = Stage()
    stage.server.define(CRD)
    stage.start()
    await asyncio.sleep(60)
    assert stage.apis == Apis(True, "v1")
    stage.asked.clear()
    await asyncio.sleep(3600)
    assert stage.asked == []
    await stage.stop()


@simulated
async def test_the_driver_is_noticed_when_it_comes_and_when_it_goes() -> None:
    stage = Stage()
    stage.start()
    await asyncio.sleep(600)
    assert stage.apis == Apis(False, "v1")
    await stage.people.send(requests.create(DEFINITIONS, CRD))
    await asyncio.sleep(2)
    assert stage.apis.compute_domains
    await stage.people.delete(DEFINITIONS, None, f"{COMPUTE_DOMAINS.plural}.{COMPUTE_DOMAINS.group}")
    await asyncio.sleep(600)
    assert not stage.apis.compute_domains
    await stage.stop()


@simulated
async def test_a_newer_version_of_claims_is_used_from_when_it_is_served() -> None:
    stage = Stage()
    stage.server.define(CRD)
    stage.serve_claims("v1beta1")
    stage.start()
    await asyncio.sleep(600)
    assert stage.apis.claims_version == "v1beta1"
    stage.serve_claims("v1", "v1beta1")
    spec: dict[str, Any] = {"group": "resource.k8s.io", "version": "v1"}
    await stage.people.send(requests.create(API_SERVICES, {"metadata": {"name": "v1.resource.k8s.io"}, "spec": spec}))
    await asyncio.sleep(2)
    assert stage.apis.claims_version == "v1"
    await stage.stop()


@simulated
async def test_a_question_without_an_answer_is_asked_again() -> None:
    stage = Stage()
    stage.server.define(CRD)
    stage.away = True
    stage.start()
    await asyncio.sleep(600)
    assert stage.apis == Apis(True, None)
    assert stage.engine.mnnvl
    assert not stage.engine.mnnvl.apis.known
    stage.away = False
    await asyncio.sleep(60)
    assert stage.apis == Apis(True, "v1")
    assert stage.engine.mnnvl.apis.known
    await stage.stop()
