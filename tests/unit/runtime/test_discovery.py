from __future__ import annotations

import asyncio

from runtime_fakes import WIDGETS, TinyApi, Widget, ok, status

from grove.runtime.client import Client
from grove.runtime.discovery import Discovery
from grove.runtime.resource import Resource
from grove.runtime.transport import HttpRequest, HttpResponse
from grove.testing.simloop import simulate


class Catalogue(TinyApi):
    """Serves discovery documents and counts how often it is asked."""

    def __init__(self) -> None:
        super().__init__()
        self.served: dict[str, list[str]] = {"/apis/example.com/v1": ["widgets", "widgets/status"]}
        self.groups = {"example.com": ["v1beta1", "v1", "v1alpha2", "odd", "v2"]}
        self.asked = 0

    async def request(self, request: HttpRequest) -> HttpResponse:
        self.asked += 1
        if request.path in self.served:
            return ok({"resources": [{"name": name} for name in self.served[request.path]]})
        group = request.path.removeprefix("/apis/")
        if group in self.groups:
            return ok({"name": group, "versions": [{"version": version} for version in self.groups[group]]})
        if request.path == "/version":
            return ok({"gitVersion": "v1.35.4"})
        return status(404, "NotFound")


def test_what_is_served_is_remembered() -> None:
    async def scenario() -> tuple[bool, bool, int]:
        api = Catalogue()
        discovery = Discovery(Client(api))
        first = await discovery.serves(WIDGETS)
        second = await discovery.serves(WIDGETS)
        return first, second, api.asked

    assert simulate(scenario()) == (True, True, 1)


def test_what_is_missing_is_asked_for_again_after_a_moment() -> None:
    async def scenario() -> list[bool]:
        api = Catalogue()
        discovery = Discovery(Client(api))
        gadgets = Resource("example.com", "v1", "gadgets", "Gadget", Widget)
        answers = [await discovery.serves(gadgets)]
        api.served["/apis/example.com/v1"].append("gadgets")
        answers.append(await discovery.serves(gadgets))
        await asyncio.sleep(6)
        answers.append(await discovery.serves(gadgets))
        return answers

    assert simulate(scenario()) == [False, False, True]


def test_refresh_forgets() -> None:
    async def scenario() -> list[bool]:
        api = Catalogue()
        discovery = Discovery(Client(api))
        answers = [await discovery.serves(WIDGETS)]
        api.served.clear()
        discovery.refresh()
        answers.append(await discovery.serves(WIDGETS))
        return answers

    assert simulate(scenario()) == [True, False]


def test_the_newest_version_that_serves_the_resource_is_chosen() -> None:
    async def scenario() -> tuple[tuple[str, ...], str | None, str | None, str | None, str]:
        api = Catalogue()
        api.served["/apis/example.com/v2"] = ["others"]
        discovery = Discovery(Client(api))
        return (
            await discovery.versions("example.com"),
            await discovery.newest("example.com", "widgets"),
            await discovery.newest("example.com", "nothing"),
            await discovery.newest("absent.io", "widgets"),
            await discovery.server_version(),
        )

    versions, newest, nothing, absent, server = simulate(scenario())
    assert versions == ("v2", "v1", "v1beta1", "v1alpha2", "odd")
    assert newest == "v1"
    assert nothing is None
    assert absent is None
    assert server == "v1.35.4"
