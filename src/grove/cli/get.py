"""`grove get`: PodCliqueSets as a tree, once or live."""

from __future__ import annotations

import click

from grove.cli.cluster import Target, cluster_options, not_found, run
from grove.cli.offered_names import set_names


@click.command()
@click.argument("name", required=False, shell_complete=set_names)
@cluster_options
@click.option("-A", "--all-namespaces", is_flag=True, help="Look in all namespaces.")
@click.option("-w", "--watch", is_flag=True, help="Keep showing what changes.")
@click.option(
    "-o", "--output", type=click.Choice(["tree", "wide", "json", "yaml"]), default="tree", help="How to print."
)
@click.option(
    "--depth", type=click.Choice(["set", "replica", "clique", "pod"]), default="pod", help="How deep the tree goes."
)
def get(name: str | None, target: Target, all_namespaces: bool, watch: bool, output: str, depth: str) -> None:
    """Show PodCliqueSets as a tree: replicas, scaling groups, cliques, pods.

    A tree shows as many columns as the terminal has room for; -o wide shows all of them.

    \b
    Examples:
      grove get                       all sets of this namespace
      grove get inference -w          one set, live
      grove get -A --depth replica    all sets, without their pods
      grove get inference -o json     for programs
    """
    from grove.cli import listing
    from grove.cli.get_view import Style, printed
    from grove.runtime.client import Client

    style = Style(output, depth)

    async def work(client: Client, namespace: str) -> None:
        scope = listing.Scope(None if all_namespaces else namespace, name or "")
        if watch:
            from grove.cli.live import follow

            await follow(client, scope, style)
            return
        found = await listing.snapshot(client, scope)
        if name and not found.sets:
            raise not_found("PodCliqueSet", name, namespace)
        if not found.sets and output in ("tree", "wide"):
            where = "the cluster" if all_namespaces else f"namespace {namespace}"
            click.echo(f"No PodCliqueSets in {where}.", err=True)
            return
        click.echo("\n".join(printed(found, style)))

    run(work, target)
