"""The quick transport: requests, reused connections, renewed credentials, broken exchanges."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from grove.cli.quick_transport import QuickTransport
from grove.runtime.connection import Connection
from grove.runtime.transport import HttpRequest, TransportError, TransportTimeout


class Handler(BaseHTTPRequestHandler):
    """Answers with what it was asked; a path tells it to misbehave."""

    protocol_version = "HTTP/1.1"
    seen: list[tuple[str, str | None, int]]
    accepted = "Bearer new"
    release: threading.Event

    def do_GET(self) -> None:
        self.seen.append((self.path, self.headers.get("Authorization"), self.client_address[1]))
        if self.path.startswith("/slow"):
            self.release.wait(10)
            return
        if self.path.startswith("/broken"):
            self.wfile.write(b"not http\r\n\r\n")
            self.close_connection = True
            return
        refused = self.path.startswith("/private") and self.headers.get("Authorization") != self.accepted
        body = b"{}"
        self.send_response(401 if refused else 200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002
        """Tests are quiet."""


@pytest.fixture
def server() -> Iterator[tuple[str, type[Handler]]]:
    handler = type("Fresh", (Handler,), {"seen": [], "release": threading.Event()})
    found = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    thread = threading.Thread(target=found.serve_forever, daemon=True)
    thread.start()
    yield f"http://127.0.0.1:{found.server_port}", handler
    handler.release.set()
    found.shutdown()
    found.server_close()
    thread.join()


async def test_queries_are_sent_and_a_connection_is_used_again(server: tuple[str, type[Handler]]) -> None:
    transport = QuickTransport(Connection(server[0] + "/prefix"))
    first = await transport.request(HttpRequest("GET", "/api", (("labelSelector", "a=b,c"),), timeout=5))
    second = await transport.request(HttpRequest("GET", "/api", timeout=5))
    await transport.close()

    assert (first.status, first.body, second.status) == (200, b"{}", 200)
    assert [path for path, _, _ in server[1].seen] == ["/prefix/api?labelSelector=a%3Db%2Cc", "/prefix/api"]
    assert len({port for _, _, port in server[1].seen}) == 1


async def test_a_token_that_was_replaced_is_read_again_after_401(
    server: tuple[str, type[Handler]], tmp_path: Path
) -> None:
    token = tmp_path / "token"
    token.write_text("old")
    transport = QuickTransport(Connection(server[0], token_file=token))
    refused = await transport.request(HttpRequest("GET", "/private", timeout=5))
    token.write_text("new")
    accepted = await transport.request(HttpRequest("GET", "/private", timeout=5))
    await transport.close()

    assert (refused.status, accepted.status) == (401, 200)
    assert [sent for _, sent, _ in server[1].seen] == ["Bearer old", "Bearer old", "Bearer old", "Bearer new"]


async def test_an_answer_that_does_not_come_is_a_timeout(server: tuple[str, type[Handler]]) -> None:
    transport = QuickTransport(Connection(server[0]))
    with pytest.raises(TransportTimeout):
        await transport.request(HttpRequest("GET", "/slow", timeout=0.05))
    await transport.close()


async def test_what_is_not_http_is_a_transport_error(server: tuple[str, type[Handler]]) -> None:
    transport = QuickTransport(Connection(server[0]))
    with pytest.raises(TransportError):
        await transport.request(HttpRequest("GET", "/broken", timeout=5))
    await transport.close()
