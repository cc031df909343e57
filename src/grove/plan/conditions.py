"""Conditions that change only when something changed: a transition time moves with the status, never with the words."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime

from grove.api.meta import Condition
from grove.api.reasons import Reason

TRUE, FALSE, UNKNOWN = "True", "False", "Unknown"


def timestamp(moment: datetime) -> str:
    """RFC 3339 in whole seconds, as the API server writes times."""
    return moment.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def moment(text: str) -> datetime:
    return datetime.fromisoformat(text.replace("Z", "+00:00"))


class ConditionWriter:
    """Collects the conditions of one object for one pass, keeping transition times of those that did not change."""

    def __init__(self, previous: Sequence[Condition], generation: int, now: datetime) -> None:
        self._previous = {c.type: c for c in previous}
        self._generation = generation
        self.now = now
        self._written: list[Condition] = []

    def set(self, kind: str, status: str | bool, reason: Reason, message: str = "") -> Condition:
        if isinstance(status, bool):
            status = TRUE if status else FALSE
        before = self._previous.get(kind)
        unchanged = before is not None and before.status == status
        written = Condition(
            type=kind,
            status=status,
            reason=str(reason),
            message=message,
            observed_generation=self._generation,
            last_transition_time=before.last_transition_time if unchanged and before else timestamp(self.now),
        )
        self._written.append(written)
        return written

    def since(self, kind: str, status: str) -> datetime | None:
        """Since when the condition of this type has had this status, if it was recorded so."""
        before = self._previous.get(kind)
        recorded = before.last_transition_time if before and before.status == status else None
        return moment(recorded) if recorded else None

    def recorded(self, kind: str) -> bool:
        """Whether the condition was recorded True."""
        before = self._previous.get(kind)
        return before is not None and before.status == TRUE

    def result(self) -> list[Condition]:
        return self._written
