"""From caches to worlds: what exists of a replica or a set right now, gathered without waiting in between."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any, TypeVar

from grove.api import labels, names
from grove.api.core import ControllerRevision, Pod
from grove.api.kinds import (
    AUTOSCALERS,
    CONTROLLER_REVISIONS,
    POD_CLIQUE_SETS,
    POD_CLIQUES,
    POD_GANGS,
    PODS,
    ROLE_BINDINGS,
    ROLES,
    SCALING_GROUPS,
    SERVICE_ACCOUNTS,
    SERVICES,
)
from grove.api.meta import LastError
from grove.api.pod_clique_set import PodCliqueSet
from grove.controllers.keys import Key
from grove.controllers.stores import BY_REPLICA, BY_SET, Stores, replica_key, set_key
from grove.plan import revision as revisions
from grove.plan.revision import Revision
from grove.plan.settings import Settings
from grove.plan.worlds import ReplicaSummary, ReplicaWorld, SetWorld
from grove.runtime.objects import HasMetadata
from grove.runtime.resource import Resource
from grove.schedulers.kube_workload import WORKLOADS

T = TypeVar("T", bound=HasMetadata)

REPLICA_RESOURCES: tuple[Resource[Any], ...] = (PODS, POD_CLIQUES, SCALING_GROUPS, POD_GANGS, SERVICES, AUTOSCALERS)
SET_RESOURCES: tuple[Resource[Any], ...] = (CONTROLLER_REVISIONS, SERVICE_ACCOUNTS, ROLES, ROLE_BINDINGS)
# Kinds of other programs are kept only where they are ours.
_MANAGED_ONLY = frozenset({PODS, SERVICES, AUTOSCALERS, *SET_RESOURCES})


def add_stores(stores: Stores, *, kube_gangs: bool = False) -> None:
    """The caches the workload controller reads."""
    if kube_gangs:
        stores.add(WORKLOADS, managed_only=True, indexed=True)
    stores.add(POD_CLIQUE_SETS)
    for resource in (*REPLICA_RESOURCES, *SET_RESOURCES):
        stores.add(resource, managed_only=resource in _MANAGED_ONLY, indexed=True)


class Observer:
    """Builds worlds from the caches. Costly derived values are kept per version of what they derive from."""

    def __init__(self, stores: Stores, settings: Settings) -> None:
        self._stores = stores
        self.settings = settings
        self._histories: dict[str, tuple[Any, list[Revision] | None]] = {}

    def owner(self, key: Key) -> PodCliqueSet | None:
        return self._stores[POD_CLIQUE_SETS].get(set_key(key.namespace, key.name))

    def replica(
        self, key: Key, owner: PodCliqueSet, errors: tuple[LastError, ...], unwritten: Mapping[Any, Any]
    ) -> ReplicaWorld | None:
        """The world of one replica; None while the template is not on record yet."""
        history = self.history(owner)
        if history is None or key.index is None:
            return None
        found = replica_key(key.namespace, key.name, key.index)
        services = self._named(SERVICES, found)
        cliques = self._named(POD_CLIQUES, found)
        groups = self._named(SCALING_GROUPS, found)
        gangs = self._named(POD_GANGS, found)
        kinds: tuple[tuple[str, Mapping[str, HasMetadata]], ...] = (
            ("PodClique", cliques),
            ("PodCliqueScalingGroup", groups),
            ("PodGang", gangs),
        )
        pending = {
            (kind, name): unwritten[item.metadata.uid]
            for kind, seen in kinds
            for name, item in seen.items()
            if item.metadata.uid in unwritten
        }
        return ReplicaWorld(
            owner=owner,
            index=key.index,
            history=history,
            settings=self.settings,
            cliques=cliques,
            groups=groups,
            gangs=gangs,
            pods=self._pods(found),
            service=services.get(names.replica(key.name, key.index)),
            autoscalers=self._named(AUTOSCALERS, found),
            workloads=self._named(WORKLOADS, found) if self.settings.kube_gangs else {},
            errors=errors,
            neighbours=None if cliques else self._neighbours(owner, key.index),
            unwritten=pending,
        )

    def _neighbours(self, owner: PodCliqueSet, index: int) -> str | None:
        """The revision most cliques below the partition carry, for a replica that is to be made there."""
        partition = owner.spec.strategy.partition
        if partition is None or index >= partition:
            return None
        found: Counter[str] = Counter()
        for clique in self._stores[POD_CLIQUES].by_index(
            BY_SET, set_key(owner.metadata.namespace, owner.metadata.name)
        ):
            place = clique.metadata.labels.get(labels.REPLICA_INDEX, "")
            revision = clique.metadata.labels.get(labels.GENERATION_HASH)
            if revision and place.isdigit() and int(place) < partition:
                found[revision] += 1
        return found.most_common(1)[0][0] if found else None

    def whole(
        self, owner: PodCliqueSet, replicas: Mapping[int, ReplicaSummary] | None, errors: tuple[LastError, ...]
    ) -> SetWorld:
        meta = owner.metadata
        history = self.history(owner)
        account = names.service_account(meta.name)
        role = names.role(meta.name)
        return SetWorld(
            owner=owner,
            settings=self.settings,
            revisions=self._revisions(owner),
            latest=history[-1] if history else None,
            replicas=replicas,
            service_account=self._stores[SERVICE_ACCOUNTS].get(f"{meta.namespace}/{account}"),
            role=self._stores[ROLES].get(f"{meta.namespace}/{role}"),
            role_binding=self._stores[ROLE_BINDINGS].get(f"{meta.namespace}/{role}"),
            errors=errors,
        )

    def replica_indices(self, key: Key) -> set[int]:
        """The replicas of which anything exists."""
        found = set()
        resources: tuple[Resource[Any], ...] = (POD_CLIQUES, POD_GANGS, SERVICES)
        for resource in resources:
            for item in self._stores[resource].by_index(BY_SET, set_key(key.namespace, key.name)):
                text = item.metadata.labels.get(labels.REPLICA_INDEX, "")
                if text.isdigit():
                    found.add(int(text))
        return found

    def leftovers(self, key: Key) -> list[Any]:
        """Everything that exists of one replica, whoever it belonged to."""
        if key.index is None:
            return []
        found = replica_key(key.namespace, key.name, key.index)
        return [item for resource in REPLICA_RESOURCES for item in self._stores[resource].by_index(BY_REPLICA, found)]

    def has_pods(self, key: Key) -> bool:
        """Whether any pod of the set, in whichever replica, still exists under an owner."""
        found = self._stores[PODS].by_index(BY_SET, set_key(key.namespace, key.name))
        return any(pod.metadata.controller is not None for pod in found)

    def history(self, owner: PodCliqueSet) -> list[Revision] | None:
        """Kept revisions, the latest last; None while the latest is not on record."""
        records = self._revisions(owner)
        meta = owner.metadata
        version = (meta.uid, meta.generation, tuple((r.metadata.name, r.metadata.resource_version) for r in records))
        key = set_key(meta.namespace, meta.name)
        kept = self._histories.get(key)
        if kept is None or kept[0] != version:
            kept = self._histories[key] = (version, _history(owner, records))
        return kept[1]

    def forget(self, key: Key) -> None:
        self._histories.pop(set_key(key.namespace, key.name), None)

    def _revisions(self, owner: PodCliqueSet) -> list[ControllerRevision]:
        meta = owner.metadata
        found = self._stores[CONTROLLER_REVISIONS].by_index(BY_SET, set_key(meta.namespace, meta.name))
        mine = [r for r in found if r.metadata.controller and r.metadata.controller.uid == meta.uid]
        return sorted(mine, key=lambda r: (r.revision, r.metadata.name))

    def _named(self, resource: Resource[T], key: str) -> dict[str, T]:
        return {item.metadata.name: item for item in self._stores[resource].by_index(BY_REPLICA, key)}

    def _pods(self, key: str) -> dict[str, list[Pod]]:
        found: dict[str, list[Pod]] = {}
        for pod in self._stores[PODS].by_index(BY_REPLICA, key):
            found.setdefault(pod.metadata.labels.get(labels.POD_CLIQUE, ""), []).append(pod)
        return found


def _history(owner: PodCliqueSet, records: Sequence[ControllerRevision]) -> list[Revision] | None:
    kept = [revisions.stored(record) for record in records]
    latest = revisions.recognised(revisions.of_template(owner.spec.template), kept)
    if latest not in kept:
        return None
    return [*(revision for revision in kept if revision != latest), latest]
