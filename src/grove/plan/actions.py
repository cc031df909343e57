"""A Plan as values: what to write, in which order, why, and what is being waited for.

Stages run one after the other, the actions inside a stage at once; a failing stage ends the plan, and the next pass
starts from what is really there. Statuses stand apart because they may wait for each other; actions may not.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Any

from grove.api.meta import Model
from grove.api.reasons import Reason
from grove.runtime.resource import Resource


@dataclass(frozen=True, slots=True)
class Why:
    """A reason with the facts of this case; everything a person is told starts here."""

    reason: Reason
    message: str

    def __str__(self) -> str:
        return f"{self.reason}: {self.message}"


@dataclass(frozen=True, slots=True)
class Create:
    """Make an object that is never changed afterwards by us as a whole (a pod, a revision)."""

    resource: Resource[Any]
    body: Mapping[str, Any]
    why: Why


@dataclass(frozen=True, slots=True)
class Apply:
    """Make or correct the fields we own. `resource_version` guards a field that others may change under us.

    Without `force` nothing that others set is taken over: so is made what was not seen, because it may exist unseen.
    """

    resource: Resource[Any]
    body: Mapping[str, Any]
    why: Why
    resource_version: str | None = None
    force: bool = True


@dataclass(frozen=True, slots=True)
class Patch:
    """A JSON patch of one object."""

    resource: Resource[Any]
    namespace: str
    name: str
    operations: tuple[Mapping[str, Any], ...]
    why: Why


@dataclass(frozen=True, slots=True)
class Delete:
    """Remove exactly the object that was seen: the UID is a precondition."""

    resource: Resource[Any]
    namespace: str
    name: str
    uid: str
    why: Why


class Haste(Enum):
    """How soon a status must be written."""

    NOW = "now"  # trouble, or a step of an update that others wait for
    SETTLED = "settled"  # rest was reached: soon, though a thousand of them need not go in the same second
    INTERIM = "interim"  # will be overtaken in a moment: may be merged with what follows


@dataclass(frozen=True, slots=True)
class StatusWrite:
    """The status an object should have."""

    resource: Resource[Any]
    namespace: str
    name: str
    status: Model
    haste: Haste = Haste.NOW


Action = Create | Apply | Patch | Delete | StatusWrite


@dataclass(frozen=True, slots=True)
class Wait:
    """Something cannot happen yet. `until` (seconds from now) is set when time alone ends the wait."""

    subject: str
    why: Why
    until: float | None = None


@dataclass(frozen=True, slots=True)
class Notice:
    """An event to record on an object, once the transition it tells of has been written."""

    why: Why
    warning: bool = False


@dataclass(frozen=True, slots=True)
class Plan:
    """What one pass wants done."""

    stages: tuple[tuple[Action, ...], ...] = ()
    statuses: tuple[StatusWrite, ...] = ()
    waits: tuple[Wait, ...] = ()
    notices: tuple[Notice, ...] = ()

    @property
    def acts(self) -> bool:
        return any(self.stages)

    @property
    def wake_after(self) -> float | None:
        """Seconds until the first wait that time alone ends."""
        return min((w.until for w in self.waits if w.until is not None), default=None)
