"""What the operator's configuration means for planning, as one frozen value."""

from __future__ import annotations

from dataclasses import dataclass

from grove.api.cluster_topology import DEFAULT_NAME, TopologyLevel


@dataclass(frozen=True, slots=True)
class TopologySettings:
    """The levels in force, widest first; `enabled` without levels does not occur."""

    enabled: bool = False
    name: str = DEFAULT_NAME
    levels: tuple[TopologyLevel, ...] = ()

    def key(self, domain: str | None) -> str | None:
        """The node label behind a domain, if the domain is configured."""
        return next((level.key for level in self.levels if level.domain == domain), None)

    @property
    def strictest(self) -> str | None:
        """The label of the narrowest level."""
        return self.levels[-1].key if self.levels else None


@dataclass(frozen=True, slots=True)
class Settings:
    """Everything about this operator that a plan depends on."""

    topology: TopologySettings = TopologySettings()
    default_scheduler: str = "default-scheduler"
    init_image: str = "grove:latest"
    revision_history_limit: int = 10
    # Whether gangs on the default scheduler are handed to its own gang plugin through the Workload API.
    kube_gangs: bool = False
