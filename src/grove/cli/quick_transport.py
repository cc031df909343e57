"""A transport for commands that ask a few questions and end: the standard library's HTTP client, a thread per request.

The engine of the operator takes a third of a second to load, which is most of what a quick command may cost in all.
Streams, which only commands that watch need, are handed to that engine.
"""

from __future__ import annotations

import asyncio
import http.client
import ssl
import threading
from contextlib import AbstractAsyncContextManager
from urllib.parse import quote, urlencode, urlsplit

from grove.runtime.connection import Connection, connect, proxy_from_environment
from grove.runtime.credentials import Credentials, ExecPlugin, Fixed, Identity, TokenFile
from grove.runtime.tls import client_context
from grove.runtime.transport import HttpRequest, HttpResponse, HttpStream, Transport, TransportError, TransportTimeout


class QuickTransport:
    """Requests to one API server, without a pool worth mentioning."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._credentials = _credentials(connection)
        self._address = urlsplit(connection.server)
        self._context: ssl.SSLContext | None = None
        self._idle: list[http.client.HTTPConnection] = []
        self._lock = threading.Lock()
        self._engine: Transport | None = None

    async def request(self, request: HttpRequest) -> HttpResponse:
        response = await self._exchange(request, await self._credentials.identity())
        if response.status == 401 and self._credentials.renewable:
            self._context = None
            self._credentials.renew()
            response = await self._exchange(request, await self._credentials.identity())
        return response

    def stream(self, request: HttpRequest) -> AbstractAsyncContextManager[HttpStream]:
        if self._engine is None:
            self._engine = connect(self._connection)
        return self._engine.stream(request)

    async def close(self) -> None:
        for connection in self._idle:
            connection.close()
        self._idle.clear()
        if self._engine is not None:
            await self._engine.close()

    async def _exchange(self, request: HttpRequest, identity: Identity) -> HttpResponse:
        if self._context is None and self._address.scheme == "https":
            self._context = client_context(self._connection.tls, identity.client_certificate)
        try:
            return await asyncio.to_thread(self._blocking, request, identity)
        except TimeoutError as error:
            raise TransportTimeout(f"no complete answer within {request.timeout} s") from error
        except (http.client.HTTPException, OSError) as error:
            raise TransportError(str(error) or type(error).__name__) from error

    def _blocking(self, request: HttpRequest, identity: Identity) -> HttpResponse:
        with self._lock:
            connection = self._idle.pop() if self._idle else None
        connection = connection or self._open()
        connection.timeout = request.timeout
        if connection.sock is not None:
            connection.sock.settimeout(request.timeout)
        target = self._address.path.rstrip("/") + quote(request.path, safe="/:@!$&'()*+,;=~-._")
        if request.query:
            target += f"?{urlencode(request.query)}"
        try:
            headers = {"User-Agent": "grove", **request.headers, **identity.headers}
            connection.request(request.method, target, request.body, headers)
            answer = connection.getresponse()
            body = answer.read()
        except BaseException:
            connection.close()
            raise
        with self._lock:
            self._idle.append(connection)
        return HttpResponse(answer.status, {k.lower(): v for k, v in answer.getheaders()}, body)

    def _open(self) -> http.client.HTTPConnection:
        host, port = self._address.hostname or "", self._address.port or (443 if self._context else 80)
        if self._context is None:
            return http.client.HTTPConnection(host, port)
        return _Secure(host, port, context=self._context, server_name=self._connection.tls.server_name)


def _credentials(connection: Connection) -> Credentials:
    if connection.plugin is not None:
        return ExecPlugin(connection.plugin, connection.identity)
    if connection.token_file is not None:
        return TokenFile(connection.token_file, connection.identity)
    return Fixed(connection.identity)


class _Secure(http.client.HTTPSConnection):
    """TLS under the name the kubeconfig gives, which need not be the host's."""

    def __init__(self, host: str, port: int, *, context: ssl.SSLContext, server_name: str) -> None:
        super().__init__(host, port, context=context)
        self._grove_context = context
        self._grove_name = server_name or host

    def connect(self) -> None:
        http.client.HTTPConnection.connect(self)
        self.sock = self._grove_context.wrap_socket(self.sock, server_hostname=self._grove_name)


def transport(connection: Connection) -> Transport:
    """The quick one where it can do the job: a proxy is left to the full engine."""
    if connection.proxy or proxy_from_environment(connection.server):
        return connect(connection)
    return QuickTransport(connection)
