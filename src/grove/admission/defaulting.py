"""Fills in what a PodCliqueSet leaves out. Works on plain documents, keeps what it does not know, and doing it twice
changes nothing.

A minimum cannot change after creation. So an update that leaves minAvailable out keeps the stored one, rather than
following replicas into a refusal.
"""

from __future__ import annotations

from typing import Any

Json = dict[str, Any]

TERMINATION_DELAY = "4h"
ANY_ORDER = "CliqueStartupTypeAnyOrder"


def default(pod_clique_set: Json, old: Json | None = None) -> Json:
    """The document with everything filled in; parts that need nothing are shared with the original."""
    template = _at(pod_clique_set, "spec", "template")
    if template is None:
        return pod_clique_set
    before = _at(old, "spec", "template") or {}
    filled = _filled(
        template,
        cliqueStartupType=ANY_ORDER,
        terminationDelay=TERMINATION_DELAY,
        headlessServiceConfig={"publishNotReadyAddresses": True},
    )
    filled = _each(filled, "cliques", _named(before, "cliques"), _clique)
    filled = _each(filled, "podCliqueScalingGroups", _named(before, "podCliqueScalingGroups"), _group)
    if filled is template:
        return pod_clique_set
    return {**pod_clique_set, "spec": {**pod_clique_set["spec"], "template": filled}}


def _clique(clique: Json, old: Json) -> Json:
    spec = clique.get("spec")
    if not isinstance(spec, dict):
        return clique
    replicas = spec.get("replicas") or 1
    kept = (_at(old, "spec") or {}).get("minAvailable")
    filled = spec if spec.get("replicas") == replicas else {**spec, "replicas": replicas}
    filled = _filled(filled, minAvailable=replicas if kept is None else kept)
    filled = _nested(filled, "podSpec", restartPolicy="Always", terminationGracePeriodSeconds=30)
    filled = _nested(filled, "autoScalingConfig", minReplicas=replicas)
    return clique if filled is spec else {**clique, "spec": filled}


def _group(group: Json, old: Json) -> Json:
    kept = old.get("minAvailable")
    filled = _filled(group, replicas=1, minAvailable=1 if kept is None else kept)
    return _nested(filled, "scaleConfig", minReplicas=filled["replicas"])


def _filled(document: Json, **defaults: Any) -> Json:
    """The document itself when it says all of this already, else a copy that does."""
    missing = {key: value for key, value in defaults.items() if document.get(key) is None}
    return {**document, **missing} if missing else document


def _nested(document: Json, key: str, **defaults: Any) -> Json:
    inner = document.get(key)
    if not isinstance(inner, dict):
        return document
    filled = _filled(inner, **defaults)
    return document if filled is inner else {**document, key: filled}


def _each(document: Json, key: str, before: dict[Any, Json], fill: Any) -> Json:
    items = document.get(key)
    if not isinstance(items, list):
        return document
    filled = [fill(item, before.get(_name(item), {})) if isinstance(item, dict) else item for item in items]
    unchanged = all(new is item for new, item in zip(filled, items, strict=True))
    return document if unchanged else {**document, key: filled}


def _named(document: Json, key: str) -> dict[Any, Json]:
    items = document.get(key)
    return {_name(item): item for item in items if isinstance(item, dict)} if isinstance(items, list) else {}


def _name(item: Json) -> str:
    name = item.get("name")
    return name if isinstance(name, str) else ""


def _at(document: Any, *keys: str) -> Json | None:
    for key in keys:
        document = document.get(key) if isinstance(document, dict) else None
    return document if isinstance(document, dict) else None
