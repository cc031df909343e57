"""Time as a dependency: the wall clock and the monotonic clock, real or derived from the event loop.

Waits always use the event loop, so a loop that simulates time controls them; `LoopClock` makes the dates follow it.
This is the only file that may ask the operating system what time it is.
"""

from __future__ import annotations

import asyncio
import time
from datetime import UTC, datetime, timedelta
from typing import Protocol


class Clock(Protocol):
    """What time it is."""

    def now(self) -> datetime:
        """The date, aware, in UTC."""
        ...

    def monotonic(self) -> float:
        """Seconds that never go back; only differences mean something."""
        ...


class SystemClock:
    """The machine's own clocks."""

    def now(self) -> datetime:
        return datetime.now(UTC)

    def monotonic(self) -> float:
        return time.monotonic()


class LoopClock:
    """Dates that advance exactly as the running event loop does, from a fixed beginning."""

    def __init__(self, epoch: datetime, loop: asyncio.AbstractEventLoop | None = None) -> None:
        self._loop = loop or asyncio.get_running_loop()
        self._epoch = epoch
        self._start = self._loop.time()

    def now(self) -> datetime:
        return self._epoch + timedelta(seconds=self._loop.time() - self._start)

    def monotonic(self) -> float:
        return self._loop.time()


def rfc3339(moment: datetime) -> str:
    """A date as metav1.Time writes it: UTC, whole seconds."""
    return moment.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def rfc3339_micro(moment: datetime) -> str:
    """A date as metav1.MicroTime writes it."""
    return moment.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")


def parse_rfc3339(text: str) -> datetime:
    """The aware date a metav1.Time or MicroTime stands for."""
    return datetime.fromisoformat(text).astimezone(UTC)
