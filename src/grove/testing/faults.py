"""A transport that breaks things, by a seed: refusals, lost answers, crashes, and watches that misbehave.

Nothing here does what a real server never does: within the history of one object events keep their order, a stale list
is only served to a caller that accepts one (`resourceVersion=0`), and a write either took effect or did not. Each fault
has a probability; `Faults.calm()` switches all of them off, so that a test can let the world come to rest.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, fields

import msgspec

from grove.runtime.transport import HttpRequest, HttpResponse, HttpStream, TransportError, TransportTimeout
from grove.testing import failures
from grove.testing.faultywatch import FaultyWatch
from grove.testing.memorytransport import MemoryTransport
from grove.testing.reads import AS_OF

_WRITES = ("POST", "PUT", "PATCH", "DELETE")
_STALE_REACH = 200
"""How many versions back a stale list may lie."""


class ProcessCrash(BaseException):
    """The program under test dies at this point. Not an Exception, so that no handler can survive it."""


@dataclass
class Faults:
    """Probabilities per request (or per watch and event), and writes at which the program dies."""

    conflict: float = 0.0
    throttled: float = 0.0
    server_error: float = 0.0
    server_error_after: float = 0.0
    """The write took effect and 500 is answered all the same."""
    timeout_before: float = 0.0
    timeout_after: float = 0.0
    """The write took effect and the answer is lost."""
    latency: tuple[float, float] = (0.001, 0.005)
    """Seconds each way. Never nothing: two programs that undo each other's work must not do it in no time."""
    watch_drop: float = 0.0
    """Per event: the connection breaks before it."""
    watch_lag: tuple[float, float] = (0.0, 0.0)
    """Seconds each delivery is late; several kinds lag independently, so their events are reordered."""
    watch_duplicate: float = 0.0
    watch_merge: float = 0.0
    """Per event: wait for the next ones and deliver only the latest state of each object."""
    watch_gone: float = 0.0
    """Per resumed watch: its version is too old."""
    stale_list: float = 0.0
    silent: frozenset[str] = frozenset()
    """Resources (`podcliquesets`) whose watches tell nothing for now, while those of others go on."""
    crash_before_write: frozenset[int] = frozenset()
    crash_after_write: frozenset[int] = frozenset()
    """Which writes of the run, counted from 1, the program dies at."""

    def calm(self) -> None:
        """Switches everything off, crashes included."""
        blank = Faults()
        for known in fields(self):
            setattr(self, known.name, getattr(blank, known.name))

    @classmethod
    def drawn(cls, rng: random.Random, *, strength: float = 0.1, crashes: int = 2, writes: int = 40) -> Faults:
        """A random mixture: each fault is on in about half of all draws, with a probability up to `strength`."""

        def chance() -> float:
            return rng.uniform(0, strength) if rng.random() < 0.5 else 0.0

        points = frozenset(rng.randint(1, writes) for _ in range(rng.randint(0, crashes)))
        after = frozenset(point for point in sorted(points) if rng.random() < 0.5)
        return cls(
            conflict=chance(),
            throttled=chance(),
            server_error=chance(),
            server_error_after=chance(),
            timeout_before=chance(),
            timeout_after=chance(),
            latency=rng.choice(((0.002, 0.02), (0.01, 0.1), (0.05, 1.0))),
            watch_drop=chance(),
            watch_lag=(0.0, rng.choice((0.0, 0.5, 5.0))),
            watch_duplicate=chance(),
            watch_merge=chance(),
            watch_gone=chance(),
            stale_list=chance(),
            crash_before_write=points - after,
            crash_after_write=after,
        )


@dataclass
class FaultyTransport:
    """A MemoryTransport with faults. `crashed` is set when the program was told to die; it may start again with
    `restarted()`, a new transport that goes on counting writes."""

    inner: MemoryTransport
    faults: Faults
    rng: random.Random
    crashed: asyncio.Event = field(default_factory=asyncio.Event)
    writes: int = 0

    def restarted(self) -> FaultyTransport:
        server, identity = self.inner.server, self.inner.identity
        return FaultyTransport(MemoryTransport(server, identity), self.faults, self.rng, writes=self.writes)

    async def request(self, request: HttpRequest) -> HttpResponse:
        self._refuse_the_dead()
        await self._travel()
        if request.method not in _WRITES:
            return await self._read(request)
        self.writes += 1
        number = self.writes
        if number in self.faults.crash_before_write:
            self._die(f"before write {number}")
        refusal = self._refusal_before(request)
        if refusal is not None:
            return refusal
        response = await self.inner.request(request)
        if number in self.faults.crash_after_write:
            self._die(f"after write {number}")
        await self._travel()
        if self._happens(self.faults.timeout_after):
            raise TransportTimeout("the answer was lost after the write took effect")
        if self._happens(self.faults.server_error_after):
            return _answer(failures.internal("the answer was lost after the write took effect"))
        return response

    async def _read(self, request: HttpRequest) -> HttpResponse:
        if self._happens(self.faults.timeout_before):
            raise TransportTimeout("no answer")
        refusal = self._overload()
        if refusal is not None:
            return refusal
        if dict(request.query).get("resourceVersion") == "0" and self._happens(self.faults.stale_list):
            request = self._from_the_past(request)
        response = await self.inner.request(request)
        await self._travel()
        return response

    def _refusal_before(self, request: HttpRequest) -> HttpResponse | None:
        if self._happens(self.faults.timeout_before):
            raise TransportTimeout("the request was lost before it arrived")
        if request.method != "POST" and self._happens(self.faults.conflict):
            subject = failures.Subject(request.path.rsplit("/", 2)[-2], "", request.path.rsplit("/", 1)[-1])
            return _answer(failures.modified(subject))
        return self._overload()

    def _overload(self) -> HttpResponse | None:
        if self._happens(self.faults.throttled):
            return _answer(failures.too_many_requests("too many requests, please try again later", 1))
        if self._happens(self.faults.server_error):
            return _answer(failures.internal("etcdserver: leader changed"))
        return None

    @asynccontextmanager
    async def stream(self, request: HttpRequest) -> AsyncIterator[HttpStream]:
        self._refuse_the_dead()
        await self._travel()
        query = dict(request.query)
        resumed = query.get("resourceVersion", "") not in ("", "0")
        if resumed and self._happens(self.faults.watch_gone):
            yield _expired_stream()
            return
        if query.get("resourceVersion") == "0" and self._happens(self.faults.stale_list):
            request = self._from_the_past(request)
        async with self.inner.stream(request) as stream:
            resource = request.path.rsplit("/", 1)[-1]
            yield FaultyWatch(stream, self.faults, self.rng, self.crashed, resource)

    async def close(self) -> None:
        await self.inner.close()

    def _from_the_past(self, request: HttpRequest) -> HttpRequest:
        version = max(self.inner.server.storage.version - self.rng.randint(1, _STALE_REACH), 1)
        query = (*request.query, (AS_OF, str(version)))
        return HttpRequest(request.method, request.path, query, request.headers, request.body, request.timeout)

    async def _travel(self) -> None:
        if self.faults.latency[1]:
            await asyncio.sleep(self.rng.uniform(*self.faults.latency))
            self._refuse_the_dead()

    def _happens(self, probability: float) -> bool:
        return probability > 0 and self.rng.random() < probability

    def _refuse_the_dead(self) -> None:
        if self.crashed.is_set():
            raise TransportError("the program has died")

    def _die(self, when: str) -> None:
        self.crashed.set()
        raise ProcessCrash(when)


def _answer(failure: failures.ApiError) -> HttpResponse:
    headers = {"content-type": "application/json", **failure.headers}
    return HttpResponse(failure.code, headers, msgspec.json.encode(failure.status()))


@dataclass(frozen=True)
class _Fixed:
    """A stream with one chunk."""

    chunk: bytes
    status: int = 200
    headers: Mapping[str, str] = field(default_factory=dict)

    async def chunks(self) -> AsyncIterator[bytes]:
        yield self.chunk


def _expired_stream() -> _Fixed:
    error = {"type": "ERROR", "object": failures.expired("too old resource version").status()}
    return _Fixed(msgspec.json.encode(error) + b"\n")
