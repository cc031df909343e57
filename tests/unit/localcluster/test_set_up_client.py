"""The client that sets a cluster up: what it does when the server lets go of connections that nobody uses."""

from __future__ import annotations

import socket
import ssl
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from grove.localcluster.certificates import ADMIN, ensure_certificates
from grove.localcluster.rest import ApiServer


class Impatient(ThreadingHTTPServer):
    """Answers, says nothing of closing, and closes."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Answer)
        self.hung_up = threading.Event()

    def shutdown_request(self, request: socket.socket | tuple[bytes, socket.socket]) -> None:
        super().shutdown_request(request)
        self.hung_up.set()


class _Answer(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers["Content-Length"]))
        self.send_response(200)
        self.send_header("Content-Length", "2")
        self.end_headers()
        self.wfile.write(b"{}")
        self.close_connection = True

    def log_message(self, *_: object) -> None:
        return


@pytest.fixture
def impatient(tmp_path: Path) -> Iterator[Impatient]:
    ensure_certificates(tmp_path)
    server = Impatient()
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(tmp_path / "serving.crt", tmp_path / "serving.key")
    server.socket = context.wrap_socket(server.socket, server_side=True)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield server
    server.shutdown()
    thread.join()
    server.server_close()


def test_connection_the_server_has_closed_is_not_used_again(impatient: Impatient, tmp_path: Path) -> None:
    with ApiServer(f"https://127.0.0.1:{impatient.server_port}", tmp_path, ADMIN.file_name) as api:
        for _ in range(5):
            assert api.create("/things", {}) == {}
            assert impatient.hung_up.wait(10)
            impatient.hung_up.clear()
