from __future__ import annotations

import asyncio
import random

import pytest

from grove.runtime.queue import PATIENCE, Backoff, Priority, QueueClosed, WorkQueue
from grove.testing.simloop import simulate


async def drain(queue: WorkQueue[str]) -> list[str]:
    keys = []
    while len(queue):
        key = await queue.get()
        keys.append(key)
        queue.done(key)
    return keys


async def test_a_key_waits_only_once() -> None:
    queue: WorkQueue[str] = WorkQueue()
    for _ in range(5):
        queue.add("ns/a")
    assert await drain(queue) == ["ns/a"]


async def test_a_key_added_while_it_runs_runs_once_more_and_never_beside_itself() -> None:
    queue: WorkQueue[str] = WorkQueue()
    queue.add("ns/a")
    key = await queue.get()
    queue.add("ns/a")
    queue.add("ns/a")
    assert len(queue) == 0
    queue.done(key)
    assert await drain(queue) == ["ns/a"]
    assert queue.idle


async def test_namespaces_take_turns() -> None:
    queue: WorkQueue[str] = WorkQueue()
    for n in range(3):
        queue.add(f"big/{n}")
    queue.add("small/0")
    assert await drain(queue) == ["big/0", "small/0", "big/1", "big/2"]


async def test_urgent_goes_first_and_a_key_is_promoted() -> None:
    queue: WorkQueue[str] = WorkQueue()
    queue.add("ns/low", Priority.LOW)
    queue.add("ns/normal")
    queue.add("ns/promoted", Priority.LOW)
    queue.add("ns/promoted", Priority.HIGH)
    assert await drain(queue) == ["ns/promoted", "ns/normal", "ns/low"]


async def test_low_priority_is_served_under_endless_urgent_work() -> None:
    queue: WorkQueue[str] = WorkQueue()
    queue.add("ns/low", Priority.LOW)
    served = []
    for n in range(PATIENCE + 1):
        queue.add(f"ns/{n}")
        key = await queue.get()
        served.append(key)
        queue.done(key)
    assert served[-1] == "ns/low"


def test_the_earliest_delay_counts() -> None:
    async def scenario() -> float:
        queue: WorkQueue[str] = WorkQueue()
        queue.add_after("ns/a", 10)
        queue.add_after("ns/a", 3)
        queue.add_after("ns/a", 7)
        await queue.get()
        return asyncio.get_running_loop().time()

    assert simulate(scenario()) == pytest.approx(3)


def test_a_cancelled_delay_does_not_come() -> None:
    async def scenario() -> list[str]:
        queue: WorkQueue[str] = WorkQueue()
        queue.add_after("ns/a", 1)
        queue.add_after("ns/b", 2)
        queue.cancel_after("ns/a")
        return [await queue.get()]

    assert simulate(scenario()) == ["ns/b"]


async def test_failures_back_off_exponentially_up_to_a_limit_until_forgotten() -> None:
    queue: WorkQueue[str] = WorkQueue(backoff=Backoff(first=1.0, longest=8.0), rng=random.Random(1))
    delays = []
    for _ in range(6):
        delays.append(queue.retry("ns/a"))
        queue.cancel_after("ns/a")
    for delay, ceiling in zip(delays, [1, 2, 4, 8, 8, 8], strict=True):
        assert ceiling / 2 <= delay <= ceiling
    queue.forget("ns/a")
    assert queue.retry("ns/a") <= 1
    queue.close()


def test_age_is_that_of_the_longest_waiting_key() -> None:
    async def scenario() -> tuple[float, float]:
        queue: WorkQueue[str] = WorkQueue()
        queue.add("ns/a", Priority.LOW)
        await asyncio.sleep(2)
        queue.add("ns/b")
        await asyncio.sleep(1)
        before = queue.oldest_age
        await drain(queue)
        return before, queue.oldest_age

    before, after = simulate(scenario())
    assert before == pytest.approx(3)
    assert after == 0


async def test_closing_releases_everybody_who_waits() -> None:
    queue: WorkQueue[str] = WorkQueue()
    getters = [asyncio.create_task(queue.get()) for _ in range(3)]
    await asyncio.sleep(0)
    queue.close()
    results = await asyncio.gather(*getters, return_exceptions=True)
    assert all(isinstance(result, QueueClosed) for result in results)


async def test_a_cancelled_getter_does_not_swallow_a_key() -> None:
    queue: WorkQueue[str] = WorkQueue()
    first = asyncio.create_task(queue.get())
    second = asyncio.create_task(queue.get())
    await asyncio.sleep(0)
    queue.add("ns/a")
    first.cancel()
    assert await second == "ns/a"
