"""Follows the objects of a question by watches and draws what they amount to, whenever something changed.

On a terminal one picture is kept up to date in place; anywhere else only the lines that changed are printed, so that a
log or a pipe gets news and nothing twice. JSON and YAML come as whole documents, one after the other.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import click

from grove.api.kinds import POD_CLIQUE_SETS
from grove.cli import output
from grove.cli.get_view import Style, printed
from grove.cli.listing import NOT_INSTALLED, Scope
from grove.insight.snapshot import Snapshot
from grove.runtime import requests
from grove.runtime.client import Client
from grove.runtime.errors import NotFound
from grove.runtime.reflector import Reflector
from grove.runtime.store import Store

SETTLE = 0.1  # a burst of events becomes one picture
FIRST_PICTURE = 5.0
REFRESH = 5.0  # ages go on while nothing happens


class Watched:
    """Snapshots that follow the cluster."""

    def __init__(self, stores: dict[str, Store[Any]], changed: asyncio.Event) -> None:
        self._stores = stores
        self._changed = changed

    def snapshot(self) -> Snapshot:
        content: dict[str, Any] = {field: tuple(store.all()) for field, store in self._stores.items()}
        return Snapshot(now=datetime.now(UTC), **content)

    async def change(self, within: float | None = None) -> bool:
        """Waits for news, at most so long; whether there were any."""
        with suppress(TimeoutError):
            async with asyncio.timeout(within):
                await self._changed.wait()
                await asyncio.sleep(SETTLE)
        news = self._changed.is_set()
        self._changed.clear()
        return news


@asynccontextmanager
async def watched(client: Client, scope: Scope) -> AsyncIterator[Watched]:
    """Watches everything in the scope; ready when the first full picture is there."""
    _silence_logs()
    await _reachable(client, scope)
    changed = asyncio.Event()
    stores: dict[str, Store[Any]] = {}
    tasks: list[asyncio.Task[None]] = []
    try:
        for field, resource in scope.resources().items():
            store: Store[Any] = Store(resource)
            store.subscribe(lambda _old, _new: changed.set())
            stores[field] = store
            reflector = Reflector(client, store, **scope.selection(field, resource))
            tasks.append(asyncio.create_task(reflector.run()))
        # A kind that may not be read never arrives: do not wait for it for ever.
        with suppress(TimeoutError):
            async with asyncio.timeout(FIRST_PICTURE):
                for store in stores.values():
                    await store.wait_synced()
        changed.clear()
        yield Watched(stores, changed)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


async def _reachable(client: Client, scope: Scope) -> None:
    """A watch tries again for ever; a person wants to hear at once that it cannot work."""
    try:
        await client.send(requests.list_(POD_CLIQUE_SETS, scope.namespace, limit=1))
    except NotFound:
        raise NOT_INSTALLED from None


async def follow(client: Client, scope: Scope, style: Style) -> None:
    """Draws until interrupted."""
    in_place = sys.stdout.isatty() and style.form in ("tree", "wide")
    # Ages grow all the time: they belong in a picture, but they are no news.
    style = style if in_place else replace(style, ages=False)
    structured = style.form in ("json", "yaml")
    async with watched(client, scope) as world:
        with _picture() if in_place else _documents(style.form) if structured else _news() as show:
            while True:
                show(printed(world.snapshot(), style))
                await world.change(REFRESH if in_place else None)


class _picture:  # noqa: N801  a context manager that reads as a verb
    """One picture in place, through the terminal's alternate buffer only when it is longer than the screen."""

    def __enter__(self) -> Callable[[list[str]], None]:
        from rich.console import Console
        from rich.live import Live
        from rich.text import Text

        console = Console(no_color=not output.colours(), highlight=False)
        self._live = Live(console=console, auto_refresh=False, vertical_overflow="visible")
        self._live.__enter__()

        def show(lines: list[str]) -> None:
            room = max(3, console.size.height - 1)
            if len(lines) > room:
                lines = [*lines[: room - 1], f"… {len(lines) - room + 1} more lines; --depth replica shows less"]
            self._live.update(Text.from_ansi("\n".join(lines)), refresh=True)

        return show

    def __exit__(self, *error: Any) -> None:
        self._live.__exit__(None, None, None)


class _news:  # noqa: N801
    """Prints lines that were not in the last picture."""

    def __enter__(self) -> Callable[[list[str]], None]:
        last: list[str] = []

        def show(lines: list[str]) -> None:
            before = set(last)
            for line in lines:
                if line not in before:
                    click.echo(line)
            last[:] = lines

        return show

    def __exit__(self, *error: Any) -> None:
        """There is nothing to put back."""


class _documents:  # noqa: N801
    """Prints a whole document whenever it differs from the last; in YAML, with a mark between them."""

    def __init__(self, form: str) -> None:
        self._form = form

    def __enter__(self) -> Callable[[list[str]], None]:
        last: list[str] = []

        def show(lines: list[str]) -> None:
            if lines == last:
                return
            if last and self._form == "yaml":
                click.echo("---")
            click.echo("\n".join(lines))
            last[:] = lines

        return show

    def __exit__(self, *error: Any) -> None:
        """There is nothing to put back."""


def _silence_logs() -> None:
    """Reconnections are the reflector's business, not the reader's."""
    import logging

    import structlog

    structlog.configure(
        wrapper_class=structlog.make_filtering_bound_logger(logging.CRITICAL),
        logger_factory=structlog.ReturnLoggerFactory(),
    )
