"""One HTTP/1.1 connection to a server, carrying one exchange after the other.

An answer is either awaited whole or taken piece by piece; a reader that falls behind makes the socket wait. Whatever is
not an answer in full (a reset, half a body, bytes that are not HTTP, bytes nobody asked for) ends the connection and
raises TransportError in whoever waits.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import cast

import httptools

from grove.runtime.transport import HttpResponse, TransportError

_AHEAD = 1 << 20  # bytes that may wait for a slow reader
_EMPTY = frozenset({204, 304})  # answers that have no body, whatever their headers say


class HttpConnection(asyncio.Protocol):
    """An answer in full frees it for the next request, unless the server or a fault has ended it (`usable`)."""

    def __init__(self, ended: Callable[[HttpConnection], None]) -> None:
        self._ended = ended
        self._loop = asyncio.get_running_loop()
        self._parser = httptools.HttpResponseParser(self)
        self._wire: asyncio.Transport | None = None
        self._error: TransportError | None = None
        self._waiter: asyncio.Future[None] | None = None
        self._streaming = False
        self._paused = False
        self.idle_since = 0.0
        self._clear(complete=True)

    @property
    def usable(self) -> bool:
        return self._wire is not None and self._error is None and self._complete

    async def exchange(self, head: bytes, body: bytes | None) -> HttpResponse:
        """Sends a request and waits for the whole answer."""
        self._send(head, body)
        await self._until(lambda: self._complete)
        return HttpResponse(self.status, self.headers, b"".join(self._pieces))

    async def begin(self, head: bytes) -> None:
        """Sends a request and waits until `status` and `headers` are known; `take` has the body."""
        self._streaming = True
        self._send(head, None)
        await self._until(lambda: self._head_complete)

    async def take(self) -> bytes:
        """What has arrived of the body; nothing at its end."""
        await self._until(lambda: bool(self._pieces) or self._complete)
        taken = b"".join(self._pieces)
        self._pieces.clear()
        self._ahead = 0
        if self._paused and self._wire is not None:
            self._paused = False
            self._wire.resume_reading()
        return taken

    def abort(self, why: str = "the connection was closed") -> None:
        """Ends the connection at once. An unfinished exchange fails."""
        self._fail(TransportError(why))

    # What the event loop calls.

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._wire = cast("asyncio.Transport", transport)  # what a loop gives a Protocol

    def data_received(self, data: bytes) -> None:
        try:
            self._parser.feed_data(data)
        except httptools.HttpParserUpgrade:
            self._fail(TransportError("the server changed to another protocol"))
        except httptools.HttpParserError as error:
            self._fail(TransportError(f"the answer is not HTTP: {error}"))

    def eof_received(self) -> None:
        if self._until_end:
            self._answered()
            self._hang_up()

    def connection_lost(self, exc: Exception | None) -> None:
        self._wire = None
        self._fail(TransportError(f"the connection broke{f': {exc}' if exc else ''}"))
        self._ended(self)

    # What the parser calls.

    def on_message_begin(self) -> None:
        if self._complete:
            raise ValueError("the server spoke without being asked")  # ends the parsing, and by that the connection

    def on_header(self, name: bytes, value: bytes) -> None:
        self.headers[name.decode("latin-1").lower()] = value.decode("latin-1")

    def on_headers_complete(self) -> None:
        self.status = self._parser.get_status_code()
        if self.status < 200:  # an interim answer: the real one follows
            return
        self._head_complete = True
        bounded = "content-length" in self.headers or "chunked" in self.headers.get("transfer-encoding", "")
        self._until_end = not bounded and self.status not in _EMPTY
        if self._streaming:
            self._wake()

    def on_body(self, body: bytes) -> None:
        self._pieces.append(body)
        if not self._streaming:
            return
        self._ahead += len(body)
        if self._ahead > _AHEAD and not self._paused and self._wire is not None:
            self._paused = True
            self._wire.pause_reading()
        self._wake()

    def on_message_complete(self) -> None:
        if self.status < 200:
            self.headers.clear()
            return
        self._answered()
        if not self._parser.should_keep_alive():
            self._hang_up()

    def _clear(self, *, complete: bool) -> None:
        self.status = 0
        self.headers: dict[str, str] = {}
        self._pieces: list[bytes] = []
        self._ahead = 0
        self._head_complete = complete
        self._complete = complete
        self._until_end = False

    def _send(self, head: bytes, body: bytes | None) -> None:
        if self._wire is None or self._error is not None:
            raise self._error or TransportError("the connection is not open")
        self._clear(complete=False)
        self._wire.write(head + body if body else head)

    async def _until(self, holds: Callable[[], bool]) -> None:
        while not holds():
            if self._error is not None:
                raise self._error
            self._waiter = self._loop.create_future()
            await self._waiter

    def _answered(self) -> None:
        self._complete = True
        self._wake()

    def _wake(self) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)

    def _fail(self, error: TransportError) -> None:
        if self._error is None:
            self._error = error
            self._hang_up()
            self._wake()

    def _hang_up(self) -> None:
        if self._wire is not None:
            self._wire.abort()
            self._wire = None
