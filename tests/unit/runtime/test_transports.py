"""Both HTTP engines against a server that answers as badly as it is told to: what they promise is the same."""

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
from grove.runtime.credentials import Fixed, Identity, TokenFile
from grove.runtime.http_transport import HttpTransport
from grove.runtime.reflector import Reflector
from grove.runtime.store import Store
from grove.runtime.tls import Tls, load_pair
from grove.runtime.transport import HttpRequest, TransportError, TransportTimeout

GET = requests.get(WIDGETS, "ns", "a")
CREATE = requests.create(WIDGETS, {"metadata": {"name": "a", "namespace": "ns"}})
Engine = type[AiohttpTransport] | type[HttpTransport]
OBJECT = b'{"metadata":{"name":"a","resourceVersion":"1"}}'


@pytest.fixture(params=[AiohttpTransport, HttpTransport], ids=["aiohttp", "httptools"])
def engine(request: pytest.FixtureRequest) -> Engine:
    found: Engine = request.param
    return found


@asynccontextmanager
async def talking_to(engine: Engine, *behaviours: Behaviour) -> AsyncIterator[AiohttpTransport | HttpTransport]:
    async with serve(*behaviours) as address:
        transport = engine(address)
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


async def test_a_request_arrives_whole_and_its_answer_comes_back(engine: Engine) -> None:
    seen: list[Exchange] = []

    async def note(exchange: Exchange) -> None:
        seen.append(exchange)
        await exchange.answer(OBJECT)

    async with talking_to(engine, note) as transport:
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


async def test_a_server_that_is_down_is_unreachable(engine: Engine) -> None:
    async with serve(well) as address:
        pass
    transport = engine(address)
    with pytest.raises(errors.Unreachable):
        await Client(transport).send(CREATE)
    with pytest.raises(TransportError):
        async with transport.stream(HttpRequest("GET", "/x")):
            pass
    await transport.close()


async def test_a_server_that_is_slow_runs_into_the_timeout(engine: Engine) -> None:
    async with talking_to(engine, hang) as transport:
        with pytest.raises(TransportTimeout):
            await transport.request(HttpRequest("GET", "/x", timeout=0.05))
        with pytest.raises(TransportTimeout):
            async with transport.stream(HttpRequest("GET", "/x", timeout=0.05)):
                pass


@pytest.mark.parametrize("behaviour", [reset, cut_body])
async def test_an_answer_that_breaks_off_leaves_a_create_unknown_and_a_read_repeated(
    engine: Engine, behaviour: Behaviour
) -> None:
    async with talking_to(engine, behaviour) as transport:
        with pytest.raises(errors.Unreachable):
            await Client(transport).send(CREATE)
    async with talking_to(engine, behaviour, well) as transport:
        assert (await Client(transport).send(GET)).metadata.name == "a"


async def test_html_is_a_clear_error(engine: Engine) -> None:
    async with talking_to(engine, html) as transport:
        with pytest.raises(errors.ServerError, match=r"text/html.*login"):
            await Client(transport).send(GET)


async def test_a_redirect_is_not_followed_with_our_credentials(engine: Engine) -> None:
    async def redirect(exchange: Exchange) -> None:
        await exchange.send(b"HTTP/1.1 302 Found\r\nLocation: http://example.invalid/\r\nContent-Length: 0\r\n\r\n")

    async with talking_to(engine, redirect) as transport:
        with pytest.raises(errors.ApiError) as caught:
            await Client(transport).send(CREATE)
    assert caught.value.status == 302


@pytest.mark.parametrize("cut", ["abort", "end", "half line"])
async def test_a_watch_that_breaks_in_any_way_goes_on_without_a_gap(engine: Engine, cut: str) -> None:
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

    async with talking_to(engine, first, second) as transport:
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


async def test_a_very_long_line_is_read(engine: Engine) -> None:
    big = widget("big", 5, note="x" * 3_000_000)

    async def stream(exchange: Exchange) -> None:
        await exchange.begin_stream()
        await exchange.chunk(event("ADDED", big) + bookmark(10, ends=True))
        await exchange.hung_up.wait()

    async with talking_to(engine, stream) as transport:
        store = Store(WIDGETS)
        running = asyncio.create_task(Reflector(Client(transport), store).run())
        async with asyncio.timeout(10):
            await store.wait_synced()
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)
    held = store.get("ns/big")
    assert held is not None
    assert len(held.metadata.labels["note"]) == 3_000_000


async def test_a_rotated_token_is_read_again_after_a_401(engine: Engine, tmp_path: Path) -> None:
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
        transport = engine(address, credentials=TokenFile(token))
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


async def test_the_servers_certificate_is_verified(engine: Engine) -> None:
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
            transport = engine(address, tls=tls)
            try:
                outcome[name] = (await transport.request(HttpRequest("GET", "/x"))).status
            except TransportError:
                outcome[name] = 0
            await transport.close()
    assert outcome == {"right": 200, "named": 200, "insecure": 200, "stranger": 0, "other name": 0}


async def test_a_connection_is_used_again_and_one_that_went_away_meanwhile_is_not(engine: Engine) -> None:
    wires: list[object] = []

    async def once(exchange: Exchange) -> None:
        wires.append(exchange.writer)
        await exchange.answer(OBJECT)

    async def last(exchange: Exchange) -> None:
        wires.append(exchange.writer)
        await exchange.answer(OBJECT)
        exchange.writer.close()

    async with talking_to(engine, once, last, once) as transport:
        for _ in range(2):
            await transport.request(HttpRequest("GET", "/x"))
        await asyncio.sleep(0.05)  # the server's farewell arrives
        assert (await transport.request(HttpRequest("GET", "/x"))).body == OBJECT
    assert wires[0] is wires[1]
    assert wires[1] is not wires[2]


@pytest.mark.parametrize(
    ("head", "pieces"),
    [
        (b"Connection: close\r\nContent-Length: 4", [b"ab", b"cd"]),
        (b"Content-Length: 4", [b"a", b"b", b"c", b"d"]),
        (b"Transfer-Encoding: chunked", [b"1\r\na\r\n3\r", b"\nbcd", b"\r\n0\r\n", b"\r\n"]),
        (b"Transfer-Encoding: chunked", [b"4\r\nabcd\r\n0\r\nTrailer: x\r\n\r\n"]),
    ],
    ids=["closed", "dripping", "chunk ends", "trailer"],
)
async def test_an_answer_in_pieces_is_put_together(engine: Engine, head: bytes, pieces: list[bytes]) -> None:
    async def drip(exchange: Exchange) -> None:
        await exchange.send(b"HTTP/1.1 200 OK\r\nX-Kept: Yes\r\n" + head + b"\r\n\r\n")
        for piece in pieces:
            await exchange.send(piece)
            await asyncio.sleep(0.005)

    async with talking_to(engine, drip) as transport:
        for _ in range(2):
            answer = await transport.request(HttpRequest("GET", "/x", timeout=5))
            assert answer.body == b"abcd"
            assert answer.headers["x-kept"] == "Yes"


async def test_a_body_without_a_length_ends_with_the_connection(engine: Engine) -> None:
    async def endless(exchange: Exchange) -> None:
        await exchange.send(b"HTTP/1.1 200 OK\r\n\r\nabcd")
        exchange.writer.close()

    async with talking_to(engine, endless) as transport:
        for _ in range(2):
            assert (await transport.request(HttpRequest("GET", "/x", timeout=5))).body == b"abcd"


async def test_an_interim_answer_is_passed_over(engine: Engine) -> None:
    async def early(exchange: Exchange) -> None:
        await exchange.send(b"HTTP/1.1 103 Early Hints\r\nX-Early: 1\r\n\r\n")
        await exchange.answer(OBJECT)

    async with talking_to(engine, early) as transport:
        for _ in range(2):
            answer = await transport.request(HttpRequest("GET", "/x", timeout=5))
            assert (answer.status, answer.body) == (200, OBJECT)
            assert "x-early" not in answer.headers


async def test_an_answer_without_a_body_leaves_the_connection_in_order(engine: Engine) -> None:
    async def nothing(exchange: Exchange) -> None:
        await exchange.send(b"HTTP/1.1 204 No Content\r\n\r\n")

    async with talking_to(engine, nothing, well) as transport:
        assert (await transport.request(HttpRequest("DELETE", "/x", timeout=5))).status == 204
        assert (await transport.request(HttpRequest("GET", "/x", timeout=5))).body == OBJECT


@pytest.mark.parametrize("noise", [b"SSH-2.0-OpenSSH\r\n", b"HTTP/1.1 200 OK\r\nContent-Length: x\r\n\r\n"])
async def test_what_is_not_http_is_an_error_and_not_the_end(engine: Engine, noise: bytes) -> None:
    async def gibberish(exchange: Exchange) -> None:
        await exchange.send(noise)
        await exchange.hung_up.wait()

    async with talking_to(engine, gibberish, well) as transport:
        with pytest.raises(TransportError):
            await transport.request(HttpRequest("GET", "/x", timeout=5))
        assert (await transport.request(HttpRequest("GET", "/x", timeout=5))).body == OBJECT


async def test_an_answer_nobody_asked_for_answers_no_later_request() -> None:
    async def twice(exchange: Exchange) -> None:
        await exchange.answer(OBJECT)
        await exchange.answer(b"forged")

    async with talking_to(HttpTransport, twice, well) as transport:
        assert (await transport.request(HttpRequest("GET", "/x"))).body == OBJECT
        await asyncio.sleep(0.05)
        assert (await transport.request(HttpRequest("GET", "/x"))).body == OBJECT


async def test_a_cancelled_request_leaves_its_answer_to_nobody(engine: Engine) -> None:
    release = asyncio.Event()

    async def late(exchange: Exchange) -> None:
        await release.wait()
        await exchange.answer(b"late")

    async with talking_to(engine, late, well) as transport:
        waiting = asyncio.create_task(transport.request(HttpRequest("GET", "/x")))
        await asyncio.sleep(0.05)
        waiting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting
        release.set()
        assert (await transport.request(HttpRequest("GET", "/x"))).body == OBJECT


async def test_a_header_cannot_smuggle_another(engine: Engine) -> None:
    async with serve(well) as address:
        transport = engine(address, credentials=Fixed(Identity({"Authorization": "Bearer a\r\nX-Evil: 1"})))
        with pytest.raises(TransportError):
            await transport.request(HttpRequest("GET", "/x"))
        await transport.close()


async def test_a_request_names_its_own_agent_once(engine: Engine) -> None:
    agents: list[str] = []

    async def note(exchange: Exchange) -> None:
        agents.append(exchange.headers["user-agent"])
        assert len(exchange.names) == len(set(exchange.names))
        await exchange.answer(OBJECT)

    async with talking_to(engine, note) as transport:
        await transport.request(HttpRequest("GET", "/x"))
        await transport.request(HttpRequest("GET", "/x", headers={"user-agent": "mine"}))
    assert agents == ["grove", "mine"]


async def test_a_reader_that_falls_behind_loses_nothing(engine: Engine) -> None:
    async def flood(exchange: Exchange) -> None:
        await exchange.begin_stream()
        for _ in range(64):
            await exchange.chunk(b"x" * 100_000)
        await exchange.end_stream()

    total = 0
    async with talking_to(engine, flood) as transport, transport.stream(HttpRequest("GET", "/x")) as stream:
        assert stream.status == 200
        async for piece in stream.chunks():
            total += len(piece)
            await asyncio.sleep(0.002)
    assert total == 6_400_000


async def test_a_server_below_a_path_is_asked_there(engine: Engine) -> None:
    targets: list[str] = []

    async def note(exchange: Exchange) -> None:
        targets.append(f"{exchange.headers['host']} {exchange.target}")
        await exchange.answer(OBJECT)

    async with serve(note) as address:
        transport = engine(f"{address}/k8s/clusters/c-1/")
        await transport.request(HttpRequest("GET", "/version"))
        await transport.close()
    assert targets == [f"{address.removeprefix('http://')} /k8s/clusters/c-1/version"]


async def test_many_requests_at_once_are_all_answered(engine: Engine) -> None:
    async def echo(exchange: Exchange) -> None:
        await exchange.answer(exchange.target.encode())

    async with talking_to(engine, echo) as transport:
        asked = [f"/{number}" for number in range(200)]
        answers = await asyncio.gather(*(transport.request(HttpRequest("GET", path)) for path in asked))
    assert [answer.body.decode() for answer in answers] == asked
