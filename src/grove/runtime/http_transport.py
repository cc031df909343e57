"""The transport over real sockets, with httptools: connections for requests are kept, and a watch has one of its own.

A quarter of the CPU of the general client beside it (`aiohttp_transport`), which stays for proxies. It adds the
credentials, renews them once when the server answers 401 (a refused request had no effect), and turns every way an
exchange can break into a TransportError. It asks for no compression: that costs more CPU than it saves.
"""

from __future__ import annotations

import asyncio
import ssl
from collections import deque
from collections.abc import AsyncIterator, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from functools import lru_cache
from urllib.parse import urlsplit

from grove.runtime.credentials import Anonymous, Credentials, Identity
from grove.runtime.http_connection import HttpConnection
from grove.runtime.tls import Tls, client_context
from grove.runtime.transport import (
    USER_AGENT,
    HttpRequest,
    HttpResponse,
    HttpStream,
    TransportError,
    TransportTimeout,
    explain,
    target,
)

# Shorter than servers keep an idle connection, so that a request seldom meets one that is just being closed.
_KEEP_ALIVE = 60.0


class _Stream:
    """A response body that is read as it arrives."""

    def __init__(self, connection: HttpConnection) -> None:
        self._connection = connection

    @property
    def status(self) -> int:
        return self._connection.status

    @property
    def headers(self) -> Mapping[str, str]:
        return self._connection.headers

    async def chunks(self) -> AsyncIterator[bytes]:
        while piece := await self._connection.take():
            yield piece


class HttpTransport:
    """Requests to one API server. Must be used, and closed, on one event loop."""

    def __init__(self, server: str, *, tls: Tls | None = None, credentials: Credentials | None = None) -> None:
        parts = urlsplit(server.rstrip("/"))
        self._secure = parts.scheme == "https"
        self._host = parts.hostname or ""
        self._port = parts.port or (443 if self._secure else 80)
        self._base = parts.path
        self._authority = parts.netloc.rpartition("@")[2]
        self._tls = tls or Tls()
        self._credentials = credentials or Anonymous()
        self._context: ssl.SSLContext | None = None
        self._certificate: tuple[bytes, bytes] | None = None
        self._open: set[HttpConnection] = set()
        self._idle: deque[HttpConnection] = deque()

    async def request(self, request: HttpRequest) -> HttpResponse:
        response = await self._exchange(request, await self._credentials.identity())
        if response.status == 401 and self._credentials.renewable:
            self._credentials.renew()
            response = await self._exchange(request, await self._credentials.identity())
        return response

    def stream(self, request: HttpRequest) -> AbstractAsyncContextManager[HttpStream]:
        return self._stream(request)

    async def close(self) -> None:
        for connection in tuple(self._open):
            connection.abort()
        self._idle.clear()
        await asyncio.sleep(0)  # the loop tells the connections

    async def _exchange(self, request: HttpRequest, identity: Identity) -> HttpResponse:
        head = self._head(request, identity)
        connection: HttpConnection | None = None
        try:
            async with asyncio.timeout(request.timeout):
                connection = self._kept(identity) or await self._connect(identity)
                response = await connection.exchange(head, request.body)
        except BaseException as error:
            if connection is not None:
                connection.abort()
            if isinstance(error, TimeoutError):
                raise TransportTimeout(f"no complete answer within {request.timeout} s") from error
            raise
        if connection.usable and identity.client_certificate == self._certificate:
            connection.idle_since = asyncio.get_running_loop().time()
            self._idle.append(connection)
        else:
            connection.abort()
        return response

    @asynccontextmanager
    async def _stream(self, request: HttpRequest) -> AsyncIterator[HttpStream]:
        identity = await self._credentials.identity()
        head = self._head(request, identity)
        connection: HttpConnection | None = None
        try:
            try:
                async with asyncio.timeout(request.timeout):
                    connection = await self._connect(identity)
                    await connection.begin(head)
            except TimeoutError as error:
                raise TransportTimeout(f"no status line within {request.timeout} s") from error
            if connection.status == 401 and self._credentials.renewable:
                self._credentials.renew()  # the caller comes back, with the new ones
            yield _Stream(connection)
        finally:
            if connection is not None:
                connection.abort()

    def _kept(self, identity: Identity) -> HttpConnection | None:
        """The connection that was used last, so that those of a busy hour grow old; and these are dropped."""
        if identity.client_certificate != self._certificate:
            return None
        long_ago = asyncio.get_running_loop().time() - _KEEP_ALIVE
        while self._idle and self._idle[0].idle_since < long_ago:
            self._idle.popleft().abort()
        while self._idle:
            connection = self._idle.pop()
            if connection.usable:
                return connection
        return None

    async def _connect(self, identity: Identity) -> HttpConnection:
        try:
            context = self._context_of(identity) if self._secure else None
            _, connection = await asyncio.get_running_loop().create_connection(
                lambda: HttpConnection(self._open.discard),
                self._host,
                self._port,
                ssl=context,
                server_hostname=(self._tls.server_name or self._host) if context else None,
            )
        except (OSError, ValueError) as error:
            raise TransportError(f"cannot connect to {self._authority}: {explain(error)}") from error
        self._open.add(connection)
        return connection

    def _context_of(self, identity: Identity) -> ssl.SSLContext:
        if self._context is None or identity.client_certificate != self._certificate:
            self._context = client_context(self._tls, identity.client_certificate)
            self._certificate = identity.client_certificate
            while self._idle:
                self._idle.pop().abort()  # they show who we were
        return self._context

    def _head(self, request: HttpRequest, identity: Identity) -> bytes:
        body = f"content-length: {len(request.body)}\r\n" if request.body is not None else ""
        fields = _fields(tuple(request.headers.items()), tuple(identity.headers.items()))
        return (
            f"{request.method} {self._base}{target(request)} HTTP/1.1\r\nhost: {self._authority}\r\n{fields}{body}\r\n"
        ).encode("ascii")


@lru_cache(maxsize=64)
def _fields(*parts: tuple[tuple[str, str], ...]) -> str:
    """Header lines; a later one takes the place of an earlier one. What would end a line early is refused."""
    fields = {"user-agent": USER_AGENT} | {name.lower(): value for part in parts for name, value in part}
    for name, value in fields.items():
        if not value.isascii() or not value.isprintable():
            raise TransportError(f"the header {name} has characters that no header can carry")
    return "".join(f"{name}: {value}\r\n" for name, value in fields.items())
