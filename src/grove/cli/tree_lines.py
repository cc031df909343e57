"""The tree of a PodCliqueSet as rows of a table: what it is at the left, how it is in columns."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import datetime

from grove.cli.output import Cell, Column, Row, table
from grove.insight.progress import Phase
from grove.insight.tree import CliqueView, GroupReplicaView, GroupView, PodView, ReplicaView, SetView, age

COLUMNS = (
    Column("NAME"),
    Column("READY", 0),
    Column("STATUS", 0),
    Column("WHERE", 1),
    Column("UPDATED", 3),
    Column("GANG", 6),
    Column("REVISION", 5),
    Column("RESTARTS", 4),
    Column("AGE", 3),
)
DEPTHS = ("set", "replica", "clique", "pod")
_GOOD = frozenset({"Running", "Available", "Ready", "Succeeded"})
_BAD = frozenset({"CrashLoopBackOff", "Failed", "Error", "Stalled", "ErrImagePull", "ImagePullBackOff", "Unavailable"})


def lines(
    sets: Sequence[SetView], now: datetime | None, *, limit: int | None, colour: bool, depth: str = "pod"
) -> list[str]:
    """The trees, one below the other, in columns that they share; without a time there are no ages."""
    rows: list[Row] = []
    several = len({s.namespace for s in sets}) > 1
    for found in sets:
        rows.extend(_Rows(now, DEPTHS.index(depth)).of_set(found, several))
    return table(COLUMNS, rows, limit=limit, colour=colour)


class _Rows:
    def __init__(self, now: datetime | None, depth: int) -> None:
        self._now = now
        self._depth = depth

    def of_set(self, found: SetView, with_namespace: bool) -> Iterator[Row]:
        title = f"{found.namespace}/{found.name}" if with_namespace else found.name
        yield self._row(
            title,
            f"{found.available}/{found.replicas}",
            set_state(found),
            updated=_share(found.progress.updated_pods, found.progress.total_pods),
            revision=found.revision,
            created=found.created,
            strong=True,
        )
        if self._depth >= 1:
            members = list(found.members)
            for i, replica in enumerate(members):
                yield from self._replica(replica, _branch("", i == len(members) - 1))

    def _replica(self, replica: ReplicaView, at: tuple[str, str]) -> Iterator[Row]:
        cliques = replica.all_cliques()
        ready, total = sum(c.ready for c in cliques), sum(c.replicas for c in cliques)
        kind = "surge replica" if replica.surge else "replica"
        yield self._row(
            f"{at[0]}{kind} {replica.index}",
            f"{ready}/{total}",
            _replica_state(replica),
            where=replica.domain,
            gang=replica.gang,
            updated=_share(sum(c.updated for c in cliques), sum(c.existing for c in cliques)),
        )
        if self._depth < 2:
            return
        parts: list[CliqueView | GroupView] = [*replica.cliques, *replica.groups]
        for i, part in enumerate(parts):
            below = _branch(at[1], i == len(parts) - 1)
            yield from self._clique(part, below) if isinstance(part, CliqueView) else self._group(part, below)

    def _group(self, group: GroupView, at: tuple[str, str]) -> Iterator[Row]:
        state = "Available" if group.available >= group.replicas else "Partial" if group.available else "Unavailable"
        yield self._row(
            f"{at[0]}{group.title}",
            f"{group.available}/{group.replicas}",
            state,
            updated=_share(group.updated, group.replicas),
        )
        for i, member in enumerate(group.members):
            yield from self._member(group, member, _branch(at[1], i == len(group.members) - 1))

    def _member(self, group: GroupView, member: GroupReplicaView, at: tuple[str, str]) -> Iterator[Row]:
        ready, total = sum(c.ready for c in member.cliques), sum(c.replicas for c in member.cliques)
        yield self._row(
            f"{at[0]}{group.title}-{member.index}{' (surge)' if member.surge else ''}",
            f"{ready}/{total}",
            "Available" if member.available else _worst([p for c in member.cliques for p in c.pods]),
            where=member.domain,
            gang=member.gang,
            updated=_share(sum(c.updated for c in member.cliques), sum(c.existing for c in member.cliques)),
        )
        for i, clique in enumerate(member.cliques):
            yield from self._clique(clique, _branch(at[1], i == len(member.cliques) - 1))

    def _clique(self, clique: CliqueView, at: tuple[str, str]) -> Iterator[Row]:
        yield self._row(
            f"{at[0]}{clique.role}",
            f"{clique.ready}/{clique.replicas}",
            "Available" if clique.available else _worst(clique.pods),
            where=clique.domain,
            gang=clique.gang,
            updated=_share(clique.updated, clique.existing),
            revision=clique.revision,
        )
        if self._depth >= 3:
            for i, pod in enumerate(clique.pods):
                yield self._pod(pod, _branch(at[1], i == len(clique.pods) - 1)[0])

    def _pod(self, pod: PodView, at: str) -> Row:
        around = [value for value in pod.domains.values() if value != pod.node]
        return self._row(
            f"{at}{pod.name}",
            "1/1" if pod.ready else "0/1",
            pod.state,
            where="/".join([*around[-1:], pod.node]) if pod.node else "",
            updated="yes" if pod.updated else "no",
            revision=pod.revision,
            gang=pod.gang,
            restarts=str(pod.restarts) if pod.restarts else "",
            created=pod.created,
        )

    def _row(
        self, name: str, ready: str, state: str, *, created: str | None = None, strong: bool = False, **rest: str
    ) -> Row:
        texts = {"ready": ready, "status": state, "age": age(created, self._now) if self._now else "", **rest}
        cells = [Cell(name, "strong" if strong else "")]
        for column in COLUMNS[1:]:
            text = texts.get(column.title.lower(), "")
            cells.append(Cell(text, _feeling(column.title, text)))
        return cells


def set_state(found: SetView) -> str:
    """The set in one or two words."""
    phase = found.progress.phase
    if phase is Phase.UNSEEN:
        return "Unseen"
    if phase is Phase.STUCK:
        return "Stalled"
    if phase is Phase.PAUSED:
        return "Paused"
    if phase is Phase.MOVING:
        return "Updating"
    if any(c.type == "Stalled" and c.status == "True" for c in found.conditions):
        return "Stalled"
    return "Available" if found.available >= found.replicas else "Unavailable"


def _replica_state(replica: ReplicaView) -> str:
    if replica.updating:
        return "Updating"
    return "Available" if replica.available else _worst([p for c in replica.all_cliques() for p in c.pods])


def _worst(pods: Sequence[PodView]) -> str:
    """Why something is not available, by the most telling of its pods."""
    states = [p.state for p in pods if not p.ready]
    for state in (*_BAD, "Pending", "SchedulingGated", "WaitingToStart", "Terminating"):
        if state in states:
            return state
    return states[0] if states else "Unavailable"


def _share(some: int, total: int) -> str:
    return f"{some}/{total}" if total else ""


def _branch(prefix: str, last: bool) -> tuple[str, str]:
    """What stands before a child, and before the child's own children."""
    return prefix + ("└─ " if last else "├─ "), prefix + ("   " if last else "│  ")


def _feeling(column: str, text: str) -> str:
    if column == "READY" and "/" in text:
        some, _, total = text.partition("/")
        return "" if some == total else "busy"
    if column == "UPDATED":
        return "busy" if text == "no" or ("/" in text and text.split("/")[0] != text.split("/")[1]) else "dim"
    if column != "STATUS":
        return "dim"
    return "good" if text in _GOOD else "bad" if text in _BAD else "busy"
