"""`grove bench`: measures the product on a local cluster and says how it compares with what the API server allows."""

from __future__ import annotations

import asyncio
import json
import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import click


@click.command()
@click.argument("scenarios", nargs=-1)
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object per scenario, each on a line of its own.")
@click.option("--name", default="bench", show_default=True, help="The local cluster to measure on.")
@click.option("--results", type=click.Path(path_type=Path), default=Path("bench/results"), show_default=True)
@click.option("--keep", is_flag=True, help="Leave the cluster running afterwards.")
def bench(scenarios: tuple[str, ...], as_json: bool, name: str, results: Path, keep: bool) -> None:
    """Measure SCENARIOS in one run; without any, those `make bench` runs.

    \b
    Examples:
      grove bench flat-1000
      grove bench --json flat-1000 many-500
    """
    from grove.bench import report
    from grove.bench.scenarios import DEFAULT, SCENARIOS
    from grove.runtime.pace import use_fast_loop

    unknown = [s for s in scenarios if s not in SCENARIOS]
    if unknown:
        click.echo(f"error: no scenario {unknown[0]!r}; there are {', '.join(SCENARIOS)}", err=True)
        sys.exit(2)
    use_fast_loop()
    measured = asyncio.run(_measure(scenarios or DEFAULT, name, as_json))
    results.mkdir(parents=True, exist_ok=True)
    (results / "results.json").write_text(json.dumps(measured, indent=2) + "\n")
    (results / "results.svg").write_text(report.chart(measured) + "\n")
    if not keep:
        from grove.localcluster import down

        down(name)
    broken = [f"{r['scenario']}: {text}" for r in measured for text in report.exceeded(r)]
    for line in broken:
        click.echo(f"exceeded: {line}", err=True)
    if as_json:
        for result in measured:
            click.echo(json.dumps(result))
    sys.exit(1 if broken else 0)


async def _measure(names: tuple[str, ...], cluster: str, as_json: bool) -> list[dict[str, Any]]:
    from grove.bench import report
    from grove.bench.scenarios import SCENARIOS
    from grove.bench.stand import stand

    found = []
    async with stand(cluster) as here:
        for name in names:
            click.echo(f"measuring {name} …", err=True)
            began = datetime.now(UTC).isoformat(timespec="seconds")
            result = {"scenario": name, "began": began, **await SCENARIOS[name].measure(here)}
            found.append(result)
            if not as_json:
                click.echo(report.table(result) + "\n")
    return found
