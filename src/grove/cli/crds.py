"""`grove crds`: puts Grove's kinds into a cluster by server-side apply, or shows what that would change."""

from __future__ import annotations

import asyncio
import difflib
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import click
import yaml

from grove.api import crd
from grove.cli.cluster import Failure, explained
from grove.runtime import requests
from grove.runtime.client import Client
from grove.runtime.config_error import ConnectionConfigError
from grove.runtime.connection import connect, load
from grove.runtime.errors import ApiError, NotFound
from grove.runtime.resource import Resource

Json = dict[str, Any]

FIELD_MANAGER = "grove-crd-installer"
ESTABLISH_SECONDS = 30.0
CRDS: Resource[Json] = Resource(
    "apiextensions.k8s.io", "v1", "customresourcedefinitions", "CustomResourceDefinition", Json, namespaced=False
)


def _which_cluster(command: Callable[..., None]) -> Callable[..., None]:
    command = click.option("--context", help="The context of the kubeconfig to use.")(command)
    return click.option("--kubeconfig", type=click.Path(path_type=Path), help="The kubeconfig file to use.")(command)


@click.group()
def crds() -> None:
    """Install Grove's kinds in a cluster, or see what would change.

    \b
    Examples:
      grove crds diff          what an install would change; exit code 1 when anything would
      grove crds install
      grove crds show > crds.yaml
    """


@crds.command()
@_which_cluster
def install(kubeconfig: Path | None, context: str | None) -> None:
    """Apply the five CustomResourceDefinitions and wait until they are served."""
    _run(install_all, kubeconfig, context)


@crds.command()
@_which_cluster
def diff(kubeconfig: Path | None, context: str | None) -> None:
    """Show what install would change. The exit status is 1 when anything would."""
    sys.exit(1 if _run(diff_all, kubeconfig, context) else 0)


@crds.command()
def show() -> None:
    """Print the five CustomResourceDefinitions as YAML."""
    click.echo("---\n".join(_text(definition) for definition in crd.definitions()), nl=False)


async def install_all(client: Client) -> bool:
    """Whether anything changed."""
    changed = False
    for definition in crd.definitions():
        name = definition["metadata"]["name"]
        before = await _live(client, name)
        after = await client.send(requests.apply(CRDS, definition, field_manager=FIELD_MANAGER))
        same = before is not None and before["metadata"]["generation"] == after["metadata"]["generation"]
        changed |= not same
        click.echo(f"{name}: {'created' if before is None else 'unchanged' if same else 'updated'}")
    for definition in crd.definitions():
        await _established(client, definition["metadata"]["name"])
    return changed


async def diff_all(client: Client) -> bool:
    """Whether anything would change; prints the difference between what is stored and what would be."""
    changed = False
    for definition in crd.definitions():
        name = definition["metadata"]["name"]
        before = await _live(client, name)
        after = await client.send(requests.apply(CRDS, definition, field_manager=FIELD_MANAGER, dry_run=True))
        old = "" if before is None else _text(before["spec"])
        lines = list(
            difflib.unified_diff(
                old.splitlines(), _text(after["spec"]).splitlines(), f"{name} (cluster)", f"{name} (new)", lineterm=""
            )
        )
        if before is None:
            click.echo(f"{name}: would be created")
        elif lines:
            click.echo("\n".join(lines))
        changed |= bool(lines)
    return changed


async def _live(client: Client, name: str) -> Json | None:
    try:
        return await client.send(requests.get(CRDS, None, name))
    except NotFound:
        return None


async def _established(client: Client, name: str) -> None:
    async with asyncio.timeout(ESTABLISH_SECONDS):
        while True:
            found = await _live(client, name) or {}
            conditions = found.get("status", {}).get("conditions", [])
            if any(c["type"] == "Established" and c["status"] == "True" for c in conditions):
                return
            await asyncio.sleep(0.1)


def _run(work: Callable[[Client], Awaitable[bool]], kubeconfig: Path | None, context: str | None) -> bool:
    async def connected() -> bool:
        transport = connect(load(kubeconfig, context))
        try:
            return await work(Client(transport, field_manager=FIELD_MANAGER))
        finally:
            await transport.close()

    try:
        return asyncio.run(connected())
    except TimeoutError:
        raise Failure("the API server did not serve the new kinds in time") from None
    except ConnectionConfigError as error:
        raise Failure(str(error), "name another file with --kubeconfig") from None
    except ApiError as error:
        raise explained(error) from None


def _text(value: Json) -> str:
    return yaml.safe_dump(value, sort_keys=False, width=120)
