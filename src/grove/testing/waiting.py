"""Waiting for the simulated world: until something holds, or until nothing changes any more."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from grove.testing.apiserver import ApiServer
from grove.testing.storage import Change, Table

Predicate = Callable[[], bool]


async def until(server: ApiServer, holds: Predicate, *, within: float = 600.0) -> None:
    """Returns as soon as `holds()` is true; asked again after every change. Raises TimeoutError after `within` s."""
    changed = asyncio.Event()

    def on_change(_table: Table, _change: Change) -> None:
        changed.set()

    server.storage.listeners.append(on_change)
    try:
        async with asyncio.timeout(within):
            while not holds():
                await changed.wait()
                changed.clear()
    finally:
        server.storage.listeners.remove(on_change)


async def quiet(server: ApiServer, seconds: float = 60.0, *, within: float = 7200.0) -> None:
    """Returns when nothing has been written for `seconds`. Raises TimeoutError when the world keeps changing."""
    async with asyncio.timeout(within):
        seen = -1
        while seen != server.storage.version:
            seen = server.storage.version
            await asyncio.sleep(seconds)
