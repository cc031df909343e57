"""The revisions of a PodCliqueSet: what changed from one to the next, and what going back to one would write."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import msgspec

from grove.api.core import ControllerRevision
from grove.api.pod_clique_set import PodCliqueSet
from grove.insight.snapshot import Snapshot
from grove.plan import revision as revisions
from grove.plan.revision import Revision

RESTARTED_AT = "kubectl.kubernetes.io/restartedAt"


class Change(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """One field of one clique's pods that differs. None: not there."""

    clique: str
    path: str
    before: Any = None
    after: Any = None

    def __str__(self) -> str:
        if self.before is None:
            return f"{self.clique}: {self.path} added: {_short(self.after)}"
        if self.after is None:
            return f"{self.clique}: {self.path} removed, was {_short(self.before)}"
        return f"{self.clique}: {self.path} {_short(self.before)} → {_short(self.after)}"


class RevisionView(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """A kept revision. `changes` are those from the one before it."""

    number: int
    hash: str
    created: str | None
    current: bool
    pods: int
    changes: tuple[Change, ...] = ()


def history(snapshot: Snapshot, owner: PodCliqueSet) -> list[RevisionView]:
    """The kept revisions, oldest first."""
    latest = _latest(snapshot, owner)
    pods: dict[str, int] = {}
    for pod in snapshot.of_set(snapshot.pods, owner):
        carried = pod.metadata.labels.get("grove.io/pod-template-hash", "")
        pods[carried] = pods.get(carried, 0) + 1
    found: list[RevisionView] = []
    before: Revision | None = None
    for record in records(snapshot, owner):
        one = revisions.stored(record)
        found.append(
            RevisionView(
                number=record.revision,
                hash=one.hash,
                created=record.metadata.creation_timestamp,
                current=one.hash == latest.hash,
                pods=sum(pods.get(h, 0) for h in {t.hash for t in one.cliques.values()}),
                changes=tuple(changes(before, one)) if before else (),
            )
        )
        before = one
    return found


def records(snapshot: Snapshot, owner: PodCliqueSet) -> list[ControllerRevision]:
    """The set's own ControllerRevisions, oldest first."""
    uid = owner.metadata.uid
    mine = [r for r in snapshot.of_set(snapshot.revisions, owner) if r.metadata.controller]
    return sorted((r for r in mine if _owner_uid(r) == uid), key=lambda r: r.revision)


def _owner_uid(record: ControllerRevision) -> str:
    return record.metadata.controller.uid if record.metadata.controller else ""


def _latest(snapshot: Snapshot, owner: PodCliqueSet) -> Revision:
    kept = [revisions.stored(r) for r in records(snapshot, owner)]
    return revisions.recognised(revisions.of_template(owner.spec.template), kept)


def changes(before: Revision, after: Revision) -> Iterator[Change]:
    """What differs in the pods, clique by clique, field by field."""
    for clique in sorted({*before.cliques, *after.cliques}):
        old, new = before.template(clique), after.template(clique)
        flat_old = _flat(old.content) if old else {}
        flat_new = _flat(new.content) if new else {}
        for path in sorted({*flat_old, *flat_new}):
            if flat_old.get(path) != flat_new.get(path):
                yield Change(clique=clique, path=path, before=flat_old.get(path), after=flat_new.get(path))


def _flat(value: Any, path: str = "") -> dict[str, Any]:
    """Every plain value by its path; items of lists by their name where they have one."""
    if isinstance(value, Mapping) and value:
        found: dict[str, Any] = {}
        for key, inner in value.items():
            found |= _flat(inner, f"{path}.{key}" if path else str(key))
        return found
    if isinstance(value, list) and value:
        found = {}
        for position, item in enumerate(value):
            name = item.get("name", position) if isinstance(item, Mapping) else position
            found |= _flat(item, f"{path}[{name}]")
        return found
    return {} if value in ({}, [], "", None) else {path: value}


def _short(value: Any) -> str:
    text = str(value)
    return text if len(text) <= 60 else f"{text[:57]}…"


def restoring(owner: PodCliqueSet, wanted: Revision) -> list[dict[str, Any]]:
    """The JSON patch that gives every clique the pods it had in that revision.

    Cliques are found by position and checked by name, so that a spec changed meanwhile refuses the patch.
    """
    operations: list[dict[str, Any]] = []
    for position, clique in enumerate(owner.spec.template.cliques):
        kept = wanted.template(clique.name)
        if kept is None:
            continue
        at = f"/spec/template/cliques/{position}"
        operations += [
            {"op": "test", "path": f"{at}/name", "value": clique.name},
            {"op": "add", "path": f"{at}/spec/podSpec", "value": dict(kept.pod_spec)},
            {"op": "add", "path": f"{at}/labels", "value": dict(kept.labels)},
            {"op": "add", "path": f"{at}/annotations", "value": dict(kept.annotations)},
        ]
    priority = _set_priority(wanted)
    if priority is not None and priority != owner.spec.template.priority_class_name:
        operations.append({"op": "add", "path": "/spec/template/priorityClassName", "value": priority})
    return operations


def _set_priority(wanted: Revision) -> str | None:
    """The priority class the set itself had; a clique that names its own says nothing about it."""
    without = [t for t in wanted.cliques.values() if not t.pod_spec.get("priorityClassName")]
    return without[0].priority_class_name if without else None


def restarting(owner: PodCliqueSet, stamp: str, only: tuple[str, ...] = ()) -> list[dict[str, Any]]:
    """The JSON patch that makes the pods of these cliques (all, if none are named) new, and nothing else."""
    operations: list[dict[str, Any]] = []
    for position, clique in enumerate(owner.spec.template.cliques):
        if only and clique.name not in only:
            continue
        at = f"/spec/template/cliques/{position}"
        operations += [
            {"op": "test", "path": f"{at}/name", "value": clique.name},
            {"op": "add", "path": f"{at}/annotations", "value": {**clique.annotations, RESTARTED_AT: stamp}},
        ]
    return operations
