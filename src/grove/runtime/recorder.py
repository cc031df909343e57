"""Events for people (events.k8s.io/v1): the first of a kind at once, repeats as a counted series, never too many.

Recording is a plain call that only notes; a background task writes. Whatever goes wrong with an event is counted and
forgotten: it must never delay or fail a reconcile.
"""

from __future__ import annotations

import asyncio
import random
from dataclasses import dataclass
from typing import Any, Literal

import msgspec
import structlog

from grove.runtime import errors, requests
from grove.runtime.client import Client
from grove.runtime.clock import Clock, SystemClock, rfc3339_micro
from grove.runtime.objects import HasMetadata, ObjectMeta, ObjectReference
from grove.runtime.resource import Resource

EventType = Literal["Normal", "Warning"]

_NOTE = 1024
_NAME = 253
_SERIES_EVERY = 30.0  # seconds between two writes of one series
_SERIES_ENDS = 600.0  # seconds after which a repeat is a new event
_BURST = 25  # new events per object before they are held to one per _REFILL seconds
_REFILL = 60.0
_BACKLOG = 1000
_log = structlog.get_logger(__name__)


class RecordedEvent(msgspec.Struct, kw_only=True, frozen=True):
    metadata: ObjectMeta


EVENTS = Resource("events.k8s.io", "v1", "events", "Event", RecordedEvent)


@dataclass(frozen=True, slots=True)
class _Fact:
    """What makes two events the same."""

    regarding: ObjectReference
    related: ObjectReference | None
    type: EventType
    reason: str
    action: str
    note: str

    @property
    def key(self) -> tuple[str, ...]:
        ref = self.regarding
        return (ref.uid or f"{ref.kind}/{ref.namespace}/{ref.name}", self.type, self.reason, self.note)


@dataclass(slots=True)
class _Series:
    """One event and how often it has happened since."""

    name: str
    namespace: str
    count: int
    last: float
    written: float


@dataclass(slots=True)
class _Allowance:
    """A bucket of new events for one object."""

    left: float
    at: float


class Recorder:
    """Notes events and writes them behind the reconciles' backs."""

    def __init__(
        self,
        client: Client,
        *,
        controller: str,
        instance: str,
        clock: Clock | None = None,
        rng: random.Random | None = None,
    ) -> None:
        self._client = client
        self._controller = controller
        self._instance = instance[:128]
        self._clock = clock or SystemClock()
        self._rng = rng or random.Random()
        self._backlog: dict[tuple[str, ...], _Fact] = {}
        self._series: dict[tuple[str, ...], _Series] = {}
        self._allowances: dict[str, _Allowance] = {}
        self._noted = asyncio.Event()
        self.dropped = 0

    def event(
        self,
        regarding: ObjectReference,
        reason: str,
        note: str,
        *,
        type_: EventType = "Normal",
        action: str = "Reconcile",
        related: ObjectReference | None = None,
    ) -> None:
        """Notes that something happened to `regarding`. Returns at once and never raises."""
        fact = _Fact(regarding, related, type_, reason, action, _cut(note))
        now = asyncio.get_running_loop().time()
        series = self._series.get(fact.key)
        if series is not None and now - series.last < _SERIES_ENDS:
            series.count += 1
            series.last = now
            if now - series.written < _SERIES_EVERY:
                return
            series.written = now
        elif fact.key in self._backlog:
            return
        elif len(self._backlog) >= _BACKLOG or not self._allowed(fact.key[0], now):
            self.dropped += 1
            return
        self._backlog[fact.key] = fact
        self._noted.set()

    async def run(self) -> None:
        """Writes what was noted, until cancelled; what is left is then tried once."""
        try:
            while True:
                await self._noted.wait()
                self._noted.clear()
                await self.flush()
                self._tidy()
        finally:
            if self._backlog:
                await self.flush()

    async def flush(self) -> None:
        """Writes everything noted so far."""
        while self._backlog:
            key = next(iter(self._backlog))
            fact = self._backlog.pop(key)
            try:
                await self._write(key, fact)
            except errors.ApiError as error:
                self.dropped += 1
                _log.debug("an event was not recorded", reason=fact.reason, error=str(error))

    async def _write(self, key: tuple[str, ...], fact: _Fact) -> None:
        now = asyncio.get_running_loop().time()
        series = self._series.get(key)
        if series is not None and series.count > 1:
            moment = rfc3339_micro(self._clock.now())
            patch = {"series": {"count": series.count, "lastObservedTime": moment}}
            try:
                await self._client.send(requests.merge_patch(EVENTS, series.namespace, series.name, patch))
                return
            except errors.NotFound:
                pass  # events expire on the server; begin a new one
        body = self._body(fact)
        metadata = body["metadata"]
        await self._client.send(requests.create(EVENTS, body))
        self._series[key] = _Series(metadata["name"], metadata["namespace"], 1, now, now)

    def _body(self, fact: _Fact) -> dict[str, Any]:
        suffix = f".{self._rng.getrandbits(64):016x}"
        body: dict[str, Any] = {
            "metadata": {
                "name": fact.regarding.name[: _NAME - len(suffix)] + suffix,
                "namespace": fact.regarding.namespace or "default",
            },
            "eventTime": rfc3339_micro(self._clock.now()),
            "reportingController": self._controller,
            "reportingInstance": self._instance,
            "action": fact.action[:128],
            "reason": fact.reason[:128],
            "type": fact.type,
            "note": fact.note,
            "regarding": msgspec.to_builtins(fact.regarding),
        }
        if fact.related is not None:
            body["related"] = msgspec.to_builtins(fact.related)
        return body

    def _allowed(self, uid: str, now: float) -> bool:
        bucket = self._allowances.get(uid)
        if bucket is None:
            bucket = self._allowances[uid] = _Allowance(_BURST, now)
        bucket.left = min(_BURST, bucket.left + (now - bucket.at) / _REFILL)
        bucket.at = now
        if bucket.left < 1:
            return False
        bucket.left -= 1
        return True

    def _tidy(self) -> None:
        """Forgets series that ended and buckets that are full again."""
        now = asyncio.get_running_loop().time()
        self._series = {key: series for key, series in self._series.items() if now - series.last < _SERIES_ENDS}
        full_after = _BURST * _REFILL
        self._allowances = {uid: bucket for uid, bucket in self._allowances.items() if now - bucket.at < full_after}


def reference(resource: Resource[Any], obj: HasMetadata) -> ObjectReference:
    """How events point at an object."""
    metadata = obj.metadata
    return ObjectReference(
        api_version=resource.api_version,
        kind=resource.kind,
        namespace=metadata.namespace,
        name=metadata.name,
        uid=metadata.uid,
        resource_version=metadata.resource_version,
    )


def _cut(note: str) -> str:
    """A note the API server accepts: at most 1,024 bytes."""
    encoded = note.encode()
    return note if len(encoded) <= _NOTE else encoded[: _NOTE - 3].decode(errors="ignore") + "…"
