"""Follows an update by watches: a bar on a terminal, otherwise a line whenever something moved."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable
from typing import Any

import click

from grove.cli.cluster import not_found
from grove.cli.listing import Scope
from grove.cli.live import watched
from grove.insight.progress import Phase, Progress
from grove.insight.tree import SetView, tree
from grove.runtime.client import Client

DONE, FAILED, UNFINISHED = 0, 1, 2


async def follow(client: Client, namespace: str, name: str, *, watch: bool, timeout: float | None) -> int:
    """The exit code: done, failed, or not done in time."""
    loop = asyncio.get_running_loop()
    ends = loop.time() + timeout if timeout else None
    async with watched(client, Scope(namespace, name)) as world:
        with _Bar() if sys.stdout.isatty() else _Lines() as show:
            while True:
                owner = world.snapshot().find(namespace, name)
                if owner is None:
                    raise not_found("PodCliqueSet", name, namespace)
                view = tree(world.snapshot(), owner)
                code = outcome(view.progress)
                show(view, sentence(view))
                if code is not None or not watch:
                    return UNFINISHED if code is None else code
                if not await world.change(ends - loop.time() if ends else None) and ends and loop.time() >= ends:
                    click.echo(f"error: {name} is not done after {timeout:g} s; grove explain {name}", err=True)
                    return UNFINISHED


def outcome(progress: Progress) -> int | None:
    """The exit code once there is one."""
    return DONE if progress.done else FAILED if progress.failed else None


def sentence(view: SetView) -> str:
    """Where the update stands."""
    progress, name = view.progress, view.name
    counts = f"{progress.updated_pods} of {progress.total_pods} pods updated and ready"
    replicas = f"{progress.available_replicas} of {progress.total_replicas} replicas available"
    if progress.done:
        return f"{name} is up to date: {counts}, {replicas}, revision {view.revision}"
    if progress.failed:
        return f"{name} is stuck: {progress.message}"
    if progress.phase is Phase.UNSEEN:
        return f"{name}: {progress.message}"
    if progress.phase is Phase.DONE:
        return f"{name}: waiting for replicas: {replicas}"
    what = {Phase.PAUSED: "paused", Phase.ON_DELETE: "waiting for you"}.get(progress.phase, "updating")
    at = f" replica {', '.join(map(str, progress.updating))}" if progress.updating else ""
    detail = f"; {progress.message}" if progress.message not in ("", replicas) else ""
    return f"{name}: {what}{at}: {counts}, {replicas}{detail}"


class _Lines:
    """A line for every change."""

    def __enter__(self) -> Callable[[SetView, str], None]:
        last = [""]

        def show(view: SetView, text: str) -> None:
            if text != last[0]:
                click.echo(text)
                last[0] = text

        return show

    def __exit__(self, *error: Any) -> None:
        """There is nothing to put back."""


class _Bar:
    """One bar, and the sentence beneath it."""

    def __enter__(self) -> Callable[[SetView, str], None]:
        from rich.console import Console
        from rich.live import Live
        from rich.progress_bar import ProgressBar
        from rich.table import Table

        from grove.cli.output import colours

        self._live = Live(console=Console(no_color=not colours(), highlight=False), auto_refresh=False)
        self._live.__enter__()

        def show(view: SetView, text: str) -> None:
            progress = view.progress
            grid = Table.grid(padding=(0, 1))
            bar = ProgressBar(total=max(1, progress.total_pods), completed=progress.updated_pods, width=40)
            grid.add_row(bar, f"{progress.updated_pods}/{progress.total_pods} pods")
            outer = Table.grid()
            outer.add_row(grid)
            outer.add_row(text)
            self._live.update(outer, refresh=True)

        return show

    def __exit__(self, *error: Any) -> None:
        self._live.__exit__(None, None, None)
