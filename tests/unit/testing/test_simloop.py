"""Simulated time: it jumps, it repeats, and it says when nothing can happen any more."""

from __future__ import annotations

import asyncio
import itertools
from datetime import UTC, datetime, timedelta

import pytest

from grove.testing.simloop import DeadlockError, SimClock, TimeLimitError, simulate


def test_time_jumps_over_sleep() -> None:
    async def main() -> float:
        await asyncio.sleep(3600)
        return asyncio.get_running_loop().time()

    assert simulate(main()) == pytest.approx(3600)


def test_timers_fire_in_order_of_their_time() -> None:
    async def main() -> list[str]:
        seen: list[str] = []
        loop = asyncio.get_running_loop()
        for delay in (3, 1, 2):
            loop.call_later(delay, seen.append, str(delay))
        await asyncio.sleep(5)
        return seen

    assert simulate(main()) == ["1", "2", "3"]


def test_timeouts_count_simulated_seconds() -> None:
    async def main() -> float:
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(30):
                await asyncio.Event().wait()
        return asyncio.get_running_loop().time()

    assert simulate(main()) == pytest.approx(30)


def test_waiting_for_nothing_is_a_deadlock_that_names_the_task() -> None:
    async def main() -> None:
        await asyncio.create_task(asyncio.Event().wait(), name="the one that waits")

    with pytest.raises(DeadlockError, match="the one that waits"):
        simulate(main())


def test_a_limit_ends_a_simulation_that_goes_on_for_ever() -> None:
    async def main() -> None:
        for _ in itertools.count():
            await asyncio.sleep(1)

    with pytest.raises(TimeLimitError):
        simulate(main(), limit=100)


def test_leftover_tasks_are_cancelled() -> None:
    ended: list[str] = []

    async def background() -> None:
        try:
            await asyncio.sleep(10_000)
        finally:
            ended.append("yes")

    async def main() -> None:
        task = asyncio.create_task(background())
        await asyncio.sleep(1)
        assert not task.done()

    simulate(main())
    assert ended == ["yes"]


def test_errors_come_through() -> None:
    async def main() -> None:
        raise ValueError("as it is")

    with pytest.raises(ValueError, match="as it is"):
        simulate(main())


def test_the_clock_follows_the_loop() -> None:
    start = datetime(2030, 5, 1, tzinfo=UTC)
    clock = SimClock(start)

    async def main() -> datetime:
        await asyncio.sleep(90)
        return clock.now()

    assert clock.now() == start
    assert simulate(main()) == start + timedelta(seconds=90)
