"""Names a shell offers while somebody types: of PodCliqueSets, PodGangs and namespaces, from the cluster that is meant.

A shell that waits for these is worse than one that offers nothing: only metadata is asked for, the time is short, and
whatever goes wrong ends in silence.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from pathlib import Path

import click

PATIENCE = 2.0
_METADATA_ONLY = "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1,application/json"
_MOST = "500"

Offer = Callable[[click.Context, click.Parameter, str], list[str]]


def _names(root: str, plural: str, *, namespaced: bool = True) -> Offer:
    def offer(context: click.Context, parameter: click.Parameter, incomplete: str) -> list[str]:
        try:
            found = asyncio.run(_listed(context, root, plural, namespaced))
        except Exception:
            return []
        return sorted(name for name in found if name.startswith(incomplete))

    return offer


async def _listed(context: click.Context, root: str, plural: str, namespaced: bool) -> list[str]:
    """The names of one kind, in the cluster and namespace that the options typed so far name."""
    from grove.cli.quick_transport import transport
    from grove.runtime.connection import load
    from grove.runtime.transport import HttpRequest

    typed = context.params
    kubeconfig = typed.get("kubeconfig")
    connection = load(Path(kubeconfig) if kubeconfig else None, typed.get("context"))
    place = f"namespaces/{typed.get('namespace') or connection.namespace}/" if namespaced else ""
    headers = {"Accept": _METADATA_ONLY}
    request = HttpRequest("GET", f"{root}/{place}{plural}", [("limit", _MOST)], headers, timeout=PATIENCE)
    engine = transport(connection)
    try:
        async with asyncio.timeout(PATIENCE):
            answer = await engine.request(request)
    finally:
        await engine.close()
    return [item["metadata"]["name"] for item in json.loads(answer.body)["items"]]


set_names = _names("/apis/grove.io/v1alpha1", "podcliquesets")
gang_names = _names("/apis/scheduler.grove.io/v1alpha1", "podgangs")
namespace_names = _names("/api/v1", "namespaces", namespaced=False)
