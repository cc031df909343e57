"""`grove topology`: the domains of the cluster, their GPUs, and where gangs sit."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import click

from grove.cli.cluster import Failure, Target, cluster_options, run
from grove.cli.offered_names import gang_names

if TYPE_CHECKING:
    from grove.cli.output import Row
    from grove.insight.topology_map import DomainView, TopologyView

_SHAPE = re.compile(r"(\d+)\s*[x*]\s*(\d+(?:\.\d+)?)")
_BAR = 16


@click.command()
@cluster_options
@click.option(
    "--gang",
    shell_complete=gang_names,
    help="Mark where this PodGang, or all gangs of this PodCliqueSet, sit.",
)
@click.option("--shape", "shapes", multiple=True, metavar="PODSxGPUS", help="Which gangs to look for room for: 8x8.")
@click.option("--hosts", is_flag=True, help="Show the narrowest level too.")
@click.option("-o", "--output", type=click.Choice(["text", "json", "yaml"]), default="text", help="How to print.")
def topology(target: Target, gang: str | None, shapes: tuple[str, ...], hosts: bool, output: str) -> None:
    """Show the topology's domains with used and free GPUs, where a gang sits, and what still fits whole.

    \b
    Examples:
      grove topology
      grove topology --gang inference-0
      grove topology --shape 8x8 --shape 4x4
    """
    from grove.cli import listing
    from grove.cli.output import structured
    from grove.insight.topology_map import topology_map
    from grove.runtime.client import Client

    wanted = [_shape(text) for text in shapes]

    async def work(client: Client, namespace: str) -> TopologyView:
        found = await listing.snapshot(client, listing.Scope(namespace, capacity=True))
        gangs = [g for g in found.gangs if gang and _is_called(g, gang)]
        if gang and not gangs:
            raise Failure(f'no PodGang "{gang}" in namespace "{namespace}"', "`grove get -o wide` shows their names")
        return topology_map(found, gangs, wanted)

    answer = run(work, target)
    click.echo(structured(answer, output) if output != "text" else "\n".join(_lines(answer, hosts)))


def _is_called(gang: Any, name: str) -> bool:
    from grove.api import labels

    return name in (gang.metadata.name, gang.metadata.labels.get(labels.PART_OF))


def _shape(text: str) -> tuple[int, float]:
    match = _SHAPE.fullmatch(text.strip())
    if match is None:
        raise Failure(f"--shape {text}: is not of the form PODSxGPUS", "write for example 8x8")
    return int(match[1]), float(match[2])


def _lines(answer: TopologyView, hosts: bool) -> list[str]:
    from grove.cli.output import Column, colours, table, width, wrapped

    if not answer.domains:
        return ["The cluster has no nodes."]
    marked = bool(answer.gangs)
    columns = [Column("DOMAIN"), Column("NODES", 3), Column("GPUS", 0), Column("", 4), Column("FREE", 0)]
    columns += [Column("GANG PODS", 1)] if marked else []
    rows: list[Row] = []
    deepest = answer.levels[-1] if len(answer.levels) > 1 and not hosts else ""
    for i, domain in enumerate(answer.domains):
        rows += _rows(
            domain, ("", "") if len(answer.domains) == 1 else _branch("", i == len(answer.domains) - 1), deepest, marked
        )
    lines = table(columns, rows, limit=width(), colour=colours())
    lines.append("")
    for gang in answer.gangs:
        for level, counts in gang.spread.items():
            if level != deepest or len(counts) <= 4:
                lines += wrapped(
                    f"{gang.name} by {level}: " + ", ".join(f"{n} {c}" for n, c in counts.items()), width()
                )
        lines.append(f"{gang.name}: {gang.placed} of {gang.pods} pods on nodes")
    for opening in answer.openings:
        lines += wrapped(str(opening), width())
    return lines


def _rows(domain: DomainView, at: tuple[str, str], hidden: str, marked: bool) -> list[Row]:
    from grove.cli.output import Cell

    closed = f" ({domain.closed} closed)" if domain.closed else ""
    share = domain.used / domain.gpus if domain.gpus else 0.0
    full = round(share * _BAR)
    cells = [
        Cell(f"{at[0]}{domain.name}"),
        Cell(f"{domain.nodes}{closed}", "busy" if closed else "dim"),
        Cell(f"{domain.used:g}/{domain.gpus:g}"),
        Cell("█" * full + "░" * (_BAR - full) if domain.gpus else "", "busy" if share >= 1 else "good"),
        Cell(f"{domain.free:g}", "good" if domain.free else "dim"),
    ]
    cells += [Cell(str(domain.gang_pods) if domain.gang_pods else "", "link")] if marked else []
    rows: list[Row] = [cells]
    below = [d for d in domain.domains if d.level != hidden or (marked and d.gang_pods)]
    for i, one in enumerate(below):
        rows += _rows(one, _branch(at[1], i == len(below) - 1), hidden, marked)
    return rows


def _branch(prefix: str, last: bool) -> tuple[str, str]:
    return prefix + ("└─ " if last else "├─ "), prefix + ("   " if last else "│  ")
