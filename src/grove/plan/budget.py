"""How many units an update may miss and how many it may add, as whole numbers for the replicas there are right now.

Percentages of maxUnavailable round down, of maxSurge up. Admission judges the written values once; replicas change
later without admission seeing it (an autoscaler, kubectl scale), so the budget is resolved anew at every look: clamped
to what makes sense, and never both zero, because that would hold the update for ever.
"""

from __future__ import annotations

from dataclasses import dataclass

from grove.api.int_or_percent import resolved
from grove.api.meta import IntOrPercent

DEFAULT_UNAVAILABLE = 1
DEFAULT_SURGE = 0


@dataclass(frozen=True, slots=True)
class Budget:
    """Whole units. `max_unavailable` of `replicas` may be down, `max_surge` beyond `replicas` may exist."""

    max_unavailable: int = DEFAULT_UNAVAILABLE
    max_surge: int = DEFAULT_SURGE


def resolve(max_unavailable: IntOrPercent | None, max_surge: IntOrPercent | None, replicas: int) -> Budget:
    """The budget in force for this many replicas."""
    unavailable = resolved(
        DEFAULT_UNAVAILABLE if max_unavailable is None else max_unavailable, replicas, round_up=False
    )
    surge = resolved(DEFAULT_SURGE if max_surge is None else max_surge, replicas, round_up=True)
    unavailable = max(0, min(unavailable, replicas))
    surge = max(0, surge)
    if unavailable == 0 and surge == 0:
        unavailable = 1
    return Budget(unavailable, surge)
