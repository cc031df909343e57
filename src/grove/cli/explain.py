"""`grove explain`: why a PodCliqueSet does not run, on one screen."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from grove.cli.cluster import Target, cluster_options, not_found, run
from grove.cli.offered_names import set_names

if TYPE_CHECKING:
    from grove.insight.findings import Explanation


@click.command()
@click.argument("name", shell_complete=set_names)
@cluster_options
@click.option("-o", "--output", type=click.Choice(["text", "json", "yaml"]), default="text", help="How to print.")
def explain(name: str, target: Target, output: str) -> None:
    """Say why a PodCliqueSet does not run: one reason, the evidence, the next step.

    It looks at the spec, the room on nodes, quotas and queues, gates, start order, what schedulers said, and crashes,
    in this order, and names the first thing that stands in the way.

    \b
    Examples:
      grove explain inference
      grove explain inference -n team-a -o json
    """
    from grove.cli import listing
    from grove.cli.output import structured
    from grove.insight.explain import explain as asked
    from grove.runtime.client import Client

    async def work(client: Client, namespace: str) -> Explanation:
        found = await listing.snapshot(client, listing.Scope(namespace, name, capacity=True, circumstances=True))
        owner = found.find(namespace, name)
        if owner is None:
            raise not_found("PodCliqueSet", name, namespace)
        return asked(found, owner)

    answer = run(work, target)
    click.echo("\n".join(_lines(answer)) if output == "text" else structured(answer, output))


def _lines(answer: Explanation) -> list[str]:
    from grove.cli.output import Cell, colours, paint, width, wrapped

    limit, colour = width(), colours()
    feeling = {"healthy": "good", "updating": "busy", "starting": "busy", "fits, but not now": "busy"}
    title = paint(Cell(str(answer.tier).upper(), feeling.get(str(answer.tier), "bad")), colour)
    name = paint(Cell(f"{answer.namespace}/{answer.name}", "strong"), colour)
    lines = [f"{name}  {title}  {answer.reason}", ""]
    lines += wrapped(answer.headline[:1].upper() + answer.headline[1:].rstrip(".") + ".", limit, "  ")
    if answer.meaning and answer.tier != "healthy":
        lines += [paint(Cell(line, "dim"), colour) for line in wrapped(answer.meaning, limit, "  ")]
    lines.append("")
    for evidence in answer.evidence:
        lines.append(paint(Cell(evidence.title, "strong"), colour))
        for text in evidence.lines:
            lines += wrapped(text, limit, "  ")
    for blind in answer.blind:
        lines += wrapped(f"not seen: {blind}", limit)
    lines += ["", paint(Cell("next", "strong"), colour)]
    lines += wrapped(answer.next_step, limit, "  ")
    if answer.others:
        lines += ["", paint(Cell("also", "dim"), colour)]
        lines += [
            paint(Cell(line, "dim"), colour)
            for other in answer.others[:3]
            for line in wrapped(f"{other.reason}: {other.headline}", limit, "  ")
        ]
    return lines
