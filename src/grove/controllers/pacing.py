"""When a status is written. One that tells of trouble or moves an update goes at once. One that tells of rest goes
soon: the first at once, a thousand of them over some seconds, since they compete with the very pods they tell of. One
that will be overtaken in a moment waits for its turn at a lower rate, and is mostly overtaken.
"""

from __future__ import annotations

import asyncio
from collections.abc import Hashable
from typing import Any

from grove.api.meta import Model
from grove.plan.actions import Haste, StatusWrite

SETTLE_SECONDS = 1.0
SETTLED_RATE, SETTLED_BURST = 50.0, 50.0
INTERIM_RATE = 10.0


class Pacer:
    """Gives statuses their turns, and remembers what is not known to be written yet, by the object's UID."""

    def __init__(self) -> None:
        self._next_settled = 0.0
        self._next_interim = 0.0
        self._turns: dict[Hashable, tuple[Haste, float]] = {}
        self.unwritten: dict[Any, Model] = {}

    def delay(self, key: Hashable, write: StatusWrite) -> float:
        """Seconds this status has to wait yet; 0 means now. It is remembered meanwhile."""
        if write.haste is Haste.NOW:
            return 0.0
        now = asyncio.get_running_loop().time()
        self.unwritten[key] = write.status
        held = self._turns.get(key)
        if held is None or held[0] is not write.haste:
            held = self._turns[key] = (write.haste, self._turn(write.haste, now))
        return max(0.0, held[1] - now)

    def _turn(self, haste: Haste, now: float) -> float:
        if haste is Haste.INTERIM:
            turn = max(now + SETTLE_SECONDS, self._next_interim)
            self._next_interim = turn + 1.0 / INTERIM_RATE
            return turn
        self._next_settled = max(self._next_settled, now) + 1.0 / SETTLED_RATE
        return max(now, self._next_settled - SETTLED_BURST / SETTLED_RATE)

    def attempt(self, key: Hashable, status: Model) -> None:
        """The status is about to be written. Whether that works or not, what it states is not to be forgotten."""
        self.unwritten[key] = status

    def forget(self, key: Hashable) -> None:
        """The status was written, or is what the object already says."""
        self._turns.pop(key, None)
        self.unwritten.pop(key, None)
