"""Would these pods fit, where, and if not, what is missing where they come closest.

The search goes as a gang scheduler's does: top down through the parts, tightest domain first, all of a part or nothing
of it. It places greedily and does not try every combination: a yes is a real placement, a no is nearly always right.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from grove.insight import resources
from grove.insight.capacity import Room, refusal
from grove.insight.demand import Part


@dataclass(frozen=True, slots=True)
class Shortage:
    """Why a part does not fit where it comes closest. `domain` is empty for the whole cluster."""

    part: str
    domain: str
    key: str | None
    wanted: int
    placed: int
    missing: Mapping[str, float]
    refused: Mapping[str, int]

    @property
    def pods(self) -> int:
        return self.wanted - self.placed


@dataclass(frozen=True, slots=True)
class Fit:
    """The outcome: where every pod would go, or what is short."""

    nodes: Mapping[str, Mapping[str, int]] = field(default_factory=dict)
    shortage: Shortage | None = None

    @property
    def fits(self) -> bool:
        return self.shortage is None

    def used(self) -> list[str]:
        return sorted({node for counts in self.nodes.values() for node in counts})


class Ledger:
    """What is free, with everything taken so far taken away; can go back to a mark."""

    def __init__(self, rooms: Iterable[Room]) -> None:
        self.rooms = {room.name: room for room in rooms}
        self.free = {name: dict(room.free) for name, room in self.rooms.items()}
        self._taken: list[tuple[str, str, Mapping[str, float]]] = []

    def take(self, part: str, node: str, wanted: Mapping[str, float]) -> None:
        self.free[node] = resources.plus(self.free[node], wanted, -1.0)
        self._taken.append((part, node, wanted))

    def mark(self) -> int:
        return len(self._taken)

    def back_to(self, mark: int) -> None:
        while len(self._taken) > mark:
            _, node, wanted = self._taken.pop()
            self.free[node] = resources.plus(self.free[node], wanted)

    def since(self, mark: int) -> dict[str, dict[str, int]]:
        found: dict[str, dict[str, int]] = {}
        for part, node, _ in self._taken[mark:]:
            counts = found.setdefault(part, {})
            counts[node] = counts.get(node, 0) + 1
        return found


def place(part: Part, ledger: Ledger) -> Fit:
    """Places the part and keeps it in the ledger, or leaves the ledger as it was."""
    mark = ledger.mark()
    shortage = _fill(part, ledger, sorted(ledger.rooms))
    if shortage:
        ledger.back_to(mark)
        return Fit(shortage=shortage)
    return Fit(nodes=ledger.since(mark))


def _fill(part: Part, ledger: Ledger, nodes: Sequence[str]) -> Shortage | None:
    """Fills one part into one of its domains among these nodes; otherwise as much of it as its closest domain takes."""
    if part.pods == 0:
        return None
    closest: tuple[Shortage, str, list[str]] | None = None
    for value, members in _domains(part, ledger, nodes):
        mark = ledger.mark()
        shortage = _fill_domain(part, ledger, members, value)
        if shortage is None:
            return None
        ledger.back_to(mark)
        if closest is None or shortage.placed > closest[0].placed:
            closest = shortage, value, members
    if closest is None:
        return Shortage(part.name, "", part.key, part.pods, 0, part.amounts, {"without the label": len(nodes)})
    # What does fit stays taken, so that the parts beside this one are not promised the same room.
    return _fill_domain(part, ledger, closest[2], closest[1])


def _fill_domain(part: Part, ledger: Ledger, nodes: Sequence[str], value: str) -> Shortage | None:
    if not part.parts:
        return _fill_leaf(part, ledger, nodes, value)
    placed = 0
    failed: list[Shortage] = []
    # The largest first: what is small finds room between what is large.
    for child in sorted(part.parts, key=lambda p: -resources.gpus(p.amounts)):
        shortage = _fill(child, ledger, nodes)
        placed += shortage.placed if shortage else child.pods
        failed += [shortage] if shortage else []
    if not failed:
        return None
    first = failed[0]
    domain, key = (first.domain, first.key) if first.domain else (value, part.key)
    missing = resources.total(shortage.missing for shortage in failed)
    refused = max((shortage.refused for shortage in failed), key=lambda found: sum(found.values()))
    return Shortage(first.part, domain, key, part.pods, placed, missing, refused)


def _fill_leaf(part: Part, ledger: Ledger, nodes: Sequence[str], value: str) -> Shortage | None:
    refused: Counter[str] = Counter()
    open_nodes = []
    for node in nodes:
        why = refusal(ledger.rooms[node], part.pod_spec)
        if why:
            refused[why] += 1
        else:
            open_nodes.append(node)
    left = part.count
    for node in sorted(open_nodes, key=lambda n: (resources.gpus(ledger.free[n]), n)):
        while left and resources.fits(part.requests, ledger.free[node]):
            ledger.take(part.name, node, part.requests)
            left -= 1
    if not left:
        return None
    missing = _missing(part, left, [ledger.free[n] for n in open_nodes])
    return Shortage(part.name, value, part.key, part.count, part.count - left, missing, dict(refused))


def _missing(part: Part, left: int, free: Sequence[Mapping[str, float]]) -> dict[str, float]:
    """What the pods left over lack: the resources that most nodes are short of, in the amount these pods need."""
    short: Counter[str] = Counter()
    for node in free:
        short.update(resources.lacking(part.requests, node).keys())
    names = [name for name, count in short.items() if count == max(short.values())]
    if not names:
        names = [n for n in part.requests if n in resources.GPU_NAMES] or list(part.requests)
    return {name: part.requests[name] * left for name in names}


def _domains(part: Part, ledger: Ledger, nodes: Sequence[str]) -> list[tuple[str, list[str]]]:
    """The domains to try, tightest first; only the one that pods of this part are in already, if any are."""
    if part.key is None:
        return [("", list(nodes))]
    found: dict[str, list[str]] = {}
    for node in nodes:
        value = ledger.rooms[node].labels.get(part.key)
        if value:
            found.setdefault(value, []).append(node)
    if part.pinned:
        found = {v: m for v, m in found.items() if part.pinned & set(m)}

    def room(item: tuple[str, list[str]]) -> tuple[float, float]:
        free = resources.total(ledger.free[n] for n in item[1] if not ledger.rooms[n].closed)
        return resources.gpus(free), free.get(resources.CPU, 0.0)

    return sorted(found.items(), key=lambda item: (room(item), item[0]))
