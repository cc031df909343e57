"""Revisions: which pod templates a PodCliqueSet asks for, and whether that differs from what it asked for before.

A revision is the content that ends up in pods, per clique, and nothing else: replicas, minimums, topology, order and
update settings roll nothing. Two templates are the same revision when their canonical content is equal; the hash is
only the name of that content. A later hash algorithm therefore finds the stored revision by content and keeps its name,
clique by clique, and an upgrade of the operator restarts no workload.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import msgspec

from grove.api import labels
from grove.api.core import ControllerRevision
from grove.api.kinds import POD_CLIQUE_SETS
from grove.api.pod_clique_set import CliqueTemplate, PodCliqueSet, PodCliqueSetTemplate

ALGORITHM = "1"
_SAFE = "bcdfghjklmnpqrstvwxz2456789"
_LENGTH = 10
_NOTHING: tuple[Any, ...] = (None, "", [], {})
# An empty selector selects everything, an absent one nothing.
_SELECTORS = frozenset({"labelSelector", "namespaceSelector"})
# Keys in these maps are the user's: there an empty value is a value.
_USERS_OWN = frozenset({"labels", "annotations", "nodeSelector", "matchLabels"})
_encode = msgspec.json.Encoder(order="sorted").encode


@dataclass(frozen=True, slots=True)
class PodTemplate:
    """What one clique's pods are made of."""

    hash: str
    labels: Mapping[str, str]
    annotations: Mapping[str, str]
    pod_spec: Mapping[str, Any]
    priority_class_name: str = ""

    @property
    def content(self) -> dict[str, Any]:
        return {
            "labels": dict(self.labels),
            "annotations": dict(self.annotations),
            "podSpec": dict(self.pod_spec),
            "priorityClassName": self.priority_class_name,
        }


@dataclass(frozen=True, slots=True)
class Revision:
    """The pod templates of all cliques at one point of a PodCliqueSet's history."""

    hash: str
    cliques: Mapping[str, PodTemplate]

    def template(self, clique: str) -> PodTemplate | None:
        return self.cliques.get(clique)


def of_template(template: PodCliqueSetTemplate) -> Revision:
    """The revision a PodCliqueSet template asks for."""
    return _named({c.name: _pod_template(c, template.priority_class_name) for c in template.cliques})


def _pod_template(clique: CliqueTemplate, set_priority: str) -> PodTemplate:
    spec = clique.spec.pod_spec
    priority = spec.get("priorityClassName") or set_priority
    return _hashed(PodTemplate("", clique.labels, clique.annotations, spec, priority))


def _hashed(template: PodTemplate) -> PodTemplate:
    digest = _digest(_canonical(template.content))
    return PodTemplate(digest, template.labels, template.annotations, template.pod_spec, template.priority_class_name)


def _named(cliques: Mapping[str, PodTemplate]) -> Revision:
    return Revision(_digest({name: template.hash for name, template in cliques.items()}), cliques)


def _canonical(value: Any) -> Any:
    """The value without what means nothing: absent, null and empty are the same wish."""
    if isinstance(value, dict):
        kept = {key: inner if key in _USERS_OWN else _canonical(inner) for key, inner in value.items()}
        return {k: v for k, v in kept.items() if v not in _NOTHING or (k in _SELECTORS and v == {})}
    if isinstance(value, list):
        return [_canonical(inner) for inner in value]
    return value


def _digest(content: Any) -> str:
    number = int.from_bytes(hashlib.sha256(ALGORITHM.encode() + _encode(content)).digest()[:8])
    letters = []
    for _ in range(_LENGTH):
        number, rest = divmod(number, len(_SAFE))
        letters.append(_SAFE[rest])
    return ALGORITHM + "".join(letters)


def hash_of(record: ControllerRevision) -> str:
    """The name of the revision a ControllerRevision keeps."""
    found: str = record.data.get("hash", "")
    return found


def stored(record: ControllerRevision) -> Revision:
    """The revision a ControllerRevision keeps, under the names it was stored with."""
    cliques = {
        name: PodTemplate(
            hash=entry.get("hash", ""),
            labels=entry.get("labels", {}),
            annotations=entry.get("annotations", {}),
            pod_spec=entry.get("podSpec", {}),
            priority_class_name=entry.get("priorityClassName", ""),
        )
        for name, entry in record.data.get("cliques", {}).items()
    }
    return Revision(hash_of(record), cliques)


def recognised(wanted: Revision, kept: Iterable[Revision]) -> Revision:
    """The wanted revision under the name it already has in history; if it is new, its unchanged cliques keep theirs."""
    content = _content(wanted)
    known: dict[str, PodTemplate] = {}
    for revision in kept:
        found = _content(revision)
        if revision.hash == wanted.hash or found == content:
            return revision
        known |= {name: revision.cliques[name] for name in content if found.get(name) == content[name]}
    return Revision(wanted.hash, {**wanted.cliques, **known})


def _content(revision: Revision) -> dict[str, Any]:
    return {name: _canonical(template.content) for name, template in revision.cliques.items()}


def record(owner: PodCliqueSet, revision: Revision, number: int) -> dict[str, Any]:
    """The ControllerRevision that keeps this revision."""
    meta = owner.metadata
    data = {
        "hash": revision.hash,
        "cliques": {name: {"hash": t.hash, **t.content} for name, t in revision.cliques.items()},
    }
    return {
        "apiVersion": "apps/v1",
        "kind": "ControllerRevision",
        "metadata": {
            "name": f"{meta.name}-{revision.hash}",
            "namespace": meta.namespace,
            "labels": {**labels.managed(meta.name), labels.GENERATION_HASH: revision.hash},
            "ownerReferences": [set_owner(owner)],
        },
        "data": data,
        "revision": number,
    }


def set_owner(owner: PodCliqueSet) -> dict[str, Any]:
    meta = owner.metadata
    return owner_reference(POD_CLIQUE_SETS.api_version, POD_CLIQUE_SETS.kind, meta.name, meta.uid)


def owner_reference(api_version: str, kind: str, name: str, uid: str) -> dict[str, Any]:
    """The reference that makes an object go when its owner goes."""
    return {
        "apiVersion": api_version,
        "kind": kind,
        "name": name,
        "uid": uid,
        "controller": True,
        "blockOwnerDeletion": True,
    }
