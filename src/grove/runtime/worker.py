"""Runs a reconcile for each key of a queue, many at a time, each with a deadline and a crash barrier.

A reconcile ends in one of three ways: Done, RequeueAfter (a timer, replaced by whatever the next run decides), or an
exception, which is logged with its key and id, counted, and retried after the key's backoff. Stopping lets the running
ones finish for a while and then abandons them.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable, Hashable
from dataclasses import dataclass
from typing import Generic, Protocol, TypedDict, TypeVar, Unpack

import structlog

from grove.runtime import errors
from grove.runtime.queue import QueueClosed, WorkQueue
from grove.runtime.scope import CURRENT, ReconcileScope

K = TypeVar("K", bound=Hashable)

_SLICE = 0.01  # seconds a worker may go on without letting others run
_EXPECTED = (errors.Conflict, errors.AlreadyExists, errors.Throttled, errors.Fenced, errors.Unreachable)
_log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class Done:
    """Nothing to do until something changes."""


@dataclass(frozen=True, slots=True)
class RequeueAfter:
    """Nothing to do until something changes or this much time has passed."""

    seconds: float


Result = Done | RequeueAfter
DONE = Done()


class ReconcileObserver(Protocol):
    """Whom a controller tells how each reconcile went."""

    def reconciled(self, scope: ReconcileScope, outcome: str, seconds: float) -> None:
        """`outcome` is "done", "requeued", "timeout", "crashed" or the name of an API error class."""
        ...


class ControllerOptions(TypedDict, total=False):
    """How to run: `grace` is how long a stop waits for running reconciles."""

    grace: float
    observer: ReconcileObserver
    rng: random.Random


class Controller(Generic[K]):
    """The workers of one queue."""

    def __init__(
        self,
        name: str,
        queue: WorkQueue[K],
        reconcile: Callable[[K], Awaitable[Result]],
        *,
        workers: int = 16,
        deadline: float = 60.0,
        **options: Unpack[ControllerOptions],
    ) -> None:
        self.name = name
        self.queue = queue
        self._reconcile = reconcile
        self._workers = workers
        self._deadline = deadline
        self._grace = options.get("grace", 20.0)
        self._observer = options.get("observer")
        self._rng = options.get("rng") or random.Random()

    async def run(self) -> None:
        """Works until `stop` or cancellation; both let running reconciles finish."""
        tasks = [asyncio.create_task(self._work(), name=f"{self.name}-{n}") for n in range(self._workers)]
        try:
            await asyncio.wait(tasks, return_when=asyncio.FIRST_EXCEPTION)
        finally:
            self.stop()
            await self._drain(tasks)
        for task in tasks:
            task.result()

    def stop(self) -> None:
        """Takes no more keys; `run` returns when the running ones are finished."""
        self.queue.close()

    async def _drain(self, tasks: list[asyncio.Task[None]]) -> None:
        _, running = await asyncio.wait(tasks, timeout=self._grace)
        for task in running:
            task.cancel()
        await asyncio.gather(*running, return_exceptions=True)

    async def _work(self) -> None:
        loop = asyncio.get_running_loop()
        resumed = loop.time()
        while True:
            try:
                key = await self.queue.get()
            except QueueClosed:
                return
            try:
                await self._run(key, loop)
            finally:
                self.queue.done(key)
            if loop.time() - resumed > _SLICE:
                await asyncio.sleep(0)
                resumed = loop.time()

    async def _run(self, key: K, loop: asyncio.AbstractEventLoop) -> None:
        queue = self.queue
        queue.cancel_after(key)  # this run decides anew when to look again
        scope = ReconcileScope(self.name, str(key), f"{self._rng.getrandbits(32):08x}")
        token = CURRENT.set(scope)
        started = loop.time()
        try:
            outcome = await self._outcome(key, scope)
        finally:
            CURRENT.reset(token)
        if self._observer is not None:
            self._observer.reconciled(scope, outcome, loop.time() - started)

    async def _outcome(self, key: K, scope: ReconcileScope) -> str:
        queue = self.queue
        try:
            async with asyncio.timeout(self._deadline) as deadline:
                result = await self._reconcile(key)
        except TimeoutError:
            outcome = "timeout" if deadline.expired() else "crashed"
            self._failed(key, scope, outcome)
            return outcome
        except _EXPECTED as error:
            delay = queue.retry(key)
            _log.info("reconcile will be retried", **_facts(scope), error=repr(error), delay=round(delay, 3))
            return type(error).__name__
        except errors.ApiError as error:
            delay = queue.retry(key)
            _log.warning("reconcile was refused", **_facts(scope), error=repr(error), delay=round(delay, 3))
            return type(error).__name__
        except Exception:
            self._failed(key, scope, "crashed")
            return "crashed"
        queue.forget(key)
        if isinstance(result, RequeueAfter):
            queue.add_after(key, result.seconds)
            return "requeued"
        return "done"

    def _failed(self, key: K, scope: ReconcileScope, outcome: str) -> None:
        delay = self.queue.retry(key)
        _log.exception("reconcile failed", **_facts(scope), outcome=outcome, delay=round(delay, 3))


def _facts(scope: ReconcileScope) -> dict[str, str]:
    return {"controller": scope.controller, "key": scope.key, "reconcile": scope.id}
