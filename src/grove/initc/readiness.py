"""How many pods of each parent are ready, kept up to date from lists and watch events.

A pod belongs to the parent its label names, never to one whose name its own happens to begin with. A pod that is being
deleted counts for nothing, whatever its conditions still say.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from grove.api.labels import POD_CLIQUE
from grove.initc.arguments import Parent

Pod = Mapping[str, Any]


class Readiness:
    """The ready pods of the parents, by name."""

    def __init__(self, parents: Sequence[Parent]) -> None:
        self._parents = tuple(parents)
        self._ready: dict[str, set[str]] = {parent.name: set() for parent in parents}

    def clear(self) -> None:
        """Forget everything; a complete list follows."""
        for ready in self._ready.values():
            ready.clear()

    def see(self, pod: Pod) -> None:
        """Take in a pod as it is now."""
        self.forget(pod)
        clique = (pod["metadata"].get("labels") or {}).get(POD_CLIQUE)
        if clique in self._ready and counts(pod):
            self._ready[clique].add(pod["metadata"]["name"])

    def forget(self, pod: Pod) -> None:
        """A pod is gone. Its label may have changed since it was counted, so it is taken out wherever it was."""
        for ready in self._ready.values():
            ready.discard(pod["metadata"]["name"])

    @property
    def complete(self) -> bool:
        """Whether every parent has enough ready pods now."""
        return all(len(self._ready[parent.name]) >= parent.minimum for parent in self._parents)

    def __str__(self) -> str:
        """The parents that are waited for, each with its count."""
        return ", ".join(
            f"{parent.name}: {len(self._ready[parent.name])} of {parent.minimum} ready"
            for parent in self._parents
            if len(self._ready[parent.name]) < parent.minimum
        )


def counts(pod: Pod) -> bool:
    """Whether the pod is Ready and stays."""
    if pod["metadata"].get("deletionTimestamp"):
        return False
    conditions = (pod.get("status") or {}).get("conditions") or ()
    return any(condition["type"] == "Ready" and condition["status"] == "True" for condition in conditions)
