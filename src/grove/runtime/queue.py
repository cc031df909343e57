"""Which key to reconcile next: each key once, one worker at a time, fair between namespaces, urgent before routine.

- A key added while it waits stays one entry (the more urgent priority wins); added while it runs, it runs once more.
- Within a priority the namespaces take turns, so a large one cannot hold up a small one.
- After `PATIENCE` urgent keys in a row a waiting LOW one gets its turn, so resyncs are late but never starved.
- Of several delays for a key the earliest counts. A failed key backs off exponentially with jitter.
At rest nothing is queued, running or remembered; counters of failures leave with `forget`.
"""

from __future__ import annotations

import asyncio
import enum
import random
from collections import OrderedDict, deque
from collections.abc import Callable, Hashable
from dataclasses import dataclass
from typing import Generic, TypeVar

K = TypeVar("K", bound=Hashable)

PATIENCE = 16


class Priority(enum.IntEnum):
    """How urgent a key is."""

    LOW = 0
    NORMAL = 1
    HIGH = 2


class QueueClosed(Exception):
    """There will be no more keys."""


@dataclass(frozen=True, slots=True)
class Backoff:
    """How long a failing key waits: doubling from `first` to `longest`, each time less up to half at random."""

    first: float = 0.1
    longest: float = 60.0

    def delay(self, failures: int, rng: random.Random) -> float:
        return min(self.longest, self.first * 2.0 ** min(failures - 1, 32)) * (1 - rng.random() / 2)


def namespace_of(key: Hashable) -> str:
    """The namespace of a key: its attribute of that name, or what stands before the slash of a string."""
    if isinstance(key, str):
        return key.partition("/")[0] if "/" in key else ""
    return str(getattr(key, "namespace", ""))


class _Lane(Generic[K]):
    """The waiting keys of one priority; namespaces take turns."""

    __slots__ = ("_turns",)

    def __init__(self) -> None:
        self._turns: OrderedDict[str, deque[K]] = OrderedDict()

    def __bool__(self) -> bool:
        return bool(self._turns)

    def push(self, namespace: str, key: K) -> None:
        waiting = self._turns.get(namespace)
        if waiting is None:
            self._turns[namespace] = waiting = deque()
        waiting.append(key)

    def pop(self) -> K:
        namespace, waiting = next(iter(self._turns.items()))
        key = waiting.popleft()
        if waiting:
            self._turns.move_to_end(namespace)
        else:
            del self._turns[namespace]
        return key


class WorkQueue(Generic[K]):
    """Keys waiting for a worker."""

    def __init__(
        self,
        *,
        fairness: Callable[[K], str] = namespace_of,
        backoff: Backoff | None = None,
        rng: random.Random | None = None,
    ) -> None:
        self._fairness = fairness
        self._backoff = backoff or Backoff()
        self._rng = rng or random.Random()
        self._lanes: dict[Priority, _Lane[K]] = {priority: _Lane() for priority in reversed(Priority)}
        self._waiting: dict[K, tuple[Priority, float]] = {}
        self._running: set[K] = set()
        self._again: dict[K, Priority] = {}
        self._timers: dict[K, tuple[float, Priority, asyncio.TimerHandle]] = {}
        self._failures: dict[K, int] = {}
        self._getters: deque[asyncio.Future[None]] = deque()
        self._urgent_in_a_row = 0
        self._closed = False

    # Filling

    def add(self, key: K, priority: Priority = Priority.NORMAL) -> None:
        """Makes a key ready now."""
        if self._closed:
            return
        if key in self._running:
            self._again[key] = max(priority, self._again.get(key, priority))
            return
        waiting = self._waiting.get(key)
        if waiting is not None and waiting[0] >= priority:
            return
        since = asyncio.get_running_loop().time() if waiting is None else waiting[1]
        self._waiting[key] = (priority, since)
        self._lanes[priority].push(self._fairness(key), key)
        self._wake()

    def add_after(self, key: K, seconds: float, priority: Priority = Priority.NORMAL) -> None:
        """Makes a key ready in a while; an earlier delay already set stays."""
        if self._closed:
            return
        if seconds <= 0:
            self.add(key, priority)
            return
        loop = asyncio.get_running_loop()
        when = loop.time() + seconds
        if (timer := self._timers.get(key)) is not None:
            if timer[0] <= when:
                return
            timer[2].cancel()
        self._timers[key] = (when, priority, loop.call_at(when, self._due, key))

    def cancel_after(self, key: K) -> None:
        """Forgets a delay, for instance because the key is about to run anyway."""
        if (timer := self._timers.pop(key, None)) is not None:
            timer[2].cancel()

    def retry(self, key: K) -> float:
        """Makes a failed key ready after its backoff; returns the delay."""
        failures = self._failures[key] = self._failures.get(key, 0) + 1
        delay = self._backoff.delay(failures, self._rng)
        self.add_after(key, delay)
        return delay

    def forget(self, key: K) -> None:
        """The key succeeded: its next failure starts from the shortest delay."""
        self._failures.pop(key, None)

    # Emptying

    async def get(self) -> K:
        """The next key, now running until `done`. Raises QueueClosed when there will be none."""
        while True:
            if self._closed:
                raise QueueClosed
            if self._waiting:
                return self._pop()
            getter = asyncio.get_running_loop().create_future()
            self._getters.append(getter)
            try:
                await getter
            except asyncio.CancelledError:
                if getter.done() and not getter.cancelled():
                    self._wake()  # woken and cancelled in the same turn: wake another
                elif getter in self._getters:
                    self._getters.remove(getter)
                raise

    def done(self, key: K) -> None:
        """The key no longer runs; if it was added meanwhile it is ready again."""
        self._running.discard(key)
        priority = self._again.pop(key, None)
        if priority is not None:
            self.add(key, priority)

    def close(self) -> None:
        """No more keys: waiting ones are dropped, workers are told, running keys may finish."""
        self._closed = True
        for _, _, timer in self._timers.values():
            timer.cancel()
        self._timers.clear()
        while self._getters:
            getter = self._getters.popleft()
            if not getter.done():
                getter.set_result(None)

    # Looking

    def __len__(self) -> int:
        """How many keys are ready and not running."""
        return len(self._waiting)

    @property
    def idle(self) -> bool:
        """Nothing ready, nothing running; delays may be pending."""
        return not (self._waiting or self._running or self._again)

    @property
    def oldest_age(self) -> float:
        """How long the longest-waiting ready key has waited, in seconds."""
        if not self._waiting:
            return 0.0
        _, since = next(iter(self._waiting.values()))
        return asyncio.get_running_loop().time() - since

    def failures(self, key: K) -> int:
        return self._failures.get(key, 0)

    def due_in(self, key: K) -> float | None:
        """Seconds until the key's delay ends, or None when it has none."""
        timer = self._timers.get(key)
        return None if timer is None else max(0.0, timer[0] - asyncio.get_running_loop().time())

    def _due(self, key: K) -> None:
        _, priority, _ = self._timers.pop(key)
        self.add(key, priority)

    def _pop(self) -> K:
        while True:
            priority = self._choose()
            key = self._lanes[priority].pop()
            waiting = self._waiting.get(key)
            if waiting is not None and waiting[0] == priority:  # else it was promoted and has already left
                break
        del self._waiting[key]
        self._running.add(key)
        if priority is Priority.LOW or not self._lanes[Priority.LOW]:
            self._urgent_in_a_row = 0
        else:
            self._urgent_in_a_row += 1
        return key

    def _choose(self) -> Priority:
        if self._urgent_in_a_row >= PATIENCE and self._lanes[Priority.LOW]:
            return Priority.LOW
        return next(priority for priority, lane in self._lanes.items() if lane)

    def _wake(self) -> None:
        while self._getters:
            getter = self._getters.popleft()
            if not getter.done():
                getter.set_result(None)
                return
