"""How much room the nodes have: quantities, requests of pods, and a running account per node."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from functools import lru_cache

from grove.testing.objects import JsonObject, dig, labels_of, name_of, uid_of
from grove.testing.storage import Change, Storage, Table

Amounts = dict[str, int]
"""Resource name to thousandths of its unit."""

NODES = ("", "nodes")
PODS = ("", "pods")
_FACTORS = {
    "m": Fraction(1, 1000),
    **{suffix: Fraction(1000**power) for power, suffix in enumerate(("", "k", "M", "G", "T", "P", "E"))},
    **{suffix: Fraction(1024**power) for power, suffix in enumerate(("Ki", "Mi", "Gi", "Ti", "Pi"), start=1)},
}


@lru_cache(maxsize=4096)
def quantity(text: str) -> int:
    """A Kubernetes quantity in thousandths, rounded up."""
    number = text.rstrip("kKMGTPEim")
    amount = Fraction(number) * _FACTORS[text[len(number) :]] * 1000
    return -int(-amount // 1)


def amounts_of(resources: Mapping[str, str | int] | None) -> Amounts:
    return {name: quantity(str(value)) for name, value in (resources or {}).items()}


def requests_of(pod: JsonObject) -> Amounts:
    """What a pod asks for, its place among the node's pods included. Sidecars and overhead are not counted."""
    total: Amounts = {"pods": 1000}
    for container in pod["spec"].get("containers") or ():
        needs = container.get("resources") or {}
        wanted = {**amounts_of(needs.get("limits")), **amounts_of(needs.get("requests"))}
        for name, amount in wanted.items():
            total[name] = total.get(name, 0) + amount
    return total


@dataclass
class NodeAccount:
    """A node with what is free on it."""

    name: str
    labels: Mapping[str, str]
    free: Amounts
    open: bool
    """False while the node is cordoned or not ready."""
    held: dict[str, Amounts] = field(default_factory=dict)

    def fits(self, wanted: Amounts) -> bool:
        return all(self.free.get(name, 0) >= amount for name, amount in wanted.items())

    def take(self, wanted: Amounts, sign: int = 1) -> None:
        for name, amount in wanted.items():
            self.free[name] = self.free.get(name, 0) - sign * amount


def is_over(pod: JsonObject) -> bool:
    return dig(pod, "status", "phase") in ("Succeeded", "Failed")


class Capacity:
    """Follows nodes and pods in storage and keeps the accounts."""

    def __init__(self, storage: Storage) -> None:
        self._nodes: dict[str, NodeAccount] = {}
        self._held: dict[str, dict[str, Amounts]] = {}
        for stored in storage.table(NODES).sorted():
            self._open_account(stored.obj)
        for stored in storage.table(PODS).sorted():
            self._hold(stored.obj)
        storage.listeners.append(self._on_change)

    def __iter__(self) -> Iterator[NodeAccount]:
        return iter(self._nodes.values())

    def node(self, name: str) -> NodeAccount | None:
        return self._nodes.get(name)

    def copies(self, names: Iterable[str]) -> list[NodeAccount]:
        """Accounts to try a placement on."""
        return [
            NodeAccount(node.name, node.labels, dict(node.free), node.open)
            for node in map(self._nodes.__getitem__, names)
        ]

    def _on_change(self, table: Table, change: Change) -> None:
        obj = change.stored.obj
        if table.group_resource == NODES:
            if change.kind == "DELETED":
                self._nodes.pop(name_of(obj), None)
            else:
                self._open_account(obj)
        elif table.group_resource == PODS:
            if change.kind == "DELETED" or is_over(obj):
                self._release(obj)
            else:
                self._hold(obj)

    def _open_account(self, node: JsonObject) -> None:
        name = name_of(node)
        status = node.get("status") or {}
        ready = any(c["type"] == "Ready" and c["status"] == "True" for c in status.get("conditions") or ())
        is_open = ready and not dig(node, "spec", "unschedulable")
        account = NodeAccount(name, labels_of(node), amounts_of(status.get("allocatable")), is_open)
        for held in self._held.setdefault(name, {}).values():
            account.take(held)
        self._nodes[name] = account

    def _hold(self, pod: JsonObject) -> None:
        name = pod["spec"].get("nodeName")
        if not name:
            return
        held = self._held.setdefault(name, {})
        if uid_of(pod) in held:
            return
        wanted = held[uid_of(pod)] = requests_of(pod)
        if name in self._nodes:
            self._nodes[name].take(wanted)

    def _release(self, pod: JsonObject) -> None:
        name = pod["spec"].get("nodeName")
        wanted = self._held.get(name, {}).pop(uid_of(pod), None) if name else None
        if wanted is not None and name in self._nodes:
            self._nodes[name].take(wanted, -1)
