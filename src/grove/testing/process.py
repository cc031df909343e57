"""Keeps a program running against a faulty transport: when it is told to die, it is torn down and started again."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from grove.testing.faults import FaultyTransport

Program = Callable[[FaultyTransport], Awaitable[None]]
"""Runs for ever; everything it knows is lost when it ends."""


async def supervise(program: Program, transport: FaultyTransport, *, pause: tuple[float, float] = (0.0, 5.0)) -> None:
    """Runs `program` until cancelled, anew after each crash. An end that is not a crash is passed on."""
    while True:
        await _one_life(program, transport)
        await asyncio.sleep(transport.rng.uniform(*pause))
        transport = transport.restarted()


async def _one_life(program: Program, transport: FaultyTransport) -> None:
    life = asyncio.ensure_future(program(transport))
    death = asyncio.ensure_future(transport.crashed.wait())
    try:
        await asyncio.wait({life, death}, return_when=asyncio.FIRST_COMPLETED)
        if not transport.crashed.is_set():
            await life
            raise RuntimeError("the program ended by itself")
    finally:
        # A dead program reaches nobody any more: its transport refuses whatever its clean-up still tries.
        transport.crashed.set()
        for task in (life, death):
            task.cancel()
        await asyncio.gather(life, death, return_exceptions=True)
