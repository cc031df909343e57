"""What is known about a cluster's components, as values that travel over the socket and into the state file."""

from __future__ import annotations

import signal
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from enum import StrEnum
from typing import Any

from grove.localcluster.processes import ProcessIdentity


class ComponentState(StrEnum):
    """How a component is doing. EXITED was not asked for, STOPPED was."""

    STARTING = "starting"
    READY = "ready"
    EXITED = "exited"
    STOPPED = "stopped"


@dataclass(frozen=True)
class ComponentStatus:
    """One component as the supervisor last saw it."""

    name: str
    pid: int
    start_time: int
    started_at: float
    state: ComponentState = ComponentState.STARTING
    exit_code: int | None = None

    @property
    def identity(self) -> ProcessIdentity:
        return ProcessIdentity(self.pid, self.start_time)

    @property
    def ending(self) -> str:
        """The exit status in words, for instance `was killed by SIGKILL`."""
        if self.exit_code is None:
            return "is running"
        if self.exit_code < 0:
            return f"was killed by {signal.Signals(-self.exit_code).name}"
        return f"exited with status {self.exit_code}"

    def became(self, state: ComponentState) -> ComponentStatus:
        return replace(self, state=state)

    def ended(self, state: ComponentState, exit_code: int) -> ComponentStatus:
        return replace(self, state=state, exit_code=exit_code)

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> ComponentStatus:
        return cls(**{**values, "state": ComponentState(values["state"])})


@dataclass(frozen=True)
class SupervisorStatus:
    """The supervisor itself and all it looks after."""

    pid: int
    start_time: int
    components: Mapping[str, ComponentStatus]

    @property
    def identity(self) -> ProcessIdentity:
        return ProcessIdentity(self.pid, self.start_time)

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> SupervisorStatus:
        components = {name: ComponentStatus.from_dict(one) for name, one in values["components"].items()}
        return cls(values["pid"], values["start_time"], components)
