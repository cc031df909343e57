"""Which keys a change wakes: exactly those that would decide differently. Our own status writes wake nobody."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace

from grove.api import labels
from grove.api.core import ControllerRevision, Pod
from grove.api.kinds import CONTROLLER_REVISIONS, POD_CLIQUE_SETS, PODS
from grove.api.pod_clique_set import PodCliqueSet
from grove.controllers.keys import Key
from grove.controllers.observe import REPLICA_RESOURCES, SET_RESOURCES, Observer
from grove.controllers.stores import Stores
from grove.plan.turn import selected_replicas, turns_told
from grove.plan.views import PodView, pod_view
from grove.runtime.objects import HasMetadata
from grove.schedulers.kube_workload import WORKLOADS

Wake = Callable[[Key], None]


class Wakeups:
    """Subscribes to the caches and wakes keys."""

    def __init__(self, stores: Stores, observer: Observer, wake: Wake, wake_soon: Wake) -> None:
        self._observer = observer
        self._wake = wake
        self._wake_soon = wake_soon
        stores[POD_CLIQUE_SETS].subscribe(self._set_changed)
        for resource in REPLICA_RESOURCES:
            stores[resource].subscribe(self._pod_changed if resource == PODS else self._child_changed)
        if WORKLOADS in stores:
            stores[WORKLOADS].subscribe(self._child_changed)
        for resource in SET_RESOURCES:
            changed = self._revision_changed if resource == CONTROLLER_REVISIONS else self._shared_changed
            stores[resource].subscribe(changed)

    def _set_changed(self, old: PodCliqueSet | None, new: PodCliqueSet | None) -> None:
        item = new or old
        assert item is not None
        key = Key(item.metadata.namespace, item.metadata.name)
        if old is None or new is None or _asks_differently(old, new):
            self._wake(key)
            self._wake_replicas(key, max(o.spec.replicas for o in (old, new) if o))
        else:
            for index in turns_told(old, new):
                self._wake(key.replica(index))

    def _wake_replicas(self, key: Key, replicas: int) -> None:
        """All replicas, unless the template is not on record yet: its record wakes them."""
        owner = self._observer.owner(key)
        if owner is not None and self._observer.history(owner) is None:
            return
        selected = selected_replicas(owner) if owner else frozenset()
        for index in {*range(replicas), *selected, *self._observer.replica_indices(key)}:
            self._wake(key.replica(index))

    def _pod_changed(self, old: Pod | None, new: Pod | None) -> None:
        if old and new and old.metadata.labels == new.metadata.labels:
            before, after = _view(old), _view(new)
            if before == after:
                return
            if after == replace(before, ready=after.ready, scheduled=after.scheduled):
                # Pods of a gang become ready together: one look shortly after the first tells of them all.
                for key in _replica_of(new):
                    self._wake_soon(key)
                return
        self._wake_owners(old, new)
        if new is None and old is not None:
            self._pod_gone(old)

    def _pod_gone(self, pod: Pod) -> None:
        """The last pod of a set that is gone: the rest of every replica can go now."""
        owner = pod.metadata.labels.get(labels.PART_OF)
        key = Key(pod.metadata.namespace, owner) if owner else None
        if key and self._observer.owner(key) is None and not self._observer.has_pods(key):
            for index in self._observer.replica_indices(key):
                self._wake(key.replica(index))

    def _child_changed(self, old: HasMetadata | None, new: HasMetadata | None) -> None:
        if old and new and _same_wishes(old, new):
            return
        self._wake_owners(old, new)

    def _wake_owners(self, *items: HasMetadata | None) -> None:
        for key in {key for item in items if item for key in _replica_of(item)}:
            self._wake(key)

    def _shared_changed(self, old: HasMetadata | None, new: HasMetadata | None) -> None:
        for item in (old, new):
            owner = item.metadata.labels.get(labels.PART_OF) if item else None
            if item and owner:
                self._wake(Key(item.metadata.namespace, owner))

    def _revision_changed(self, old: ControllerRevision | None, new: ControllerRevision | None) -> None:
        self._shared_changed(old, new)
        owner = new.metadata.labels.get(labels.PART_OF) if new else None
        if new is not None and owner:
            key = Key(new.metadata.namespace, owner)
            standing = self._observer.owner(key)
            if standing:
                self._wake_replicas(key, standing.spec.replicas)


def _asks_differently(old: PodCliqueSet, new: PodCliqueSet) -> bool:
    before, after = old.metadata, new.metadata
    return (
        before.generation != after.generation
        or before.uid != after.uid
        or before.labels != after.labels
        or before.annotations != after.annotations
        or before.terminating != after.terminating
    )


def _same_wishes(old: HasMetadata, new: HasMetadata) -> bool:
    """Whether only the status (or nothing we look at) differs. Kinds without a generation always count as changed."""
    before, after = old.metadata, new.metadata
    return (
        before.generation == after.generation != 0
        and before.labels == after.labels
        and before.annotations == after.annotations
        and before.owner_references == after.owner_references
        and before.terminating == after.terminating
    )


def _view(pod: Pod) -> PodView:
    owner = pod.metadata.controller
    return pod_view(pod, owner.uid if owner else "")


def _replica_of(item: HasMetadata) -> Iterable[Key]:
    found = item.metadata.labels
    owner, index = found.get(labels.PART_OF), found.get(labels.REPLICA_INDEX, "")
    if owner and index.isdigit():
        yield Key(item.metadata.namespace, owner, int(index))
