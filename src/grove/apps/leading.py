"""Working only while the lease is ours, and letting go of it in an order in which nobody's writes can meet.

Told to stop, the work ends first, its writes with it, while the lease is still renewed; then the lease is given back.
When the lease is lost there is no time for that: the line is cut at once, so that a write under way is abandoned before
its lease runs out and another process may begin. A lost lease ends the process: starting over with warm caches
elsewhere is simpler than being half a leader.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import structlog

from grove.runtime.leader import LeaderElector
from grove.runtime.transport import Transport

_log = structlog.get_logger(__name__)


class LeaseLost(Exception):
    """Another process may lead now."""


async def lead(elector: LeaderElector, work: Callable[[], Awaitable[None]], line: Transport) -> None:
    """Waits for the lease and works until cancelled; raises LeaseLost, with the line closed, when it is lost."""
    competing = asyncio.create_task(elector.run(), name="leader-election")
    leading = asyncio.create_task(elector.wait_leading())
    try:
        await _first(competing, leading)
        working = asyncio.ensure_future(work())
        lost = asyncio.create_task(elector.wait_lost())
        try:
            await _first(competing, working, lost)
            if lost.done():
                await line.close()
                raise LeaseLost("the lease was lost; another process leads")
        finally:
            await _ended(working, lost)
    finally:
        await _ended(competing, leading)


async def _first(*tasks: asyncio.Future[Any]) -> None:
    """Returns when one of them is done; raises what it raised."""
    done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    for task in done:
        task.result()


async def _ended(*tasks: asyncio.Future[Any]) -> None:
    """Cancels them and waits until they have ended."""
    for task in tasks:
        task.cancel()
    for outcome in await asyncio.gather(*tasks, return_exceptions=True):
        if isinstance(outcome, Exception):
            _log.warning("ended with an error", error=repr(outcome))
