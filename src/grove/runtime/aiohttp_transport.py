"""The transport through a proxy: aiohttp, HTTP/1.1, a pool for requests and a connection of its own per watch.

It adds the credentials, renews them once when the server answers 401 (a refused request had no effect), and turns every
way an exchange can break into a TransportError. It asks for no compression: that costs more CPU than it saves.
"""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncIterator, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from functools import lru_cache
from typing import TypedDict

import aiohttp
from yarl import URL

from grove.runtime.credentials import Anonymous, Credentials, Identity
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

KEEP_ALIVE = 60.0
_NO_LIMIT = aiohttp.ClientTimeout(total=None, sock_connect=30.0)


class _Extra(TypedDict, total=False):
    ssl: ssl.SSLContext
    proxy: str
    server_hostname: str


class _Stream:
    """A response body that is read as it arrives."""

    def __init__(self, response: aiohttp.ClientResponse) -> None:
        self._response = response

    @property
    def status(self) -> int:
        return self._response.status

    @property
    def headers(self) -> Mapping[str, str]:
        return self._response.headers

    async def chunks(self) -> AsyncIterator[bytes]:
        try:
            async for chunk in self._response.content.iter_any():
                yield chunk
        except (aiohttp.ClientError, OSError) as error:
            raise TransportError(f"the stream broke: {explain(error)}") from error


class AiohttpTransport:
    """Requests to one API server. Must be used, and closed, on one event loop."""

    def __init__(
        self, server: str, *, tls: Tls | None = None, credentials: Credentials | None = None, proxy: str | None = None
    ) -> None:
        self._server = server.rstrip("/")
        self._tls = tls or Tls()
        self._credentials = credentials or Anonymous()
        self._session: aiohttp.ClientSession | None = None
        self._contexts: dict[tuple[bytes, bytes] | None, ssl.SSLContext] = {}
        self._base: _Extra = {"proxy": proxy} if proxy else {}
        if self._tls.server_name:
            self._base["server_hostname"] = self._tls.server_name

    async def request(self, request: HttpRequest) -> HttpResponse:
        response = await self._exchange(request, await self._credentials.identity())
        if response.status == 401 and self._credentials.renewable:
            self._credentials.renew()
            response = await self._exchange(request, await self._credentials.identity())
        return response

    def stream(self, request: HttpRequest) -> AbstractAsyncContextManager[HttpStream]:
        return self._open(request)

    async def close(self) -> None:
        if self._session is not None:
            await self._session.close()
            self._session = None

    async def _exchange(self, request: HttpRequest, identity: Identity) -> HttpResponse:
        try:
            async with self._pool().request(
                request.method,
                self._url(request),
                headers={**request.headers, **identity.headers},
                data=request.body,
                timeout=_timeout(request.timeout),
                allow_redirects=False,
                **self._extra(identity),
            ) as response:
                return HttpResponse(response.status, response.headers, await response.read())
        except TimeoutError as error:
            raise TransportTimeout(f"no complete answer within {request.timeout} s") from error
        except (aiohttp.ClientError, OSError, ValueError) as error:
            raise TransportError(explain(error)) from error

    @asynccontextmanager
    async def _open(self, request: HttpRequest) -> AsyncIterator[HttpStream]:
        identity = await self._credentials.identity()
        try:
            async with asyncio.timeout(request.timeout):
                response = await self._pool().request(
                    request.method,
                    self._url(request),
                    headers={**request.headers, **identity.headers},
                    timeout=_NO_LIMIT,
                    allow_redirects=False,
                    **self._extra(identity),
                )
        except TimeoutError as error:
            raise TransportTimeout(f"no status line within {request.timeout} s") from error
        except (aiohttp.ClientError, OSError, ValueError) as error:
            raise TransportError(explain(error)) from error
        try:
            if response.status == 401 and self._credentials.renewable:
                self._credentials.renew()  # the caller comes back, with the new ones
            yield _Stream(response)
        finally:
            response.close()

    def _pool(self) -> aiohttp.ClientSession:
        if self._session is None:
            connector = aiohttp.TCPConnector(limit=0, keepalive_timeout=KEEP_ALIVE)
            self._session = aiohttp.ClientSession(
                connector=connector,
                skip_auto_headers=("Accept-Encoding",),
                headers={"User-Agent": USER_AGENT},
                cookie_jar=aiohttp.DummyCookieJar(),
            )
        return self._session

    def _url(self, request: HttpRequest) -> URL:
        return _url(self._server + target(request))

    def _extra(self, identity: Identity) -> _Extra:
        if not self._server.startswith("https:"):
            return self._base
        pair = identity.client_certificate
        context = self._contexts.get(pair)
        if context is None:
            self._contexts.clear()  # at most the previous identity's
            context = self._contexts[pair] = client_context(self._tls, pair)
        return {**self._base, "ssl": context}


@lru_cache(maxsize=4096)
def _url(text: str) -> URL:
    return URL(text, encoded=True)


@lru_cache(maxsize=64)
def _timeout(seconds: float | None) -> aiohttp.ClientTimeout:
    return aiohttp.ClientTimeout(total=seconds)
