"""`grove diagnose`: everything a supporter asks for first, in one file, without secrets."""

from __future__ import annotations

import io
import tarfile
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from grove.cli.cluster import Target, cluster_options, run
from grove.cli.offered_names import set_names

if TYPE_CHECKING:
    from grove.insight.snapshot import Snapshot
    from grove.runtime.client import Client
    from grove.runtime.resource import Resource

_LOG_LINES = 2000


@click.command()
@click.argument("name", required=False, shell_complete=set_names)
@cluster_options
@click.option("-A", "--all-namespaces", is_flag=True, help="Collect from all namespaces.")
@click.option("-o", "--output", "path", type=click.Path(path_type=Path, dir_okay=False), help="The file to write.")
def diagnose(name: str | None, target: Target, all_namespaces: bool, path: Path | None) -> None:
    """Collect a support bundle: objects, events, explanations and the operator's logs.

    No Secret is read. Values of environment variables and what looks like a credential in command lines are replaced
    before anything is written.

    \b
    Examples:
      grove diagnose
      grove diagnose inference -n team-a -o bundle.tar.gz
    """
    from grove.cli import listing

    now = datetime.now(UTC)
    chosen = path or Path(f"grove-diagnose-{now:%Y%m%d-%H%M%S}.tar.gz")

    async def work(client: Client, namespace: str) -> dict[str, str]:
        scope = listing.Scope(None if all_namespaces else namespace, name or "", capacity=True, circumstances=True)
        found = await listing.snapshot(client, scope)
        return {
            **_answers(found),
            **await _objects(client, scope),
            **await _logs(client),
            "cluster.yaml": await _cluster(client, found, now),
        }

    files = run(work, target)
    with tarfile.open(chosen, "w:gz") as bundle:
        for file, text in sorted(files.items()):
            content = text.encode()
            entry = tarfile.TarInfo(f"{chosen.name.removesuffix('.tar.gz')}/{file}")
            entry.size, entry.mtime, entry.mode = len(content), int(now.timestamp()), 0o644
            bundle.addfile(entry, io.BytesIO(content))
    click.echo(f"{chosen}: {len(files)} files")


def _answers(found: Snapshot) -> dict[str, str]:
    """What this tool itself would say."""
    from grove.cli.output import structured
    from grove.insight.explain import explain
    from grove.insight.topology_map import topology_map
    from grove.insight.tree import trees

    answers = {
        f"explain/{s.metadata.namespace}.{s.metadata.name}.yaml": structured(explain(found, s), "yaml")
        for s in found.sets
    }
    return {
        **answers,
        "tree.yaml": structured(trees(found), "yaml"),
        "topology.yaml": structured(topology_map(found), "yaml"),
    }


async def _objects(client: Client, scope: Any) -> dict[str, str]:
    """The objects themselves, as the server has them but for secrets."""
    from grove.cli.output import structured
    from grove.insight.redaction import redacted
    from grove.runtime.errors import Forbidden, NotFound

    found: dict[str, str] = {}
    for field, resource in scope.resources().items():
        raw: Resource[Any] = resource.with_model(dict)
        # Capacity needs the pods of everybody; a bundle holds those of the workloads.
        chosen = scope.selection(field, raw, own=True)
        try:
            items = (await client.list_all(raw, **chosen)).items
        except (Forbidden, NotFound) as refusal:
            found[f"objects/{resource.plural}.error.txt"] = refusal.message
            continue
        found[f"objects/{resource.plural}.yaml"] = structured([redacted(item) for item in items], "yaml")
    return found


async def _logs(client: Client) -> dict[str, str]:
    """The last lines of the operator's pods, wherever they run."""
    from grove.api.kinds import PODS
    from grove.runtime.errors import ApiError
    from grove.runtime.transport import HttpRequest, TransportError

    found: dict[str, str] = {}
    try:
        pods = (await client.list_all(PODS, label_selector="app.kubernetes.io/name=grove-operator")).items
    except ApiError as refusal:
        return {"logs/error.txt": refusal.message}
    for pod in pods:
        meta = pod.metadata
        request = HttpRequest("GET", PODS.path(meta.namespace, meta.name, "log"), (("tailLines", str(_LOG_LINES)),))
        try:
            answer = await client.transport.request(request)
        except TransportError as error:
            found[f"logs/{meta.namespace}.{meta.name}.txt"] = str(error)
            continue
        found[f"logs/{meta.namespace}.{meta.name}.txt"] = answer.body.decode("utf-8", "replace")
    return found


async def _cluster(client: Client, found: Snapshot, now: datetime) -> str:
    from importlib.metadata import version

    from grove.cli.output import structured
    from grove.runtime.discovery import Discovery
    from grove.runtime.errors import ApiError

    try:
        server = str(await Discovery(client).server_version())
    except ApiError as error:
        server = f"unknown: {error.message}"
    told = {
        "collected": now.isoformat(),
        "grove": version("grove"),
        "kubernetes": server,
        "nodes": len(found.nodes),
        "podCliqueSets": len(found.sets),
        "pods": len(found.pods),
        "unread": dict(found.unread),
    }
    return structured(told, "yaml")
