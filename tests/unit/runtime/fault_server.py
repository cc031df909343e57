"""A socket on 127.0.0.1 that answers HTTP as badly as it is told to."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

Behaviour = Callable[["Exchange"], Awaitable[None]]


class Exchange:
    """One request as it arrived, and the wire to answer on."""

    def __init__(self, head: bytes, body: bytes, writer: asyncio.StreamWriter, hung_up: asyncio.Event) -> None:
        lines = head.decode().split("\r\n")
        self.method, self.target, _ = lines[0].split(" ")
        self.names = [line.partition(":")[0].lower() for line in lines[1:] if line]
        self.headers = {name.lower(): value for name, _, value in (line.partition(": ") for line in lines[1:] if line)}
        self.body = body
        self.writer = writer
        self.hung_up = hung_up

    async def send(self, data: bytes) -> None:
        self.writer.write(data)
        await self.writer.drain()

    async def answer(self, body: bytes, *, status: str = "200 OK", content_type: str = "application/json") -> None:
        head = f"HTTP/1.1 {status}\r\nContent-Type: {content_type}\r\nContent-Length: {len(body)}\r\n\r\n"
        await self.send(head.encode() + body)

    async def begin_stream(self) -> None:
        await self.send(b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n")

    async def chunk(self, data: bytes) -> None:
        await self.send(b"%x\r\n%s\r\n" % (len(data), data))

    async def end_stream(self) -> None:
        await self.send(b"0\r\n\r\n")

    def abort(self) -> None:
        self.writer.transport.abort()


@asynccontextmanager
async def serve(*behaviours: Behaviour, tls: ssl.SSLContext | None = None) -> AsyncIterator[str]:
    """Answers the n-th request with the n-th behaviour, the last one for all that follow. Yields the address."""
    count = 0
    closing = asyncio.Event()

    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal count
        try:
            while True:
                head = await reader.readuntil(b"\r\n\r\n")
                length = next(
                    (int(line[15:]) for line in head.lower().split(b"\r\n") if line.startswith(b"content-length:")), 0
                )
                body = await reader.readexactly(length)
                behaviour = behaviours[min(count, len(behaviours) - 1)]
                count += 1
                await behaviour(Exchange(head, body, writer, closing))
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        finally:
            writer.close()

    server = await asyncio.start_server(talk, "127.0.0.1", 0, ssl=tls)
    port = server.sockets[0].getsockname()[1]
    try:
        yield f"{'https' if tls else 'http'}://127.0.0.1:{port}"
    finally:
        closing.set()
        server.close()
        await server.wait_closed()
