"""Results for people: a table with the limits beside what was measured, and a chart of the ratios as SVG."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from grove.bench.scenarios import SCENARIOS

_SHOWN = (
    "pods",
    "floor_created_s",
    "created_s",
    "created_ratio",
    "floor_ready_s",
    "deployment_ready_s",
    "ready_s",
    "ready_ratio",
    "deployment_deleted_s",
    "deleted_s",
    "deleted_ratio",
    "floor_cpu_s",
    "cpu_s",
    "cpu_ratio",
    "cpu_ms_per_pod",
    "writes_per_pod",
    "peak_mb",
    "reconciles",
    "bare_replacement_s",
    "replica_s",
    "replica_ratio",
    "update_s",
    "update_ratio",
    "scale_up_s",
    "scale_down_s",
    "slowest_s",
    "restart_s",
    "writes_total",
    "cpu_percent",
    "reaction_cpu_ms",
    "writes_agree",
)


def table(result: dict[str, Any]) -> str:
    """One scenario as Markdown, with limits and verdicts."""
    scenario = SCENARIOS[result["scenario"]]
    lines = [f"### {scenario.name}: {scenario.about}", "", "| measure | value | at most |", "|---|---|---|"]
    for key in _SHOWN:
        if key in result:
            limit = scenario.limits.get(key)
            mark = "" if limit is None else f"{limit:g} {'✓' if result[key] <= limit else '✗ exceeded'}"
            lines.append(f"| {key} | {result[key]} | {mark} |")
    writes = {k: v for k, v in result.get("writes", {}).items() if v}
    if writes:
        lines.append(f"| writes | {', '.join(f'{k} {v}' for k, v in writes.items())} | |")
    return "\n".join(lines)


def exceeded(result: dict[str, Any]) -> list[str]:
    """The limits this result breaks."""
    limits = SCENARIOS[result["scenario"]].limits
    return [f"{key} {result[key]} > {limit:g}" for key, limit in limits.items() if result.get(key, 0) > limit]


_WIDTH, _ROW, _LEFT, _RIGHT = 720, 26, 230, 60


def chart(results: Sequence[dict[str, Any]]) -> str:
    """Every ratio that has a limit, as a bar against it."""
    bars = [
        (f"{r['scenario']} {key}", float(r[key]), limit)
        for r in results
        for key, limit in SCENARIOS[r["scenario"]].limits.items()
        if key in r and limit > 0
    ]
    height = 60 + _ROW * len(bars)
    scale = (_WIDTH - _LEFT - _RIGHT) / 1.25
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{_WIDTH}" height="{height}"',
        ' font-family="sans-serif" font-size="12">',
        f'<rect width="{_WIDTH}" height="{height}" fill="white"/>',
        '<text x="16" y="24" font-size="15">Measured, as a share of the limit</text>',
    ]
    for row, (label, value, limit) in enumerate(bars):
        y = 44 + row * _ROW
        share = min(value / limit, 1.2)
        colour = "#3a7d44" if value <= limit else "#b3261e"
        parts.append(f'<text x="{_LEFT - 8}" y="{y + 13}" text-anchor="end">{label}</text>')
        parts.append(f'<rect x="{_LEFT}" y="{y}" width="{share * scale:.1f}" height="18" fill="{colour}"/>')
        parts.append(f'<text x="{_LEFT + share * scale + 6:.1f}" y="{y + 13}">{value:g} of {limit:g}</text>')
    x = _LEFT + scale
    parts.append(f'<line x1="{x}" y1="36" x2="{x}" y2="{height - 12}" stroke="black" stroke-dasharray="4 3"/>')
    parts.append("</svg>")
    return "\n".join(parts)
