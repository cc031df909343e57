"""The preview of an update: reads what exists, lets the server judge the new spec, and prints the steps."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import msgspec

from grove.api import kinds, labels
from grove.api.core import Pod
from grove.cli import listing
from grove.cli.cluster import Failure
from grove.cli.manifests import pod_clique_set
from grove.cli.output import Cell, colours, paint, width, wrapped
from grove.insight.preview import Move, Preview, preview
from grove.insight.snapshot import Snapshot
from grove.runtime import requests
from grove.runtime.client import Client
from grove.runtime.objects import HasMetadata
from grove.runtime.resource import Resource

# What the operator makes besides what every snapshot has.
_FURTHER: tuple[Resource[Any], ...] = (
    kinds.SERVICES,
    kinds.AUTOSCALERS,
    kinds.SERVICE_ACCOUNTS,
    kinds.ROLES,
    kinds.ROLE_BINDINGS,
)
_MOVES_SHOWN = 6


async def ask(client: Client, chosen: str | None, default_namespace: str, name: str, file: Path) -> Preview:
    """The preview of applying a file. A dry run lets the server default and validate it first."""
    document = pod_clique_set(file, name)
    metadata = document.get("metadata") or {}
    namespace = chosen or metadata.get("namespace") or default_namespace
    found_name = str(metadata.get("name", ""))
    found = await listing.snapshot(client, listing.Scope(namespace, found_name, capacity=True))
    owner = found.find(namespace, found_name)
    if owner is None:
        raise Failure(
            f'PodCliqueSet "{found_name}" does not exist in namespace "{namespace}", so there is nothing to update',
            "`grove whatif -f FILE` tells whether it would fit",
        )
    operations = [{"op": "replace", "path": "/spec", "value": document.get("spec")}]
    wanted = await client.send(
        requests.json_patch(kinds.POD_CLIQUE_SETS, namespace, found_name, operations, dry_run=True)
    )
    return preview(found, owner, wanted, [*_known(found, found_name), *await _further(client, namespace, found_name)])


def _known(found: Snapshot, name: str) -> list[HasMetadata]:
    owner = next(s for s in found.sets if s.metadata.name == name)
    # The model holds pods as the operator sees them.
    pods = [msgspec.convert(msgspec.to_builtins(p), Pod) for p in found.of_set(found.pods, owner)]
    return [
        *found.of_set(found.cliques, owner),
        *found.of_set(found.groups, owner),
        *found.of_set(found.gangs, owner),
        *found.of_set(found.revisions, owner),
        *pods,
    ]


async def _further(client: Client, namespace: str, name: str) -> list[HasMetadata]:
    selector = labels.selector(labels.managed(name))
    lists = await asyncio.gather(
        *(client.list_all(resource, namespace=namespace, label_selector=selector) for resource in _FURTHER)
    )
    return [item for one in lists for item in one.items]


def lines(answer: Preview) -> list[str]:
    """The preview for a person."""
    colour, limit = colours(), width()

    def title(text: str) -> str:
        return paint(Cell(text, "strong"), colour)

    if answer.before == answer.after and not answer.steps:
        return [f"{answer.name}: nothing in the pods changes; no pod is restarted"]
    found = [title(f"{answer.name}: {answer.strategy}, revision {answer.before} → {answer.after}")]
    for change in answer.changes:
        found += wrapped(str(change), limit, "  ")
    found += ["", title("steps")]
    for step in answer.steps:
        found += _step_lines(step.number, step.moves, limit)
    found += ["", title("on the way")]
    for name in sorted(answer.lowest_available):
        found.append(
            f"  {name}: at least {answer.lowest_available[name]} available, at most {answer.highest_total[name]} exist"
        )
    found.append(f"  GPUs: {answer.gpus_now:g} now, {answer.gpus_peak:g} at most, {answer.extra_gpus:g} extra")
    restarts = ", ".join(f"{count} ({reason})" for reason, count in sorted(answer.restarts.items())) or "none"
    found.append(f"  pods taken down: {restarts}")
    found += ["", title("can block")]
    for blocker in answer.blockers or ("nothing seen",):
        found += wrapped(blocker, limit, "  ")
    found += ["", "The update would come to its end." if answer.completes else "The update would not come to its end."]
    return found


def _step_lines(number: int, moves: tuple[Move, ...], limit: int) -> list[str]:
    """One line per verb and kind; long lists of names are cut."""
    grouped: dict[tuple[str, str], list[Move]] = {}
    for move in moves:
        grouped.setdefault((move.verb, move.kind), []).append(move)
    found = []
    for i, ((verb, kind), some) in enumerate(grouped.items()):
        names = ", ".join(m.name for m in some[:_MOVES_SHOWN])
        more = f" and {len(some) - _MOVES_SHOWN} more" if len(some) > _MOVES_SHOWN else ""
        why = some[0].why.partition(":")[0]
        mark = f"{number:3}. " if i == 0 else "     "
        text = f"{verb} {kind} {names}{more} ({why})"
        cut = wrapped(text, limit, "     ")
        found += [mark + cut[0].strip(), *cut[1:]]
    return found
