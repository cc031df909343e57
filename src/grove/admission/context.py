"""What admission knows besides the object: the operator's configuration and what the cluster serves."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

from grove.api.cluster_topology import DEFAULT_NAME, NATURAL_ORDER, TopologyLevel
from grove.api.pod_clique_set import CliqueTemplate, PodCliqueSet, PodCliqueSetTemplate, ScalingGroupConfig
from grove.config import OperatorConfiguration

TEMPLATE = "spec.template"
CLIQUES = f"{TEMPLATE}.cliques"
GROUPS = f"{TEMPLATE}.podCliqueScalingGroups"


@dataclass(frozen=True, slots=True)
class Topology:
    """The topology levels workloads may name, widest first."""

    enabled: bool = False
    name: str = DEFAULT_NAME
    domains: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Context:
    """The world a write is judged in."""

    topology: Topology = Topology()
    mnnvl_enabled: bool = False
    compute_domains_served: bool = False
    schedulers: frozenset[str] | None = None
    """Names of the enabled schedulers; None admits any."""
    default_scheduler: str = "default-scheduler"
    neighbours: tuple[PodCliqueSet, ...] = ()
    """The sets of the same namespace a new one could meet (see `neighbours.related`)."""

    @classmethod
    def of(cls, configuration: OperatorConfiguration, *, compute_domains_served: bool) -> Context:
        """The context of a running operator."""
        topology = configuration.topology
        return cls(
            topology=Topology(topology.enabled, topology.name, _domains(topology.levels)),
            mnnvl_enabled=configuration.mnnvl.enabled,
            compute_domains_served=compute_domains_served,
            schedulers=frozenset(profile.name for profile in configuration.scheduler.profiles),
            default_scheduler=configuration.scheduler.default_profile_name,
        )

    @classmethod
    def offline(cls, configuration: OperatorConfiguration | None = None) -> Context:
        """The context of a check without a cluster: what is not known is not held against the manifest."""
        if configuration is not None:
            return cls.of(configuration, compute_domains_served=True)
        return cls(
            topology=Topology(True, DEFAULT_NAME, tuple(NATURAL_ORDER)), mnnvl_enabled=True, compute_domains_served=True
        )


def _domains(levels: list[TopologyLevel]) -> tuple[str, ...]:
    return tuple(level.domain for level in levels)


@dataclass(frozen=True)
class Case:
    """One PodCliqueSet to be judged, with the one it replaces."""

    new: PodCliqueSet
    old: PodCliqueSet | None
    context: Context

    @property
    def template(self) -> PodCliqueSetTemplate:
        return self.new.spec.template

    @cached_property
    def groups_by_clique(self) -> dict[str, ScalingGroupConfig]:
        """The first scaling group that lists each clique."""
        found: dict[str, ScalingGroupConfig] = {}
        for group in self.template.pod_clique_scaling_groups:
            for name in group.clique_names:
                found.setdefault(name, group)
        return found

    def cliques(self) -> Iterator[tuple[str, CliqueTemplate]]:
        """Every clique with its field path."""
        for index, clique in enumerate(self.template.cliques):
            yield f"{CLIQUES}[{index}]", clique

    def groups(self) -> Iterator[tuple[str, ScalingGroupConfig]]:
        """Every scaling group with its field path."""
        for index, group in enumerate(self.template.pod_clique_scaling_groups):
            yield f"{GROUPS}[{index}]", group
