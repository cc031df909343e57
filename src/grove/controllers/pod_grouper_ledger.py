"""What the pod-grouper remembers between two looks at a pod. All of it can be worked out again from the cluster."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable

from grove.api.core import Pod
from grove.podgrouper.marks import Marks
from grove.runtime.resource import namespaced_name


class Ledger:
    """Which pods stand under which owners, which pod describes a group, which pods wait for a name to be free."""

    def __init__(self) -> None:
        self._under: defaultdict[str, set[str]] = defaultdict(set)
        self._uids: dict[str, tuple[str, ...]] = {}
        self._describers: dict[str, tuple[str, str]] = {}  # group: when its describer was created, and its key
        self._described: dict[str, str] = {}
        self._waiting: defaultdict[str, set[str]] = defaultdict(set)
        self.placed: dict[str, Marks] = {}  # what was last written on a pod
        self._meant: defaultdict[str, set[str]] = defaultdict(set)

    def stands_under(self, key: str, uids: Iterable[str]) -> None:
        """Notes the owners of a pod, itself included."""
        now = tuple(uids)
        before = self._uids.get(key, ())
        if now == before:
            return
        for uid in before:
            self._leave(self._under, uid, key)
        for uid in now:
            self._under[uid].add(key)
        self._uids[key] = now

    def under(self, uid: str) -> Collection[str]:
        """The pods below an owner."""
        return tuple(self._under.get(uid, ()))

    def describes(self, group: str, pod: Pod) -> bool:
        """Whether this pod is the one that says what the group is: the oldest that came by so far."""
        key = namespaced_name(pod)
        mine = (pod.metadata.creation_timestamp or "", key)
        held = self._describers.get(group)
        if held is not None and held < mine:
            return False
        if held != mine:
            self._stop_describing(key)
            self._describers[group] = mine
            self._described[key] = group
        return True

    def describer(self, group: str) -> str | None:
        held = self._describers.get(group)
        return held[1] if held else None

    def yields(self, key: str) -> str | None:
        """The pod has no say any more; the group it described, if it did."""
        group = self._described.get(key)
        self._stop_describing(key)
        return group

    def means(self, key: str, group: str) -> None:
        """The pod is about to be placed in this group, which may be made for it and then not be needed."""
        self._meant[key].add(group)

    def passed_by(self, key: str, group: str | None) -> Collection[str]:
        """The groups the pod was meant for before it came to this one."""
        return tuple(self._meant.pop(key, set()) - {group})

    def wait(self, group: str, key: str) -> None:
        """The pod waits for the name of this group."""
        self._waiting[group].add(key)

    def released(self, group: str) -> Collection[str]:
        """The pods that waited for this name; they say again if they still do."""
        return self._waiting.pop(group, ())

    def forget(self, key: str) -> None:
        """The pod is gone."""
        self.stands_under(key, ())
        self._uids.pop(key, None)
        self.placed.pop(key, None)
        self._meant.pop(key, None)
        self._stop_describing(key)

    def _stop_describing(self, key: str) -> None:
        group = self._described.pop(key, None)
        if group is not None:
            self._describers.pop(group, None)

    @staticmethod
    def _leave(table: defaultdict[str, set[str]], name: str, key: str) -> None:
        table[name].discard(key)
        if not table[name]:
            del table[name]
