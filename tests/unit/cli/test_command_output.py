"""Tables that fit the terminal, trees, and structured output."""

from __future__ import annotations

import json

import yaml

from grove.cli.output import Cell, Column, shortened, structured, table, wrapped
from grove.insight.findings import Evidence

COLUMNS = (Column("NAME"), Column("READY"), Column("NODE", 2), Column("AGE", 5))
ROWS = [[Cell("a" * 30), Cell("1/1"), Cell("node-17"), Cell("5m")], [Cell("b"), Cell("0/1"), Cell(""), Cell("9s")]]


def test_the_dearest_columns_go_first_when_the_terminal_is_narrow() -> None:
    titles = [table(COLUMNS, ROWS, limit=limit, colour=False)[0].split() for limit in (None, 60, 50, 40)]

    assert titles == [
        ["NAME", "READY", "NODE", "AGE"],
        ["NAME", "READY", "NODE", "AGE"],
        ["NAME", "READY", "NODE"],
        ["NAME", "READY"],
    ]


def test_no_line_is_wider_than_the_terminal() -> None:
    for limit in range(24, 80):
        assert all(len(line) <= limit for line in table(COLUMNS, ROWS, limit=limit, colour=False))


def test_a_short_first_column_is_not_widened() -> None:
    rows = [[Cell("a"), Cell("1/1"), Cell("node-17"), Cell("5m")]]

    assert table(COLUMNS, rows, limit=80, colour=False) == table(COLUMNS, rows, limit=None, colour=False)


def test_columns_without_content_are_left_out() -> None:
    rows = [[Cell("a"), Cell("1/1"), Cell(""), Cell("")]]

    assert table(COLUMNS, rows, limit=None, colour=False)[0].split() == ["NAME", "READY"]


def test_long_names_lose_their_middle() -> None:
    assert shortened("inference-0-prefill-1-worker-12", 15) == "inferen…rker-12"
    assert shortened("short", 15) == "short"


def test_colour_codes_appear_only_when_wanted() -> None:
    rows = [[Cell("a", "bad"), Cell("", ""), Cell("", ""), Cell("", "")]]

    assert "\x1b[31m" in table(COLUMNS, rows, limit=None, colour=True)[1]
    assert "\x1b" not in "".join(table(COLUMNS, rows, limit=None, colour=False))


def test_paragraphs_keep_to_the_width_and_the_indent() -> None:
    lines = wrapped("word " * 40, 50, "  ")

    assert all(len(line) <= 50 and line.startswith("  ") for line in lines)


def test_values_come_out_as_json_and_yaml() -> None:
    value = Evidence(title="a", lines=("b",))

    assert json.loads(structured(value, "json")) == {"title": "a", "lines": ["b"]}
    assert yaml.safe_load(structured(value, "yaml")) == {"title": "a", "lines": ["b"]}
