"""`grove whatif`: would it fit now, where, and what is missing."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from grove.cli.cluster import Failure, Target, cluster_options, run
from grove.cli.offered_names import set_names

if TYPE_CHECKING:
    from grove.api.pod_clique_set import PodCliqueSet
    from grove.insight.whatif import GangFit, WhatIf

WOULD_NOT = 3


@click.command()
@click.argument("name", required=False, shell_complete=set_names)
@cluster_options
@click.option("-f", "--filename", "file", type=click.Path(path_type=Path, allow_dash=True), help="The PodCliqueSet.")
@click.option("--replicas", type=click.IntRange(min=0), help="As if it asked for so many replicas.")
@click.option("--drain", "drained", multiple=True, metavar="NODE", help="As if this node were drained.")
@click.option("-o", "--output", type=click.Choice(["text", "json", "yaml"]), default="text", help="How to print.")
def whatif(
    name: str | None, target: Target, file: Path | None, replicas: int | None, drained: tuple[str, ...], output: str
) -> None:
    """Ask whether a PodCliqueSet would fit the cluster as it is now, gang by gang. Nothing is changed.

    Give a file, or the NAME of a live set, or only nodes to drain: then all gangs on those nodes are looked at.
    The exit code is 0 when everything would fit and 3 when something would not.

    \b
    Examples:
      grove whatif -f inference.yaml
      grove whatif inference --replicas 4
      grove whatif --drain node-3 --drain node-4
    """
    from grove.cli import listing
    from grove.cli.output import structured
    from grove.insight.whatif import whatif as asked
    from grove.runtime.client import Client

    if file is None and name is None and not drained:
        raise Failure("nothing to ask about", "give -f FILE, the NAME of a set, or --drain NODE")
    document = _document(file, name or "") if file else None

    async def work(client: Client, namespace: str) -> WhatIf:
        # Drained nodes may hold gangs of any namespace.
        everywhere = document is None and name is None
        chosen = target.namespace or (document or {}).get("metadata", {}).get("namespace") or namespace
        found = await listing.snapshot(client, listing.Scope(None if everywhere else chosen, capacity=True))
        unknown = set(drained) - set(found.nodes_by_name)
        if unknown:
            raise Failure(f"there is no node {', '.join(sorted(unknown))}", "`kubectl get nodes` lists them")
        wanted = _parsed(document, chosen) if document else found.find(chosen, name) if name else None
        if name and wanted is None:
            raise Failure(f'PodCliqueSet "{name}" not found in namespace "{chosen}"', "give -f FILE for a new one")
        return asked(found, _with_replicas(wanted, replicas), drained)

    answer = run(work, target)
    click.echo(structured(answer, output) if output != "text" else "\n".join(_lines(answer)))
    sys.exit(0 if answer.fits else WOULD_NOT)


def _document(file: Path, name: str) -> dict[str, Any]:
    from grove.admission import default
    from grove.cli.manifests import pod_clique_set

    return default(pod_clique_set(file, name))


def _parsed(document: dict[str, Any], namespace: str) -> PodCliqueSet:
    import msgspec

    from grove.api.pod_clique_set import PodCliqueSet

    placed = {**document, "metadata": {**document.get("metadata", {}), "namespace": namespace}}
    try:
        return msgspec.convert(placed, PodCliqueSet)
    except msgspec.ValidationError as error:
        raise Failure(f"the PodCliqueSet cannot be read: {error}", "`grove validate FILE` tells more") from None


def _with_replicas(wanted: PodCliqueSet | None, replicas: int | None) -> PodCliqueSet | None:
    import msgspec

    if wanted is None or replicas is None:
        return wanted
    return msgspec.structs.replace(wanted, spec=msgspec.structs.replace(wanted.spec, replicas=replicas))


def _lines(answer: WhatIf) -> list[str]:
    from grove.cli.output import Cell, Column, colours, paint, table, width, wrapped

    colour = colours()
    lines = []
    if answer.drained:
        lines += wrapped(f"With {', '.join(answer.drained)} drained, {answer.evicted} pods lose their node.", width())
    if not answer.gangs:
        return [*lines, "No gang is affected."]
    feelings = {"fits": "good", "runs": "dim"}
    rows = [
        [Cell(g.name), Cell(g.state, feelings.get(g.state, "bad")), Cell(g.shape or "stays as it is"), Cell(_where(g))]
        for g in answer.gangs
    ]
    columns = [Column("GANG"), Column("RESULT"), Column("NEEDS", 2), Column("WHERE", 1)]
    lines += table(columns, rows, limit=width(), colour=colour)
    for gang in answer.gangs:
        if not gang.fits:
            closest = f"in {gang.where} " if gang.where else ""
            lines += ["", *wrapped(f"{gang.name}: {closest}{gang.placed} of {gang.pods} pods find room", width())]
            lines += wrapped(f"missing {gang.missing}", width(), "  ")
            for why, count in sorted(gang.refused.items()):
                lines.append(f"  {count} nodes {why}")
    fitting = sum(g.fits for g in answer.gangs)
    verdict = "Everything would fit now." if answer.fits else f"{fitting} of {len(answer.gangs)} gangs would fit now."
    return [*lines, "", paint(Cell(verdict, "good" if answer.fits else "bad"), colour)]


def _where(gang: GangFit) -> str:
    if not gang.fits:
        return f"closest {gang.where}" if gang.where else ""
    if not gang.nodes:
        return gang.where
    nodes = sorted(gang.nodes)
    listed = ", ".join(nodes[:3]) + (f" and {len(nodes) - 3} more" if len(nodes) > 3 else "")
    return f"{gang.where}: {listed}" if gang.where and gang.where not in nodes else listed
