"""Sends requests: encodes, limits what is in flight, obeys Retry-After, repeats only what is harmless, decodes.

A write whose outcome is unknown is never repeated unless its precondition makes that safe: the caller gets
`Unreachable` and looks again. Every attempt of a write passes the fence first.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Mapping
from contextlib import aclosing
from typing import Any, TypedDict, TypeVar, Unpack, cast

import msgspec

from grove.runtime import errors, requests
from grove.runtime.codec import decode_list, decoder, encode
from grove.runtime.limiter import InFlightLimiter
from grove.runtime.objects import ObjectList, PartialObject
from grove.runtime.requests import Request
from grove.runtime.resource import Resource
from grove.runtime.scope import CURRENT
from grove.runtime.transport import HttpRequest, HttpResponse, Transport, TransportError
from grove.runtime.watch import Event, LineSplitter, WatchOptions, event_decoder, events_in, watch_request

T = TypeVar("T")
OnRequest = Callable[[str, Resource[Any], int, float], None]

ATTEMPTS = 6
FIRST_PAUSE = 0.1
LONGEST_PAUSE = 10.0
REQUEST_TIMEOUT = 30.0
IDLE_WATCH = 90.0  # a healthy server sends a bookmark about once a minute
_ERROR_BODY = 64 * 1024


class Selection(TypedDict, total=False):
    """Which objects of a resource: one namespace or all, and selectors the server evaluates."""

    namespace: str | None
    label_selector: str
    field_selector: str


class ClientHooks(TypedDict, total=False):
    """Whom the client tells, and asks: metrics, leadership, and where jitter comes from."""

    on_request: OnRequest
    fence: Callable[[], bool]
    rng: random.Random


class Client:
    """Talks to one API server."""

    def __init__(
        self,
        transport: Transport,
        *,
        field_manager: str = "grove-operator",
        in_flight: int = 64,
        timeout: float = REQUEST_TIMEOUT,
        **hooks: Unpack[ClientHooks],
    ) -> None:
        self.transport = transport
        self.field_manager = field_manager
        self.limiter = InFlightLimiter(in_flight)
        self.fence: Callable[[], bool] | None = hooks.get("fence")
        self.on_request: OnRequest | None = hooks.get("on_request")
        self._rng = hooks.get("rng") or random.Random()
        self._timeout = timeout

    async def send(self, request: Request[T]) -> T:
        """Sends a request and decodes its answer; raises an ApiError otherwise."""
        http = self._encode(request)
        attempt = 0
        while True:
            try:
                response = await self._exchange(request, http)
                return _decode(request, response)
            except errors.ApiError as error:
                attempt += 1
                pause = self._pause(request, error, attempt)
                if pause is None:
                    raise
            await asyncio.sleep(pause)

    async def delete(
        self, resource: Resource[T], namespace: str | None, name: str, **options: Unpack[requests.DeleteOptions]
    ) -> T | None:
        """Deletes; None when it is gone, the object when it is only marked and still terminating."""
        return await self.send(requests.delete(resource, namespace, name, **options))

    async def pages(
        self, resource: Resource[T], *, limit: int = requests.PAGE, **selection: Unpack[Selection]
    ) -> AsyncGenerator[ObjectList[T], None]:
        """A consistent list, page by page. Gone means the snapshot expired under way: begin again."""
        continue_ = ""
        while True:
            page = await self.send(requests.list_(resource, limit=limit, continue_=continue_, **selection))
            yield page
            continue_ = page.metadata.continue_
            if not continue_:
                return

    async def list_all(self, resource: Resource[T], **selection: Unpack[Selection]) -> ObjectList[T]:
        """All objects, as one list at one version."""
        items: list[T] = []
        page: ObjectList[T] = ObjectList()
        async for page in self.pages(resource, **selection):
            items += page.items
        return ObjectList(metadata=page.metadata, items=items)

    async def watch(self, resource: Resource[T], **options: Unpack[WatchOptions]) -> AsyncGenerator[Event[T], None]:
        """Changes as they happen, until the server ends the stream or falls silent. Close the iterator to hang up."""
        request = watch_request(resource, options, connect_timeout=self._timeout)
        async with aclosing(self._lines(resource, request, options.get("idle", IDLE_WATCH))) as batches:
            decode = event_decoder(cast("Any", resource.model))
            async for lines in batches:
                for event in events_in(decode, lines):
                    yield event

    async def _lines(
        self, resource: Resource[Any], request: HttpRequest, idle: float
    ) -> AsyncGenerator[list[bytes], None]:
        loop = asyncio.get_running_loop()
        started = loop.time()
        try:
            async with self.transport.stream(request) as stream:
                self._report("watch", resource, stream.status, loop.time() - started)
                if stream.status != 200:
                    raise errors.from_response(stream.status, stream.headers, await _beginning(stream.chunks(), idle))
                splitter = LineSplitter()
                chunks = stream.chunks()
                while (chunk := await _next(chunks, idle)) is not None:
                    yield splitter.feed(chunk)
        except TransportError as error:
            raise errors.Unreachable(f"watch {resource}: {error}") from error

    def _encode(self, request: Request[Any]) -> HttpRequest:
        query = request.query
        if request.body is None:
            return HttpRequest(requests.METHODS[request.verb], request.path, query, _READ_HEADERS, None, self._timeout)
        if request.verb != "delete":
            query += (("fieldManager", request.field_manager or self.field_manager),)
        headers = _WRITE_HEADERS[request.content_type]
        body = encode(request.body)
        return HttpRequest(requests.METHODS[request.verb], request.path, query, headers, body, self._timeout)

    async def _exchange(self, request: Request[Any], http: HttpRequest) -> HttpResponse:
        """One attempt."""
        limiter = self.limiter
        await limiter.acquire()
        try:
            if request.is_write and self.fence is not None and not self.fence():
                raise errors.Fenced(f"{request.verb} {request.path} not sent: the lease may be lost")
            loop = asyncio.get_running_loop()
            started = loop.time()
            try:
                response = await self.transport.request(http)
            except TransportError as error:
                self._report(request.verb, request.resource, 0, loop.time() - started)
                raise errors.Unreachable(f"{request.verb} {request.path}: {error}") from error
            self._report(request.verb, request.resource, response.status, loop.time() - started)
        finally:
            limiter.release()
        if response.status < 300:
            limiter.succeeded()
            if request.is_write and (scope := CURRENT.get()) is not None:
                scope.writes += 1
            return response
        if response.status == 429 and request.subresource != "eviction":
            limiter.refused()
        raise errors.from_response(response.status, response.headers, response.body)

    def _pause(self, request: Request[Any], error: errors.ApiError, attempt: int) -> float | None:
        """How long to wait before trying again, or None when trying again is not ours to decide."""
        if attempt >= ATTEMPTS:
            return None
        if isinstance(error, errors.Throttled):
            again = request.subresource != "eviction"  # there 429 is the disruption budget speaking
        elif isinstance(error, errors.ServerError):
            again = request.repeatable and error.status >= 500
        else:
            again = request.repeatable and isinstance(error, errors.Unreachable)
        if not again:
            return None
        backoff: float = min(LONGEST_PAUSE, FIRST_PAUSE * 2 ** (attempt - 1)) * (0.5 + self._rng.random())
        return max(backoff, error.retry_after or 0.0)

    def _report(self, verb: str, resource: Resource[Any], code: int, seconds: float) -> None:
        if self.on_request is not None:
            self.on_request(verb, resource, code, seconds)


_READ_HEADERS: Mapping[str, str] = {"accept": "application/json"}
_WRITE_HEADERS: Mapping[str, Mapping[str, str]] = {
    content_type: {"accept": "application/json", "content-type": content_type}
    for content_type in (requests.JSON, requests.APPLY, requests.MERGE_PATCH, requests.JSON_PATCH)
}


def _decode(request: Request[T], response: HttpResponse) -> T:
    try:
        if request.verb == "delete" and decoder(PartialObject)(response.body).kind == "Status":
            answer: Any = None
        elif request.verb == "list":
            answer = decode_list(request.resource.model, response.body)
        else:
            answer = decoder(request.answer)(response.body)
    except msgspec.MsgspecError as problem:
        raise errors.not_kubernetes(response.status, response.headers, response.body, str(problem)) from problem
    return cast("T", answer)


async def _next(chunks: AsyncIterator[bytes], idle: float) -> bytes | None:
    """The next piece, None at the end. Silence for `idle` seconds is an end: the line may be dead, and going on from
    the last version costs next to nothing."""
    try:
        async with asyncio.timeout(idle):
            return await anext(chunks, None)
    except TimeoutError:
        return None


async def _beginning(chunks: AsyncIterator[bytes], idle: float) -> bytes:
    body = b""
    while len(body) < _ERROR_BODY and (chunk := await _next(chunks, idle)) is not None:
        body += chunk
    return body
