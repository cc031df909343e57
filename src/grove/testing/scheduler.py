"""Two schedulers: one pod at a time for `default-scheduler`, whole gangs by KAI PodGroup for `kai-scheduler`.

A pod or gang is tried when it changes and again whenever room appears. A gang starts only if every leaf of its group
reaches its minimum at once; pods beyond the minimum are placed as far as there is room.
"""

from __future__ import annotations

from grove.testing.capacity import NODES, PODS, Capacity, is_over
from grove.testing.hands import Hands, Span
from grove.testing.objects import JsonObject, Key, is_deleting, labels_of, metadata, name_of, namespace_of
from grove.testing.placement import Domains, Gang, anywhere, first_fit, place_all
from grove.testing.pods import with_condition
from grove.testing.storage import Change, Stored, Table

POD_GROUPS = ("scheduling.run.ai", "podgroups")
GROUP_ANNOTATION = "pod-group-name"
SUBGROUP_LABEL = "kai.scheduler/subgroup-name"
_WHOLE_GROUP = "default"


class Scheduler:
    """Set `domains` to a function that knows topology, `paused` to hold everything back."""

    def __init__(self, hands: Hands, capacity: Capacity, delay: Span, gang_scheduler: str) -> None:
        self.domains: Domains = anywhere
        self.delay = delay
        self._hands = hands
        self._capacity = capacity
        self._gang_scheduler = gang_scheduler
        self._paused = False
        self._members: dict[Key, set[Key]] = {}
        self._due: set[tuple[str, Key]] = set()
        self._unplaced: dict[tuple[str, Key], None] = {}
        hands.state.storage.listeners.append(self._on_change)
        for stored in hands.pods.sorted():
            self._note_member(Change("ADDED", stored, None))
            self._consider(stored.obj)

    @property
    def paused(self) -> bool:
        return self._paused

    @paused.setter
    def paused(self, value: bool) -> None:
        self._paused = value
        if not value:
            self._retry_unplaced()

    def _on_change(self, table: Table, change: Change) -> None:
        obj = change.stored.obj
        if table.group_resource == PODS:
            self._note_member(change)
            if change.kind == "DELETED" or is_over(obj):
                self._retry_unplaced()
            else:
                self._consider(obj)
        elif table.group_resource == NODES:
            if change.kind != "DELETED":
                self._retry_unplaced()
        elif table.group_resource == POD_GROUPS and change.kind != "DELETED":
            self._try_later(("gang", (namespace_of(obj), name_of(obj))))

    def _note_member(self, change: Change) -> None:
        """Keeps the pods of each group findable."""
        key = change.stored.key
        for pod, present in ((change.previous, False), (change.stored, change.kind != "DELETED")):
            group = _group_name(pod.obj) if pod is not None else ""
            if group and present:
                self._members.setdefault((key[0], group), set()).add(key)
            elif group:
                self._members.get((key[0], group), set()).discard(key)

    def _consider(self, pod: JsonObject) -> None:
        if not _is_waiting(pod):
            return
        scheduler = pod["spec"].get("schedulerName")
        if scheduler == "default-scheduler":
            self._try_later(("pod", (namespace_of(pod), name_of(pod))))
        elif scheduler == self._gang_scheduler and _group_name(pod):
            self._try_later(("gang", (namespace_of(pod), _group_name(pod))))

    def _retry_unplaced(self) -> None:
        for entry in list(self._unplaced):
            del self._unplaced[entry]
            self._try_later(entry)

    def _try_later(self, entry: tuple[str, Key]) -> None:
        if entry not in self._due:
            self._due.add(entry)
            self._hands.later(self.delay, lambda: self._try(entry))

    def _try(self, entry: tuple[str, Key]) -> None:
        self._due.discard(entry)
        if self._paused:
            self._unplaced[entry] = None
            return
        kind, key = entry
        done = self._try_pod(key) if kind == "pod" else self._try_gang(key)
        if not done:
            self._unplaced[entry] = None

    def _try_pod(self, key: Key) -> bool:
        stored = self._hands.pod(key)
        if stored is None or not _is_waiting(stored.obj):
            return True
        node = first_fit(stored.obj, self._capacity)
        if node is None:
            self._report_unplaced(stored)
            return False
        self._hands.bind(stored, node.name)
        return True

    def _report_unplaced(self, stored: Stored) -> None:
        condition = {
            "type": "PodScheduled",
            "status": "False",
            "reason": "Unschedulable",
            "message": "no node has room for the pod",
        }
        new = with_condition(stored.obj, condition, self._hands.now())
        self._hands.write(self._hands.pods, stored, new, "kube-scheduler")

    def _try_gang(self, key: Key) -> bool:
        """True when nothing of the gang is left waiting for room."""
        gang = self._gang(key)
        if gang is None or not any(gang.waiting.values()) or not _is_complete(gang):
            return True
        needed, beyond = _needed_first(gang)
        nodes = self._capacity.copies(node.name for node in self._capacity)
        for domain in self.domains(gang, nodes):
            trial = self._capacity.copies(node.name for node in domain)
            placed = place_all(needed, trial)
            if placed is not None:
                break
        else:
            return False
        left = 0
        for pod in beyond:
            one = place_all([pod], trial)
            left += one is None
            placed += one or []
        for pod, node in placed:
            self._hands.bind(self._hands.pods.objects[namespace_of(pod), name_of(pod)], node)
        return left == 0

    def _gang(self, key: Key) -> Gang | None:
        stored = self._hands.state.storage.table(POD_GROUPS).objects.get(key)
        if stored is None:
            return None
        minimum = _minimum_by_leaf(stored.obj)
        gang = Gang(stored.obj, minimum, {leaf: [] for leaf in minimum}, {leaf: [] for leaf in minimum})
        for pod_key in sorted(self._members.get(key, ())):
            pod = self._hands.pods.objects[pod_key].obj
            if is_over(pod) or is_deleting(pod):
                continue
            leaf = labels_of(pod).get(SUBGROUP_LABEL, _WHOLE_GROUP)
            if pod["spec"].get("nodeName"):
                gang.placed.setdefault(leaf, []).append(pod)
            elif leaf in minimum and not pod["spec"].get("schedulingGates"):
                gang.waiting[leaf].append(pod)
        return gang


def _is_waiting(pod: JsonObject) -> bool:
    spec = pod["spec"]
    return not (spec.get("nodeName") or spec.get("schedulingGates") or is_deleting(pod) or is_over(pod))


def _group_name(pod: JsonObject) -> str:
    return str((metadata(pod).get("annotations") or {}).get(GROUP_ANNOTATION, ""))


def _minimum_by_leaf(group: JsonObject) -> dict[str, int]:
    """Minimum members of each subgroup without children; a group without subgroups is one leaf."""
    spec = group.get("spec") or {}
    subgroups = spec.get("subGroups") or ()
    if not subgroups:
        return {_WHOLE_GROUP: spec.get("minMember", 1)}
    parents = {subgroup.get("parent") for subgroup in subgroups}
    return {s["name"]: s.get("minMember", 0) for s in subgroups if s["name"] not in parents}


def _is_complete(gang: Gang) -> bool:
    return all(len(gang.placed[leaf]) + len(gang.waiting[leaf]) >= minimum for leaf, minimum in gang.minimum.items())


def _needed_first(gang: Gang) -> tuple[list[JsonObject], list[JsonObject]]:
    """The waiting pods that bring every leaf to its minimum, and those beyond it."""
    needed, beyond = [], []
    for leaf, pods in gang.waiting.items():
        missing = max(gang.minimum[leaf] - len(gang.placed[leaf]), 0)
        needed += pods[:missing]
        beyond += pods[missing:]
    return needed, beyond
