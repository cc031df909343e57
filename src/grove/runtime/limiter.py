"""How many requests may be in flight: additive increase, multiplicative decrease.

There is no fixed rate. The limit halves when the server says 429 and grows by about one per limit-ful of successes, so
it settles where the server is comfortable. Waiters are served in order.
"""

from __future__ import annotations

import asyncio
from collections import deque

_SETTLE = 1.0  # seconds in which further refusals belong to the same overload and do not halve the limit again


class InFlightLimiter:
    """Admits up to `limit` holders at a time."""

    def __init__(self, ceiling: int) -> None:
        self.ceiling = float(ceiling)
        self.limit = float(ceiling)
        self.in_flight = 0
        self._waiters: deque[asyncio.Future[None]] = deque()
        self._last_cut: float | None = None

    async def acquire(self) -> None:
        if self.in_flight < self.limit and not self._waiters:
            self.in_flight += 1
            return
        waiter = asyncio.get_running_loop().create_future()
        self._waiters.append(waiter)
        try:
            await waiter
        except asyncio.CancelledError:
            if waiter.done() and not waiter.cancelled():
                self.release()  # admitted and cancelled in the same turn: pass the place on
            elif waiter in self._waiters:
                self._waiters.remove(waiter)
            raise

    def release(self) -> None:
        self.in_flight -= 1
        self._admit()

    def succeeded(self) -> None:
        """The server took it: allow a little more."""
        if self.limit < self.ceiling:
            self.limit = min(self.ceiling, self.limit + 1 / self.limit)
            self._admit()

    def refused(self) -> None:
        """The server said 429: halve, once per overload."""
        now = asyncio.get_running_loop().time()
        if self._last_cut is None or now - self._last_cut >= _SETTLE:
            self._last_cut = now
            self.limit = max(1.0, self.limit / 2)

    def _admit(self) -> None:
        while self._waiters and self.in_flight < int(self.limit):
            waiter = self._waiters.popleft()
            if not waiter.done():
                self.in_flight += 1
                waiter.set_result(None)
