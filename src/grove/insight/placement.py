"""Where pods are: the narrowest topology domain that holds all of them."""

from __future__ import annotations

from collections.abc import Iterable

from grove.insight.snapshot import Snapshot


def common_domain(snapshot: Snapshot, nodes: Iterable[str]) -> str:
    """The value of the narrowest level all these nodes share, such as `rack-3`; empty when there is none."""
    placed = [snapshot.domains_of(node) for node in {n for n in nodes if n}]
    if not placed:
        return ""
    for level in reversed(snapshot.levels):
        values = {domains.get(level.domain, "") for domains in placed}
        if len(values) == 1 and (value := values.pop()):
            return value
    return ""


def domain_counts(snapshot: Snapshot, nodes: Iterable[str], domain: str) -> dict[str, int]:
    """How many of the pods on these nodes are in each domain of a level."""
    counts: dict[str, int] = {}
    for node in nodes:
        value = snapshot.domains_of(node).get(domain)
        if value:
            counts[value] = counts.get(value, 0) + 1
    return dict(sorted(counts.items()))
