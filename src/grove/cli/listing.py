"""Reads the objects of a question from the cluster, all kinds at once, into a Snapshot.

What the cluster does not serve and what this person may not read stays empty and is named in the snapshot: half an
answer that says so is better than none. Only the PodCliqueSets themselves must be readable.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, TypeVar

from grove.api import kinds, labels
from grove.cli.cluster import Failure
from grove.insight import kinds as seen
from grove.insight.snapshot import Snapshot
from grove.runtime.client import Client
from grove.runtime.errors import Forbidden, NotFound
from grove.runtime.resource import Resource

T = TypeVar("T")

NOT_INSTALLED = Failure("this cluster does not serve PodCliqueSets", "`grove crds install` adds Grove's kinds")

# Field of the snapshot → the kind that fills it.
WORKLOAD: dict[str, Resource[Any]] = {
    "sets": kinds.POD_CLIQUE_SETS,
    "cliques": kinds.POD_CLIQUES,
    "groups": kinds.SCALING_GROUPS,
    "gangs": kinds.POD_GANGS,
    "pods": seen.PODS,
    "revisions": kinds.CONTROLLER_REVISIONS,
    "nodes": kinds.NODES,
    "topologies": kinds.CLUSTER_TOPOLOGIES,
}
CIRCUMSTANCES: dict[str, Resource[Any]] = {
    "events": seen.EVENTS,
    "pod_groups": seen.POD_GROUPS,
    "queues": seen.QUEUES,
    "quotas": seen.QUOTAS,
    "claims": seen.CLAIMS,
}


@dataclass(frozen=True, slots=True)
class Scope:
    """What to read: one namespace or all, one set or all, and whether capacity and circumstances matter.

    `capacity` reads the pods of everybody, since they take room too.
    """

    namespace: str | None
    name: str = ""
    capacity: bool = False
    circumstances: bool = False

    def resources(self) -> dict[str, Resource[Any]]:
        return {**WORKLOAD, **(CIRCUMSTANCES if self.circumstances else {})}

    def selection(self, field: str, resource: Resource[Any], *, own: bool = False) -> dict[str, Any]:
        """Which objects of a kind; `own` leaves out what is read only for the room it takes."""
        if not resource.namespaced:
            return {}
        everywhere = field == "pods" and self.capacity and not own
        found: dict[str, Any] = {"namespace": None if everywhere else self.namespace}
        if field == "sets" and self.name:
            found["field_selector"] = f"metadata.name={self.name}"
        elif field in WORKLOAD and field != "sets" and not everywhere:
            mine = {labels.PART_OF: self.name} if self.name else {}
            found["label_selector"] = labels.selector({labels.MANAGED_BY: labels.MANAGER, **mine})
        return found


async def snapshot(client: Client, scope: Scope) -> Snapshot:
    """Reads everything the scope names."""
    resources = scope.resources()
    unread: dict[str, str] = {}
    found = await asyncio.gather(*(_listed(client, scope, field, r, unread) for field, r in resources.items()))
    content: dict[str, Any] = dict(zip(resources, found, strict=True))
    return Snapshot(now=datetime.now(UTC), unread=unread, **content)


async def _listed(
    client: Client, scope: Scope, field: str, resource: Resource[T], unread: dict[str, str]
) -> tuple[T, ...]:
    selection = scope.selection(field, resource)
    try:
        return tuple((await client.list_all(resource, **selection)).items)
    except NotFound:
        if field == "sets":
            raise NOT_INSTALLED from None
        unread[resource.kind] = "is not served by this cluster"
    except Forbidden as refusal:
        if field == "sets":
            raise
        unread[resource.kind] = refusal.message
        if field == "pods" and scope.capacity:
            unread[resource.kind] = "of other namespaces may not be read, so the room they take is not counted"
            return tuple((await client.list_all(resource, **scope.selection(field, resource, own=True))).items)
    return ()
