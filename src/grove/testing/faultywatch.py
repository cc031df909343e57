"""A watch whose events arrive late, twice, merged, or not at all because the connection broke."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator, Mapping
from typing import TYPE_CHECKING, Any

import msgspec

from grove.runtime.transport import HttpStream, TransportError

if TYPE_CHECKING:
    from grove.testing.faults import Faults

_AWAY = 3.0
_SILENCE = 0.5


class FaultyWatch:
    """Wraps the stream of a watch. Chunks of the inner stream hold whole lines; ours are cut anywhere."""

    def __init__(
        self, inner: HttpStream, faults: Faults, rng: random.Random, dead: asyncio.Event, resource: str = ""
    ) -> None:
        self._inner = inner
        self._faults = faults
        self._rng = rng
        self._dead = dead
        self._resource = resource

    @property
    def status(self) -> int:
        return self._inner.status

    @property
    def headers(self) -> Mapping[str, str]:
        return self._inner.headers

    async def chunks(self) -> AsyncIterator[bytes]:
        if self.status != 200:
            async for chunk in self._inner.chunks():
                yield chunk
            return
        chunks = aiter(self._inner.chunks())
        while True:
            # A reader who stays away for a while finds several events waiting: that is when they can merge.
            merges = self._happens(self._faults.watch_merge)
            if merges:
                await asyncio.sleep(self._rng.uniform(0, _AWAY))
            chunk = await anext(chunks, b"")
            if not chunk:
                return
            await self._lag()
            lines = chunk.splitlines(keepends=True)
            async for piece in self._delivered(merged(lines) if merges else lines):
                yield piece

    async def _delivered(self, lines: list[bytes]) -> AsyncIterator[bytes]:
        for line in lines:
            if self._dead.is_set():
                raise TransportError("the program has died")
            if self._happens(self._faults.watch_drop):
                yield line[: self._rng.randint(0, len(line) - 1)]
                raise TransportError("connection reset by peer")
            cut = self._rng.randint(0, len(line))
            yield line[:cut]
            yield line[cut:]
            if self._happens(self._faults.watch_duplicate) and not line.startswith(b'{"type":"ERROR"'):
                yield line

    async def _lag(self) -> None:
        while self._resource in self._faults.silent and not self._dead.is_set():  # noqa: ASYNC110 (a plain switch)
            await asyncio.sleep(_SILENCE)
        if self._faults.watch_lag[1]:
            await asyncio.sleep(self._rng.uniform(*self._faults.watch_lag))

    def _happens(self, probability: float) -> bool:
        return probability > 0 and self._rng.random() < probability


def merged(lines: list[bytes]) -> list[bytes]:
    """Only the last word on each object: what a reader sees who was away for a while.

    A deletion stays where it is, and so does what follows it: an object made anew under the same name is another one.
    """
    kept: list[bytes | None] = []
    last: dict[str, tuple[int, str]] = {}
    for line in lines:
        event: dict[str, Any] = msgspec.json.decode(line)
        kind, uid = event["type"], event["object"].get("metadata", {}).get("uid", "")
        before = last.pop(uid, None) if uid else None
        if before is not None and before[1] != "DELETED":
            kept[before[0]] = None
            if kind == "MODIFIED" and before[1] == "ADDED":
                kind = "ADDED"
                line = line.replace(b'{"type":"MODIFIED"', b'{"type":"ADDED"', 1)
        kept.append(line)
        if uid:
            last[uid] = (len(kept) - 1, kind)
    return [line for line in kept if line is not None]
