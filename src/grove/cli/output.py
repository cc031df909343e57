"""Words on a terminal: colours only where they are wanted, tables that fit the width, JSON and YAML as they are."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import click
import msgspec

_STYLES: dict[str, dict[str, Any]] = {
    "good": {"fg": "green"},
    "busy": {"fg": "yellow"},
    "bad": {"fg": "red"},
    "dim": {"dim": True},
    "strong": {"bold": True},
    "link": {"fg": "cyan"},
    "": {},
}
ELLIPSIS = "…"
_NARROWEST = 16


@dataclass(frozen=True, slots=True)
class Cell:
    """A piece of text and how it feels."""

    text: str = ""
    style: str = ""


@dataclass(frozen=True, slots=True)
class Column:
    """A column: lower `rank` stays longer when the terminal is narrow."""

    title: str
    rank: int = 0


Row = Sequence[Cell]


def colours() -> bool:
    """Whether to colour: a terminal, and nobody who said no."""
    return sys.stdout.isatty() and "NO_COLOR" not in os.environ and os.environ.get("TERM") != "dumb"


def width() -> int:
    return shutil.get_terminal_size((80, 24)).columns


def paint(cell: Cell, colour: bool) -> str:
    return click.style(cell.text, **_STYLES[cell.style]) if colour and cell.style else cell.text


def table(columns: Sequence[Column], rows: Sequence[Row], *, limit: int | None, colour: bool) -> list[str]:
    """Lines of a table. Columns go, dearest first, until it fits `limit`; then the names are cut."""
    kept = list(range(len(columns)))
    widths = [max([len(c.title), *(len(row[i].text) for row in rows)]) for i, c in enumerate(columns)]
    # A column with nothing in it says nothing.
    kept = [i for i in kept if any(row[i].text for row in rows) or i == 0]
    while limit and len(kept) > 2 and _total(kept, widths) > limit:
        kept.remove(max(kept, key=lambda i: columns[i].rank))
    if limit:
        over = max(0, _total(kept, widths) - limit)
        widths[0] = max(min(_NARROWEST, widths[0]), widths[0] - over)
    lines = [_line([Cell(columns[i].title, "dim") for i in kept], [widths[i] for i in kept], colour)]
    lines += [_line([row[i] for i in kept], [widths[i] for i in kept], colour) for row in rows]
    return lines


def _total(kept: Sequence[int], widths: Sequence[int]) -> int:
    return sum(widths[i] for i in kept) + 2 * (len(kept) - 1)


def _line(cells: Sequence[Cell], widths: Sequence[int], colour: bool) -> str:
    parts = []
    for cell, size in zip(cells, widths, strict=True):
        text = shortened(cell.text, size)
        parts.append(paint(Cell(text, cell.style), colour) + " " * (size - len(text)))
    return "  ".join(parts).rstrip()


def shortened(text: str, size: int) -> str:
    """The text in at most this many characters; the middle goes, since names differ at their ends."""
    if len(text) <= size:
        return text
    head = (size - 1) // 2
    return text[:head] + ELLIPSIS + text[len(text) - (size - 1 - head) :]


def wrapped(text: str, limit: int, indent: str = "") -> list[str]:
    """Paragraph lines within the limit, every one indented."""
    import textwrap

    return textwrap.wrap(text, max(20, limit), initial_indent=indent, subsequent_indent=indent) or [indent]


def structured(value: Any, form: str) -> str:
    """The value as JSON or YAML."""
    plain = msgspec.to_builtins(value)
    if form == "json":
        return msgspec.json.format(msgspec.json.encode(plain), indent=2).decode()
    import yaml

    return str(yaml.safe_dump(plain, sort_keys=False, width=120)).rstrip()
