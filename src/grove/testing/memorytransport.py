"""The client's end of an in-memory server: the runtime's Transport without sockets."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

import msgspec

from grove.runtime.transport import HttpRequest, HttpResponse, HttpStream, TransportError
from grove.testing.failures import ApiError
from grove.testing.requests import Identity
from grove.testing.watch import Watch

if TYPE_CHECKING:
    from grove.testing.apiserver import ApiServer

_JSON = {"content-type": "application/json"}


class MemoryTransport:
    """Calls the server in the same loop; each request lets other tasks run first, as a real one would."""

    def __init__(self, server: ApiServer, identity: Identity) -> None:
        self.server = server
        self.identity = identity
        self._closed = False

    async def request(self, request: HttpRequest) -> HttpResponse:
        if self._closed:
            raise TransportError("the transport is closed")
        await asyncio.sleep(0)
        return await self.server.handle(request, self.identity)

    @asynccontextmanager
    async def stream(self, request: HttpRequest) -> AsyncIterator[HttpStream]:
        if self._closed:
            raise TransportError("the transport is closed")
        await asyncio.sleep(0)
        try:
            watch = self.server.open_watch(request, self.identity)
        except ApiError as failure:
            yield MemoryStream(failure.code, failure)
            return
        try:
            yield MemoryStream(200, watch)
        finally:
            self.server.close_watch(watch)

    async def close(self) -> None:
        self._closed = True


class MemoryStream:
    """A watch, or the refusal of one, as a stream of bytes."""

    def __init__(self, status: int, source: Watch | ApiError) -> None:
        self._status = status
        self._source = source

    @property
    def status(self) -> int:
        return self._status

    @property
    def headers(self) -> Mapping[str, str]:
        more = self._source.headers if isinstance(self._source, ApiError) else {}
        return {**_JSON, **more}

    async def chunks(self) -> AsyncIterator[bytes]:
        if isinstance(self._source, ApiError):
            yield msgspec.json.encode(self._source.status())
            return
        async for chunk in self._source.chunks():
            yield chunk
