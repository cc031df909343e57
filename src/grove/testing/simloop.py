"""An asyncio event loop whose time is simulated: when nothing is ready, the clock jumps to the next timer.

An hour of back-offs costs microseconds and every run with the same seed takes the same steps. The loop does no I/O;
when nothing is ready and no timer is set, the program waits for something that can never come and `DeadlockError`
says so.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Coroutine
from datetime import UTC, datetime, timedelta
from typing import Any, TypeVar

T = TypeVar("T")

DEFAULT_START = datetime(2026, 1, 1, tzinfo=UTC)
_DEADLOCK_LISTING = 20


class DeadlockError(RuntimeError):
    """Nothing is ready and nothing is scheduled, yet the simulation has not finished."""


class TimeLimitError(RuntimeError):
    """The simulation went on for longer than the test allows, in simulated seconds."""


class _Selector:
    """Stands where asyncio expects a selector; instead of waiting it moves the clock."""

    def __init__(self, loop: SimLoop) -> None:
        self._loop = loop

    def select(self, timeout: float | None) -> list[Any]:
        if timeout is None:
            raise DeadlockError(self._loop.describe_waiting())
        if timeout > 0:
            self._loop.advance(timeout)
        return []

    def close(self) -> None:
        pass


class SimLoop(asyncio.BaseEventLoop):
    """Time starts at zero and only moves when every task waits for a timer."""

    def __init__(self, limit: float | None = None) -> None:
        super().__init__()
        self._now = 0.0
        self._limit = limit
        self._selector = _Selector(self)
        self._clock_resolution = 1e-9

    def time(self) -> float:
        return self._now

    def advance(self, seconds: float) -> None:
        self._now += seconds
        if self._limit is not None and self._now > self._limit:
            raise TimeLimitError(f"simulated time passed {self._limit} s\n{self.describe_waiting()}")

    def lift_limit(self) -> None:
        self._limit = None

    def describe_waiting(self) -> str:
        """The tasks that have not finished and the line each of them waits at."""
        lines = [f"at {self._now:.3f} s of simulated time, nothing can run; tasks waiting:"]
        tasks = sorted(asyncio.all_tasks(self), key=lambda task: task.get_name())
        for task in tasks[:_DEADLOCK_LISTING]:
            frames = task.get_stack(limit=1)
            where = f"{frames[-1].f_code.co_filename}:{frames[-1].f_lineno}" if frames else "not started"
            lines.append(f"  {task.get_name()}: {where}")
        if len(tasks) > _DEADLOCK_LISTING:
            lines.append(f"  and {len(tasks) - _DEADLOCK_LISTING} more")
        return "\n".join(lines)

    def _process_events(self, event_list: list[Any]) -> None:
        """There is no I/O, hence nothing to process."""

    def _write_to_self(self) -> None:
        """Wakes a real selector from another thread; this loop never sleeps."""


class SimClock:
    """Wall-clock time of the simulation: a start, plus the seconds the running loop has counted."""

    def __init__(self, start: datetime = DEFAULT_START) -> None:
        self._start = start

    def monotonic(self) -> float:
        """Seconds since the start; zero while no loop runs, so that objects can be set up before it does."""
        try:
            return asyncio.get_running_loop().time()
        except RuntimeError:
            return 0.0

    def now(self) -> datetime:
        return self._start + timedelta(seconds=self.monotonic())


def simulate(main: Coroutine[Any, Any, T], *, limit: float | None = None) -> T:
    """Runs `main` to its end in simulated time; `limit` bounds the simulated seconds. Leftover tasks are cancelled."""
    loop = SimLoop(limit)
    try:
        asyncio.set_event_loop(loop)
        return loop.run_until_complete(main)
    finally:
        try:
            loop.lift_limit()
            _cancel_leftovers(loop)
            loop.run_until_complete(loop.shutdown_asyncgens())
        finally:
            asyncio.set_event_loop(None)
            loop.close()


def _cancel_leftovers(loop: SimLoop) -> None:
    leftovers = asyncio.all_tasks(loop)
    for task in leftovers:
        task.cancel()
    if leftovers:
        # A task that refuses to end must not hide why the simulation itself failed.
        with contextlib.suppress(DeadlockError):
            loop.run_until_complete(asyncio.gather(*leftovers, return_exceptions=True))
