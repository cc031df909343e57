"""Translation of topology domains, as workloads name them, into node label keys, as PodGangs carry them.

`required` is what the user asked for, if that level exists. `preferred` is the user's wish or else the narrowest level,
and is left out where it is not narrower than `required`: it would say nothing, and some schedulers refuse the gang for
it. With topology switched off, what was required is dropped and what was preferred stays as it was.
"""

from __future__ import annotations

from collections.abc import Iterator

from grove.api.pod_clique_set import Pack, PodCliqueSetTemplate, TopologyConstraint
from grove.api.pod_gang import GangTopologyConstraint, PackConstraint
from grove.api.reasons import Reason
from grove.plan.actions import Why
from grove.plan.settings import TopologySettings


def translate(
    constraint: TopologyConstraint | None,
    topology: TopologySettings,
    before: GangTopologyConstraint | None = None,
) -> GangTopologyConstraint | None:
    """The constraint in label keys; `before` is what the PodGang carries now."""
    if not topology.enabled:
        kept = before.pack_constraint.preferred if before and before.pack_constraint else None
        return _packed(None, kept)
    required = topology.key(constraint.required_domain) if constraint else None
    wished = topology.key(constraint.preferred_domain) if constraint and constraint.preferred_domain else None
    preferred = wished or topology.strictest
    return _packed(required, preferred if _narrower(preferred, required, topology) else None)


def _narrower(preferred: str | None, required: str | None, topology: TopologySettings) -> bool:
    keys = [level.key for level in topology.levels]
    return required is None or preferred is None or keys.index(preferred) > keys.index(required)


def within(inner: TopologyConstraint | None, outer: TopologyConstraint | None) -> TopologyConstraint | None:
    """What holds for a gang that is one group replica: the group's words, and the set's level where the group requires
    none."""
    if inner is None or outer is None or inner.required_domain:
        return inner or outer
    preferred = inner.preferred_domain or outer.preferred_domain
    return TopologyConstraint(pack=Pack(required=outer.required_domain, preferred=preferred))


def _packed(required: str | None, preferred: str | None) -> GangTopologyConstraint | None:
    if required is None and preferred is None:
        return None
    return GangTopologyConstraint(pack_constraint=PackConstraint(required=required, preferred=preferred))


def constraints(template: PodCliqueSetTemplate) -> Iterator[TopologyConstraint]:
    """All constraints of a template, widest level first."""
    if template.topology_constraint:
        yield template.topology_constraint
    for group in template.pod_clique_scaling_groups:
        if group.topology_constraint:
            yield group.topology_constraint
    for clique in template.cliques:
        if clique.topology_constraint:
            yield clique.topology_constraint


def verdict(template: PodCliqueSetTemplate, topology: TopologySettings) -> tuple[bool, Why] | None:
    """Whether all required levels are there, in the words of the TopologyConstraints condition; None: none asked."""
    domains = list(dict.fromkeys(c.required_domain for c in constraints(template) if c.required_domain))
    if not domains:
        return None
    if not topology.enabled:
        message = "Topology support disabled in operator configuration. Required constraints removed."
        return False, Why(Reason.TOPOLOGY_DISABLED, message)
    missing = [domain for domain in domains if topology.key(domain) is None]
    if not missing:
        return True, Why(Reason.TOPOLOGY_LEVELS_AVAILABLE, "All topology constraints satisfied")
    if len(missing) == 1:
        message = (
            f"Topology level '{missing[0]}' not found in ClusterTopology '{topology.name}'. "
            "Remove packDomain or update ClusterTopology."
        )
        return False, Why(Reason.TOPOLOGY_LEVEL_NOT_FOUND, message)
    message = f"Topology levels removed from ClusterTopology: [{', '.join(missing)}]. Update packDomain constraints."
    return False, Why(Reason.TOPOLOGY_LEVELS_REMOVED, message)
