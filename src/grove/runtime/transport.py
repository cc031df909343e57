"""The one seam for I/O towards an API server: a request in, a response or a stream of bytes out.

Everything above this file (client, reflector, leader election) works the same over TLS sockets and over the in-memory
API server of `grove.testing`; everything below it is an HTTP engine that knows nothing of Kubernetes.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Protocol
from urllib.parse import quote, urlencode

USER_AGENT = "grove"


class TransportError(Exception):
    """The exchange did not complete: refused, reset, timed out, or not HTTP. Whether it took effect is unknown."""


class TransportTimeout(TransportError):
    """No complete answer arrived in the time the request allowed."""


@dataclass(frozen=True, slots=True)
class HttpRequest:
    """One HTTP exchange with the API server, as a value. `path` starts with a slash; `query` keeps its order."""

    method: str
    path: str
    query: Sequence[tuple[str, str]] = ()
    headers: Mapping[str, str] = field(default_factory=dict)
    body: bytes | None = None
    timeout: float | None = None


@dataclass(frozen=True, slots=True)
class HttpResponse:
    """A complete answer. Header names are lower case."""

    status: int
    headers: Mapping[str, str]
    body: bytes


class HttpStream(Protocol):
    """An answer whose body arrives piece by piece (a watch). Pieces are not aligned to lines."""

    @property
    def status(self) -> int: ...

    @property
    def headers(self) -> Mapping[str, str]: ...

    def chunks(self) -> AsyncIterator[bytes]:
        """The body as it arrives; ends when the server ends it, raises TransportError when the connection breaks."""
        ...


class Transport(Protocol):
    """What the client needs from an HTTP engine."""

    async def request(self, request: HttpRequest) -> HttpResponse: ...

    def stream(self, request: HttpRequest) -> AbstractAsyncContextManager[HttpStream]:
        """Opens a stream on a connection of its own; `request.timeout` bounds the wait for the status line only."""
        ...

    async def close(self) -> None: ...


def target(request: HttpRequest) -> str:
    """The path and query as they go over the wire."""
    return _target(request.path, tuple(request.query))


def explain(error: BaseException) -> str:
    """What broke, with its kind: many errors of sockets have no words of their own."""
    return f"{type(error).__name__}: {error}" if str(error) else type(error).__name__


@lru_cache(maxsize=4096)
def _target(path: str, query: tuple[tuple[str, str], ...]) -> str:
    text = quote(path, safe="/:@!$&'()*+,;=~-._")
    return f"{text}?{urlencode(query)}" if query else text
