from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from grove.runtime import errors
from grove.runtime.queue import WorkQueue
from grove.runtime.scope import CURRENT, ReconcileScope
from grove.runtime.worker import DONE, Controller, RequeueAfter, Result
from grove.testing.simloop import simulate

Reconcile = Callable[[str], Awaitable[Result]]


class Outcomes:
    def __init__(self) -> None:
        self.seen: list[tuple[str, str, int]] = []

    def reconciled(self, scope: ReconcileScope, outcome: str, seconds: float) -> None:
        self.seen.append((scope.key, outcome, scope.writes))


def run_until(seconds: float, reconcile: Reconcile, *keys: str, deadline: float = 60.0) -> list[tuple[str, str, int]]:
    """Runs a controller for so long in simulated time."""

    async def scenario() -> list[tuple[str, str, int]]:
        queue: WorkQueue[str] = WorkQueue()
        outcomes = Outcomes()
        controller = Controller("test", queue, reconcile, deadline=deadline, observer=outcomes)
        running = asyncio.create_task(controller.run())
        for key in keys:
            queue.add(key)
        await asyncio.sleep(seconds)
        controller.stop()
        await running
        return outcomes.seen

    return simulate(scenario())


def test_a_key_is_reconciled_and_knows_its_scope() -> None:
    scopes = []

    async def reconcile(key: str) -> Result:
        scope = CURRENT.get()
        assert scope is not None
        scopes.append((scope.controller, scope.key, len(scope.id)))
        scope.writes += 2
        return DONE

    assert run_until(1, reconcile, "ns/a") == [("ns/a", "done", 2)]
    assert scopes == [("test", "ns/a", 8)]


def test_requeue_after_is_a_timer() -> None:
    times = []

    async def reconcile(key: str) -> Result:
        times.append(asyncio.get_running_loop().time())
        return RequeueAfter(10)

    run_until(25, reconcile, "ns/a")
    assert times == pytest.approx([0, 10, 20])


def test_a_later_run_replaces_the_timer_of_an_earlier_one() -> None:
    times = []

    async def scenario() -> None:
        queue: WorkQueue[str] = WorkQueue()

        async def reconcile(key: str) -> Result:
            times.append(asyncio.get_running_loop().time())
            return RequeueAfter(10) if len(times) == 1 else DONE

        controller = Controller("test", queue, reconcile)
        running = asyncio.create_task(controller.run())
        queue.add("ns/a")
        await asyncio.sleep(5)
        queue.add("ns/a")
        await asyncio.sleep(60)
        controller.stop()
        await running

    simulate(scenario())
    assert times == pytest.approx([0, 5])


def test_a_crash_is_isolated_counted_and_retried() -> None:
    tries = []

    async def reconcile(key: str) -> Result:
        tries.append(key)
        if key == "ns/bad" and tries.count(key) < 3:
            raise ZeroDivisionError
        return DONE

    seen = run_until(60, reconcile, "ns/bad", "ns/good")
    assert [outcome for key, outcome, _ in seen if key == "ns/bad"] == ["crashed", "crashed", "done"]
    assert ("ns/good", "done", 0) in seen


def test_an_api_error_is_counted_by_its_class() -> None:
    answers: list[Exception] = [errors.Conflict("busy"), errors.Forbidden("no"), errors.Fenced("not leading")]

    async def reconcile(key: str) -> Result:
        if answers:
            raise answers.pop(0)
        return DONE

    assert [outcome for _, outcome, _ in run_until(60, reconcile, "ns/a")] == [
        "Conflict",
        "Forbidden",
        "Fenced",
        "done",
    ]


def test_a_reconcile_that_hangs_meets_its_deadline_and_is_retried() -> None:
    tries = []

    async def reconcile(key: str) -> Result:
        tries.append(key)
        if len(tries) == 1:
            await asyncio.get_running_loop().create_future()
        return DONE

    assert [outcome for _, outcome, _ in run_until(60, reconcile, "ns/a", deadline=5)] == ["timeout", "done"]


def test_stopping_lets_the_running_ones_finish() -> None:
    finished = []

    async def scenario() -> float:
        queue: WorkQueue[str] = WorkQueue()

        async def reconcile(key: str) -> Result:
            await asyncio.sleep(5)
            finished.append(key)
            return DONE

        running = asyncio.create_task(Controller("test", queue, reconcile, workers=1).run())
        queue.add("ns/running")
        queue.add("ns/waiting")
        await asyncio.sleep(1)
        running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await running
        return asyncio.get_running_loop().time()

    assert simulate(scenario()) == pytest.approx(5)
    assert finished == ["ns/running"]


def test_stopping_abandons_what_outlives_the_grace() -> None:
    async def scenario() -> float:
        queue: WorkQueue[str] = WorkQueue()

        async def reconcile(key: str) -> Result:
            await asyncio.sleep(1000)
            return DONE

        controller = Controller("test", queue, reconcile, workers=1, deadline=2000, grace=3)
        running = asyncio.create_task(controller.run())
        queue.add("ns/a")
        await asyncio.sleep(1)
        running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await running
        return asyncio.get_running_loop().time()

    assert simulate(scenario()) == pytest.approx(4)


def test_busy_workers_let_others_run() -> None:
    async def scenario() -> bool:
        queue: WorkQueue[int] = WorkQueue()
        heard = asyncio.Event()

        async def reconcile(key: int) -> Result:
            if not heard.is_set():
                queue.add(key + 1)  # endless work that never waits
            return DONE

        controller = Controller("test", queue, reconcile, workers=1)
        running = asyncio.create_task(controller.run())
        queue.add(0)
        asyncio.get_running_loop().call_later(0.05, heard.set)
        await heard.wait()
        controller.stop()
        await running
        return True

    assert asyncio.run(scenario())
