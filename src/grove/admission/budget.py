"""How many units an update may miss and add, as numbers: maxUnavailable rounds down, maxSurge rounds up."""

from __future__ import annotations

from grove.api.int_or_percent import resolved
from grove.api.meta import IntOrPercent
from grove.api.pod_clique import ComponentUpdateStrategy
from grove.api.pod_clique_set import RollingUpdate

Pace = ComponentUpdateStrategy | RollingUpdate

DEFAULT_UNAVAILABLE: IntOrPercent = 1
DEFAULT_SURGE: IntOrPercent = 0


def unavailable(pace: Pace, replicas: int) -> int:
    """Units an update may miss; ValueError when the text is no percentage."""
    value = DEFAULT_UNAVAILABLE if pace.max_unavailable is None else pace.max_unavailable
    return resolved(value, replicas, round_up=False)


def extra(pace: Pace, replicas: int) -> int:
    """Units an update may add; ValueError when the text is no percentage."""
    value = DEFAULT_SURGE if pace.max_surge is None else pace.max_surge
    return resolved(value, replicas, round_up=True)


def surge(pace: Pace | None, replicas: int) -> int:
    """Units an update may add, for judging names: what is malformed counts as none and is reported elsewhere."""
    if pace is None:
        return 0
    try:
        return max(extra(pace, replicas), 0)
    except ValueError:
        return 0
