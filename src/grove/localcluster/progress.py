"""How a long operation tells a person what it is doing, with the time each step took.

Steps may overlap, since components start in parallel. On a terminal they are live lines, elsewhere plain lines, in
tests nothing.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Protocol, TextIO


class Progress(Protocol):
    """Receives the beginning, the details and the end of every step."""

    def begin(self, step: str) -> None: ...

    def detail(self, step: str, text: str) -> None: ...

    def end(self, step: str, succeeded: bool) -> None: ...

    def note(self, text: str) -> None: ...


@contextmanager
def reporting(progress: Progress, step: str) -> Iterator[None]:
    """Run a block as one step, reported as failed when it raises."""
    progress.begin(step)
    try:
        yield
    except BaseException:
        progress.end(step, False)
        raise
    progress.end(step, True)


class SilentProgress:
    """Says nothing; for tests and scripts."""

    def begin(self, step: str) -> None:
        del step

    def detail(self, step: str, text: str) -> None:
        del step, text

    def end(self, step: str, succeeded: bool) -> None:
        del step, succeeded

    def note(self, text: str) -> None:
        del text


class PlainProgress:
    """One line when a step begins and one when it ends; details at most every ten seconds, for short logs."""

    DETAIL_INTERVAL = 10.0

    def __init__(self, stream: TextIO | None = None) -> None:
        self._stream = stream or sys.stderr
        self._origin = time.monotonic()
        self._begun: dict[str, float] = {}
        self._last_detail: dict[str, float] = {}

    def begin(self, step: str) -> None:
        now = time.monotonic()
        self._begun[step] = now
        self._last_detail[step] = now
        self._print(f"{step} ...")

    def detail(self, step: str, text: str) -> None:
        now = time.monotonic()
        if now - self._last_detail.get(step, 0.0) >= self.DETAIL_INTERVAL:
            self._last_detail[step] = now
            self._print(f"{step}: {text}")

    def end(self, step: str, succeeded: bool) -> None:
        took = time.monotonic() - self._begun.pop(step, time.monotonic())
        self._print(f"{step} {'done' if succeeded else 'FAILED'} ({took:.1f} s)")

    def note(self, text: str) -> None:
        self._print(text)

    def _print(self, text: str) -> None:
        # One write per line: steps are reported from several threads.
        self._stream.write(f"[{time.monotonic() - self._origin:6.1f} s] {text}\n")
        self._stream.flush()


class LiveProgress:
    """Spinners with elapsed time on a terminal; finished steps stay on the screen."""

    def __init__(self) -> None:
        from rich.console import Console
        from rich.progress import Progress as Bars
        from rich.progress import SpinnerColumn, TextColumn, TimeElapsedColumn

        self._bars = Bars(
            SpinnerColumn(finished_text="[green]✓"),
            TextColumn("{task.description}"),
            TimeElapsedColumn(),
            TextColumn("[dim]{task.fields[detail]}"),
            console=Console(stderr=True),
        )
        self._tasks: dict[str, int] = {}

    def __enter__(self) -> LiveProgress:
        self._bars.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._bars.stop()

    def begin(self, step: str) -> None:
        self._tasks[step] = int(self._bars.add_task(step, total=1, detail=""))

    def detail(self, step: str, text: str) -> None:
        self._update(step, detail=text[:80])

    def end(self, step: str, succeeded: bool) -> None:
        if succeeded:
            self._update(step, detail="", completed=1)
        else:
            self._update(step, detail="[red]failed")

    def note(self, text: str) -> None:
        self._bars.console.print(text, highlight=False)

    def _update(self, step: str, detail: str, completed: int | None = None) -> None:
        from rich.progress import TaskID

        self._bars.update(TaskID(self._tasks[step]), detail=detail, completed=completed)


@contextmanager
def terminal_progress() -> Iterator[Progress]:
    """The display that suits standard error: live on a terminal, plain lines elsewhere."""
    if sys.stderr.isatty():
        with LiveProgress() as live:
            yield live
    else:
        yield PlainProgress()
