"""`grove rollout`: follow, preview and steer updates. Words and flags are those of `kubectl rollout`."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from grove.cli.cluster import Failure, Target, cluster_options, not_found, run
from grove.cli.offered_names import set_names

if TYPE_CHECKING:
    from grove.api.pod_clique_set import PodCliqueSet
    from grove.insight.history import RevisionView
    from grove.insight.preview import Preview
    from grove.insight.snapshot import Snapshot
    from grove.runtime.client import Client


@click.group()
def rollout() -> None:
    """Follow, preview, pause, restart and undo the updates of a PodCliqueSet.

    \b
    Examples:
      grove rollout plan -f inference.yaml      what applying this file would do
      grove rollout status inference            follow until done
      grove rollout pause inference
      grove rollout undo inference
    """


@rollout.command()
@click.argument("name", shell_complete=set_names)
@cluster_options
@click.option("-w/ ", "--watch/--no-watch", default=True, help="Follow until the update ends, or look once.")
@click.option("--timeout", default="0s", help="Give up after this long, as 90s or 10m; 0s waits for ever.")
def status(name: str, target: Target, watch: bool, timeout: str) -> None:
    """Follow an update until every replica runs the latest templates.

    \b
    Exit codes:
      0  done
      1  failed: no progress for progressDeadlineSeconds, or the set cannot be read
      2  not done yet: the timeout passed, or --no-watch was given

    \b
    Examples:
      grove rollout status inference
      grove rollout status inference --timeout 10m
    """
    from grove.api.duration import parse
    from grove.cli.rollout_status import follow

    try:
        seconds = parse(timeout).total_seconds()
    except ValueError as error:
        raise Failure(f"--timeout: {error}") from None

    async def work(client: Client, namespace: str) -> int:
        return await follow(client, namespace, name, watch=watch, timeout=seconds or None)

    sys.exit(run(work, target))


@rollout.command()
@click.argument("name", shell_complete=set_names)
@cluster_options
def pause(name: str, target: Target) -> None:
    """Hold the update where it is; what is being replaced right now is finished.

    \b
    Example:
      grove rollout pause inference
    """
    _set_paused(name, target, True)


@rollout.command()
@click.argument("name", shell_complete=set_names)
@cluster_options
def resume(name: str, target: Target) -> None:
    """Let a paused update go on.

    \b
    Example:
      grove rollout resume inference
    """
    _set_paused(name, target, False)


def _set_paused(name: str, target: Target, paused: bool) -> None:
    from grove.api.kinds import POD_CLIQUE_SETS
    from grove.runtime import requests

    async def work(client: Client, namespace: str) -> str:
        owner = await _owner(client, namespace, name)
        if owner.spec.strategy.paused == paused:
            return f"already {'paused' if paused else 'running'}"
        patch = {"spec": {"updateStrategy": {"paused": paused}}}
        await client.send(requests.merge_patch(POD_CLIQUE_SETS, namespace, name, patch))
        return "paused" if paused else "resumed"

    click.echo(f"podcliqueset.grove.io/{name} {run(work, target)}")


@rollout.command()
@click.argument("name", shell_complete=set_names)
@cluster_options
@click.option("--clique", "cliques", multiple=True, help="Only the pods of this clique; may be given several times.")
def restart(name: str, target: Target, cliques: tuple[str, ...]) -> None:
    """Replace all pods, in the way the set's update strategy says.

    \b
    Examples:
      grove rollout restart inference
      grove rollout restart inference --clique router
    """
    from datetime import UTC, datetime

    from grove.insight.history import restarting
    from grove.runtime.clock import rfc3339

    async def work(client: Client, namespace: str) -> None:
        owner = await _owner(client, namespace, name)
        known = [clique.name for clique in owner.spec.template.cliques]
        for one in cliques:
            if one not in known:
                raise Failure(f'{name} has no clique "{one}"', f"it has {', '.join(known)}")
        await _write(client, owner, restarting(owner, rfc3339(datetime.now(UTC)), cliques))

    run(work, target)
    click.echo(f"podcliqueset.grove.io/{name} restarted")


@rollout.command()
@click.argument("name", shell_complete=set_names)
@cluster_options
@click.option("--revision", type=int, help="Show this revision alone, whole.")
@click.option("-o", "--output", type=click.Choice(["text", "json", "yaml"]), default="text", help="How to print.")
def history(name: str, target: Target, revision: int | None, output: str) -> None:
    """List the kept revisions, and what changed from each to the next.

    \b
    Examples:
      grove rollout history inference
      grove rollout history inference --revision 3
    """
    from grove.cli.output import structured
    from grove.insight import history as revisions

    async def work(client: Client, namespace: str) -> tuple[Snapshot, PodCliqueSet]:
        return await _snapshot(client, namespace, name)

    found, owner = run(work, target)
    if revision is not None:
        record = next((r for r in revisions.records(found, owner) if r.revision == revision), None)
        if record is None:
            raise Failure(f"{name} has no revision {revision}", "`grove rollout history` lists them")
        click.echo(structured(record.data, "json" if output == "json" else "yaml"))
        return
    views = revisions.history(found, owner)
    click.echo(structured(views, output) if output != "text" else "\n".join(_history_lines(name, views, found)))


@rollout.command()
@click.argument("name", shell_complete=set_names)
@cluster_options
@click.option("--to-revision", type=int, help="The revision to go back to; by default the one before the current.")
@click.option("--dry-run", is_flag=True, help="Say what would change, and write nothing.")
def undo(name: str, target: Target, to_revision: int | None, dry_run: bool) -> None:
    """Give the cliques the pod templates of an older revision. Replicas and settings stay as they are.

    \b
    Examples:
      grove rollout undo inference
      grove rollout undo inference --to-revision 3
    """
    from grove.insight import history as revisions
    from grove.plan.revision import of_template, stored

    async def work(client: Client, namespace: str) -> tuple[int, list[str]]:
        found, owner = await _snapshot(client, namespace, name)
        number = _undo_target(name, revisions.history(found, owner), to_revision)
        record = next(r for r in revisions.records(found, owner) if r.revision == number)
        wanted = stored(record)
        told = [str(change) for change in revisions.changes(of_template(owner.spec.template), wanted)]
        await _write(client, owner, revisions.restoring(owner, wanted), dry_run=dry_run)
        return number, told

    number, told = run(work, target)
    click.echo(f"podcliqueset.grove.io/{name} rolled back to revision {number}{' (dry run)' if dry_run else ''}")
    for line in told:
        click.echo(f"  {line}")


@rollout.command()
@click.argument("name", required=False, shell_complete=set_names)
@cluster_options
@click.option(
    "-f", "--filename", "file", required=True, type=click.Path(path_type=Path, allow_dash=True), help="The new spec."
)
@click.option("--json", "as_json", is_flag=True, help="Print JSON, for pipelines.")
def plan(name: str | None, target: Target, file: Path, as_json: bool) -> None:
    """Show what applying FILE would do to a live set, step by step, and change nothing.

    The operator's own engine runs on a model of what exists now. The exit code is 0 when the update would come to its
    end, 3 when something would hold it.

    \b
    Examples:
      grove rollout plan -f inference.yaml
      grove rollout plan inference -f all.yaml --json
    """
    from grove.cli.output import structured
    from grove.cli.rollout_plan import ask, lines

    async def work(client: Client, namespace: str) -> Preview:
        return await ask(client, target.namespace, namespace, name or "", file)

    answer = run(work, target)
    click.echo(structured(answer, "json") if as_json else "\n".join(lines(answer)))
    sys.exit(0 if answer.completes else 3)


async def _owner(client: Client, namespace: str, name: str) -> PodCliqueSet:
    from grove.api.kinds import POD_CLIQUE_SETS
    from grove.runtime import requests
    from grove.runtime.errors import NotFound

    try:
        return await client.send(requests.get(POD_CLIQUE_SETS, namespace, name))
    except NotFound:
        raise not_found("PodCliqueSet", name, namespace) from None


async def _snapshot(client: Client, namespace: str, name: str) -> tuple[Snapshot, PodCliqueSet]:
    from grove.cli import listing

    found = await listing.snapshot(client, listing.Scope(namespace, name))
    owner = found.find(namespace, name)
    if owner is None:
        raise not_found("PodCliqueSet", name, namespace)
    return found, owner


async def _write(
    client: Client, owner: PodCliqueSet, operations: list[dict[str, Any]], *, dry_run: bool = False
) -> None:
    from grove.api.kinds import POD_CLIQUE_SETS
    from grove.runtime import requests

    meta = owner.metadata
    await client.send(requests.json_patch(POD_CLIQUE_SETS, meta.namespace, meta.name, operations, dry_run=dry_run))


def _undo_target(name: str, views: list[RevisionView], wanted: int | None) -> int:
    numbers = [view.number for view in views if not view.current]
    if wanted is None:
        if not numbers:
            raise Failure(f"{name} has no revision to go back to")
        return numbers[-1]
    if any(view.current and view.number == wanted for view in views):
        raise Failure(f"{name} is at revision {wanted} already", "`grove rollout history` lists the others")
    if wanted not in numbers:
        raise Failure(f"{name} has no revision {wanted}", "`grove rollout history` lists them")
    return wanted


def _history_lines(name: str, views: list[RevisionView], found: Snapshot) -> list[str]:
    from grove.cli.output import Cell, colours, paint, width, wrapped
    from grove.insight.tree import age

    colour = colours()
    lines = []
    for view in views:
        mark = "  current" if view.current else ""
        pods = f"  {view.pods} pods" if view.pods else ""
        title = f"revision {view.number}  {view.hash}  {age(view.created, found.now)} ago{pods}{mark}"
        lines.append(paint(Cell(title, "strong" if view.current else ""), colour))
        for change in view.changes:
            lines += wrapped(str(change), width(), "  ")
    return lines or [f"{name} has no revisions yet"]
