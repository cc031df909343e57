from __future__ import annotations

import asyncio
import json
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from pathlib import Path

import pytest
from fault_server import Behaviour, Exchange, serve
from runtime_fakes import WIDGETS, bookmark, event, widget

from grove.runtime import certs, errors, requests
from grove.runtime.aiohttp_transport import AiohttpTransport
from grove.runtime.client import Client
from grove.runtime.credentials import TokenFile
from grove.runtime.reflector import Reflector
from grove.runtime.store import Store
from grove.runtime.tls import Tls, load_pair
from grove.runtime.transport import HttpRequest, TransportError, TransportTimeout

GET = requests.get(WIDGETS, "ns", "a")
CREATE = requests.create(WIDGETS, {"metadata": {"name": "a", "namespace": "ns"}})
OBJECT = b'{"metadata":{"name":"a","resourceVersion":"1"}}'


@asynccontextmanager
async def talking_to(*behaviours: Behaviour) -> AsyncIterator[AiohttpTransport]:
    async with serve(*behaviours) as address:
        transport = AiohttpTransport(address)
        try:
            yield transport
        finally:
            await transport.close()


async def well(exchange: Exchange) -> None:
    await exchange.answer(OBJECT)


async def hang(exchange: Exchange) -> None:
    await exchange.hung_up.wait()


async def reset(exchange: Exchange) -> None:
    exchange.abort()


async def cut_body(exchange: Exchange) -> None:
    await exchange.send(b"HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\n" + OBJECT)
    exchange.abort()


async def html(exchange: Exchange) -> None:
    await exchange.answer(b"<html>login</html>", content_type="text/html")


async def test_a_request_arrives_whole_and_its_answer_comes_back() -> None:
    seen: list[Exchange] = []

    async def note(exchange: Exchange) -> None:
        seen.append(exchange)
        await exchange.answer(OBJECT)

    async with talking_to(note) as transport:
        created = await Client(transport).send(CREATE)
        query = (("labelSelector", "a in (b,c),d=e/f"), ("limit", "5"))
        await transport.request(HttpRequest("GET", "/apis/x/clusterroles/system:a b", query))
    assert created.metadata.name == "a"
    assert seen[0].method == "POST"
    assert seen[0].target == "/apis/example.com/v1/namespaces/ns/widgets?fieldManager=grove-operator"
    assert seen[0].headers["content-type"] == "application/json"
    assert "accept-encoding" not in seen[0].headers
    assert json.loads(seen[0].body)["metadata"]["name"] == "a"
    assert seen[1].target == "/apis/x/clusterroles/system:a%20b?labelSelector=a+in+%28b%2Cc%29%2Cd%3De%2Ff&limit=5"


async def test_a_server_that_is_down_is_unreachable() -> None:
    async with serve(well) as address:
        pass
    transport = AiohttpTransport(address)
    with pytest.raises(errors.Unreachable):
        await Client(transport).send(CREATE)
    with pytest.raises(TransportError):
        async with transport.stream(HttpRequest("GET", "/x")):
            pass
    await transport.close()


async def test_a_server_that_is_slow_runs_into_the_timeout() -> None:
    async with talking_to(hang) as transport:
        with pytest.raises(TransportTimeout):
            await transport.request(HttpRequest("GET", "/x", timeout=0.05))
        with pytest.raises(TransportTimeout):
            async with transport.stream(HttpRequest("GET", "/x", timeout=0.05)):
                pass


@pytest.mark.parametrize("behaviour", [reset, cut_body])
async def test_an_answer_that_breaks_off_leaves_a_create_unknown_and_a_read_repeated(behaviour: Behaviour) -> None:
    async with talking_to(behaviour) as transport:
        with pytest.raises(errors.Unreachable):
            await Client(transport).send(CREATE)
    async with talking_to(behaviour, well) as transport:
        assert (await Client(transport).send(GET)).metadata.name == "a"


async def test_html_is_a_clear_error() -> None:
    async with talking_to(html) as transport:
        with pytest.raises(errors.ServerError, match=r"text/html.*login"):
            await Client(transport).send(GET)


async def test_a_redirect_is_not_followed_with_our_credentials() -> None:
    async def redirect(exchange: Exchange) -> None:
        await exchange.send(b"HTTP/1.1 302 Found\r\nLocation: http://example.invalid/\r\nContent-Length: 0\r\n\r\n")

    async with talking_to(redirect) as transport:
        with pytest.raises(errors.ApiError) as caught:
            await Client(transport).send(CREATE)
    assert caught.value.status == 302


@pytest.mark.parametrize("cut", ["abort", "end", "half line"])
async def test_a_watch_that_breaks_in_any_way_goes_on_without_a_gap(cut: str) -> None:
    late = event("ADDED", widget("b", 12))

    async def first(exchange: Exchange) -> None:
        await exchange.begin_stream()
        await exchange.chunk(event("ADDED", widget("a", 1)) + bookmark(10, ends=True))
        await exchange.chunk(event("MODIFIED", widget("a", 11)) + (late[:20] if cut == "half line" else b""))
        if cut == "end":
            await exchange.end_stream()
        else:
            exchange.abort()

    targets: list[str] = []

    async def second(exchange: Exchange) -> None:
        targets.append(exchange.target)
        await exchange.begin_stream()
        await exchange.chunk(late[:7])
        await exchange.chunk(late[7:])
        await exchange.hung_up.wait()

    async with talking_to(first, second) as transport:
        store = Store(WIDGETS)
        changes: list[str] = []
        complete = asyncio.Event()

        def note(old: object, new: object) -> None:
            changes.append(str(getattr(getattr(new, "metadata", None), "resource_version", None)))
            if changes[-1] == "12":
                complete.set()

        store.subscribe(note)
        running = asyncio.create_task(Reflector(Client(transport), store).run())
        async with asyncio.timeout(10):
            await complete.wait()
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)
    assert changes == ["1", "11", "12"]
    assert "resourceVersion=11" in targets[0]


async def test_a_very_long_line_is_read() -> None:
    big = widget("big", 5, note="x" * 3_000_000)

    async def stream(exchange: Exchange) -> None:
        await exchange.begin_stream()
        await exchange.chunk(event("ADDED", big) + bookmark(10, ends=True))
        await exchange.hung_up.wait()

    async with talking_to(stream) as transport:
        store = Store(WIDGETS)
        running = asyncio.create_task(Reflector(Client(transport), store).run())
        async with asyncio.timeout(10):
            await store.wait_synced()
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)
    held = store.get("ns/big")
    assert held is not None
    assert len(held.metadata.labels["note"]) == 3_000_000


async def test_a_rotated_token_is_read_again_after_a_401(tmp_path: Path) -> None:
    token = tmp_path / "token"
    token.write_text("old\n")
    seen: list[str] = []

    async def picky(exchange: Exchange) -> None:
        seen.append(exchange.headers["authorization"])
        if seen[-1] == "Bearer new":
            await exchange.answer(OBJECT)
        else:
            token.write_text("new\n")
            await exchange.answer(b"{}", status="401 Unauthorized")

    async with serve(picky) as address:
        transport = AiohttpTransport(address, credentials=TokenFile(token))
        await Client(transport).send(CREATE)
        await transport.close()
    assert seen == ["Bearer old", "Bearer new"]


async def test_a_proxy_is_asked_for_the_whole_address() -> None:
    targets: list[str] = []

    async def forward(exchange: Exchange) -> None:
        targets.append(exchange.target)
        await exchange.answer(OBJECT)

    async with serve(forward) as proxy:
        transport = AiohttpTransport("http://api.invalid:8080", proxy=proxy)
        await transport.request(HttpRequest("GET", "/version"))
        await transport.close()
    assert targets == ["http://api.invalid:8080/version"]


async def test_the_servers_certificate_is_verified() -> None:
    now = datetime.now(UTC)
    authority = certs.new_authority(now)
    serving = certs.issue(authority, ["api.test", "127.0.0.1"], now)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    load_pair(context, serving.certificate, serving.key)
    stranger = certs.new_authority(now)
    trials = {
        "right": Tls(ca=authority.certificate),
        "named": Tls(ca=authority.certificate, server_name="api.test"),
        "insecure": Tls(insecure=True),
        "stranger": Tls(ca=stranger.certificate),
        "other name": Tls(ca=authority.certificate, server_name="other.test"),
    }
    outcome = {}
    async with serve(well, tls=context) as address:
        for name, tls in trials.items():
            transport = AiohttpTransport(address, tls=tls)
            try:
                outcome[name] = (await transport.request(HttpRequest("GET", "/x"))).status
            except TransportError:
                outcome[name] = 0
            await transport.close()
    assert outcome == {"right": 200, "named": 200, "insecure": 200, "stranger": 0, "other name": 0}
