"""Topology constraints: topology is on, the levels exist, and what is inside is packed at least as tightly.

Constraints may change at any time; pods that already run stay where they are, and the writer is told so.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from grove.admission.context import TEMPLATE, Case, Topology
from grove.admission.findings import FieldError, forbidden, invalid
from grove.api.pod_clique_set import PodCliqueSet, TopologyConstraint


@dataclass(frozen=True, slots=True)
class _Placed:
    """A constraint, where it stands, and the nearest constraint around it."""

    path: str
    constraint: TopologyConstraint
    parent: TopologyConstraint | None


def check(case: Case) -> Iterator[FieldError]:
    topology = case.context.topology
    for placed in _placed(case):
        yield from _words(placed, topology)
        if not topology.enabled:
            if placed.constraint.required_domain or placed.constraint.preferred_domain:
                yield forbidden(
                    placed.path,
                    "topology support is not enabled in the operator",
                    "remove the constraint or ask an administrator to enable topology",
                )
            continue
        yield from _levels(placed, topology)
        yield from _hierarchy(placed, topology)


def warnings(case: Case) -> Iterator[str]:
    topology = case.context.topology
    for placed in _placed(case):
        required, preferred = placed.constraint.required_domain, placed.constraint.preferred_domain
        if required is None and preferred is None:
            yield f"{placed.path} names no level and has no effect"
        strict = topology.domains
        if required in strict and preferred in strict and strict.index(preferred) <= strict.index(required):
            yield f"{placed.path}.pack.preferred '{preferred}' adds nothing to required '{required}'"
    if case.old is not None and _constraints(case.old) != _constraints(case.new):
        yield (
            "topology constraints changed: running pods stay where they are, so replacements follow the new constraint "
            "while survivors keep the old placement"
        )


def _placed(case: Case) -> Iterator[_Placed]:
    """Every constraint, from the outside in."""
    outer = case.template.topology_constraint
    if outer is not None:
        yield _Placed(f"{TEMPLATE}.topologyConstraint", outer, None)
    for path, group in case.groups():
        if group.topology_constraint is not None:
            yield _Placed(f"{path}.topologyConstraint", group.topology_constraint, outer)
    for path, clique in case.cliques():
        if clique.topology_constraint is not None:
            home = case.groups_by_clique.get(clique.name)
            around = home.topology_constraint if home and _required(home.topology_constraint) else outer
            yield _Placed(f"{path}.topologyConstraint", clique.topology_constraint, around)


def _words(placed: _Placed, topology: Topology) -> Iterator[FieldError]:
    constraint = placed.constraint
    pack = constraint.pack
    if pack is not None and pack.required is None and pack.preferred is None:
        yield invalid(f"{placed.path}.pack", {}, "needs required, preferred or both")
    if pack is not None and constraint.pack_domain and pack.required and pack.required != constraint.pack_domain:
        yield invalid(
            f"{placed.path}.pack.required",
            pack.required,
            f"says something else than packDomain '{constraint.pack_domain}', which means the same",
            "keep one of them",
        )
    if constraint.topology_name and constraint.topology_name != topology.name:
        yield invalid(
            f"{placed.path}.topologyName",
            constraint.topology_name,
            f"the operator manages ClusterTopology '{topology.name}' alone",
            "leave topologyName out",
        )


def _levels(placed: _Placed, topology: Topology) -> Iterator[FieldError]:
    for field, domain in (
        (_required_field(placed.constraint), placed.constraint.required_domain),
        ("pack.preferred", placed.constraint.preferred_domain),
    ):
        if domain and domain not in topology.domains:
            yield invalid(
                f"{placed.path}.{field}",
                domain,
                f"topology level '{domain}' not defined in ClusterTopology '{topology.name}'",
                f"the levels are: {', '.join(topology.domains)}",
            )


def _hierarchy(placed: _Placed, topology: Topology) -> Iterator[FieldError]:
    child, parent = placed.constraint.required_domain, _required(placed.parent)
    if child not in topology.domains or parent not in topology.domains:
        return
    if topology.domains.index(child) < topology.domains.index(parent):
        yield invalid(
            f"{placed.path}.{_required_field(placed.constraint)}",
            child,
            f"child topology constraint '{child}' must be equal to or stricter than parent constraint '{parent}'",
        )


def _required(constraint: TopologyConstraint | None) -> str | None:
    return constraint.required_domain if constraint else None


def _required_field(constraint: TopologyConstraint) -> str:
    return "packDomain" if constraint.pack_domain else "pack.required"


def _constraints(pod_clique_set: PodCliqueSet) -> list[tuple[str, str | None, str | None]]:
    template = pod_clique_set.spec.template
    found = [("", template.topology_constraint)]
    found += [(f"group {group.name}", group.topology_constraint) for group in template.pod_clique_scaling_groups]
    found += [(f"clique {clique.name}", clique.topology_constraint) for clique in template.cliques]
    return sorted(((name, c.required_domain, c.preferred_domain) for name, c in found if c is not None), key=repr)
