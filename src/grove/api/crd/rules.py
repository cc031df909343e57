"""Rules across fields, in CEL, that the API server checks itself: an object that bypassed our webhooks is still safe.

Rules that compare with `oldSelf` pass whatever did not change, so a change of metadata and the removal of a finalizer
always go through. A minimum is fixed once it is set; setting one where there was none is allowed.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import msgspec

from grove.api.cluster_topology import ClusterTopologySpec
from grove.api.pod_clique import AutoScaling, ComponentUpdateStrategy, PodCliqueSpec
from grove.api.pod_clique_set import (
    CliqueTemplate,
    Pack,
    PodCliqueSet,
    PodCliqueSetSpec,
    PodCliqueSetTemplate,
    RollingUpdate,
    ScalingGroupConfig,
    TopologyConstraint,
    UpdateStrategy,
)
from grove.api.scaling_group import ScalingGroupSpec


@dataclass(frozen=True, slots=True)
class Rule:
    """One x-kubernetes-validations entry."""

    rule: str
    message: str
    path: str = ""
    on_create: bool = False
    """Judged at creation alone, because what it reads cannot change later."""

    def rendered(self) -> dict[str, Any]:
        if self.on_create:
            rendered: dict[str, Any] = {"rule": f"oldSelf.hasValue() || ({self.rule})", "optionalOldSelf": True}
        else:
            rendered = {"rule": self.rule}
        rendered["message"] = self.message
        if self.path:
            rendered["fieldPath"] = self.path
        return rendered


def _fixed(field: str, absent: str | None = None) -> Rule:
    """A field that keeps its value; with `absent`, not setting it means that value."""
    if absent is None:
        rule = f"!has(oldSelf.{field}) || (has(self.{field}) && self.{field} == oldSelf.{field})"
    else:
        rule = f"(has(self.{field}) ? self.{field} : {absent}) == (has(oldSelf.{field}) ? oldSelf.{field} : {absent})"
    return Rule(rule, f"{field} cannot be changed after creation", f".{field}")


def _unset(field: str, empty: str) -> Rule:
    return Rule(f"!has(self.podSpec.{field}) || {empty}", f"podSpec.{field} must not be set", ".podSpec")


_MINIMUM = Rule(
    "!has(self.minAvailable) || !has(self.replicas) || self.minAvailable <= self.replicas",
    "replicas must not be below minAvailable",
    ".replicas",
)
_ZERO = "(has(self.{0}) && (self.{0} == 0 || self.{0} == '0%'))"
_NOT_BOTH_ZERO = Rule(
    f"!{_ZERO.format('maxUnavailable')} || (has(self.maxSurge) && !{_ZERO.format('maxSurge')})",
    "maxUnavailable and maxSurge must not both be 0: nothing could ever be updated",
)


def _same_names(items: str, message: str) -> tuple[Rule, ...]:
    """A list, present or not, that keeps its set of names."""
    new, old = f"self.{items}", f"oldSelf.{items}"
    kept = f"has({new}) && size({new}) == size({old}) && {new}.all(a, {old}.exists(b, b.name == a.name))"
    return (
        Rule(f"!has({old}) || size({old}) == 0 || ({kept})", message, f".{items}"),
        Rule(f"!has({new}) || size({new}) == 0 || has({old})", message, f".{items}"),
    )


def _autoscaling(replicas: str, minimum: str, config: str) -> tuple[Rule, ...]:
    """An autoscaler must stay at or above the gang minimum and be able to reach the replicas asked for."""
    return (
        Rule(
            f"!has({config}) || !has({config}.minReplicas) || !has({minimum}) || {config}.minReplicas >= {minimum}",
            "minReplicas of the autoscaler must not be below minAvailable",
        ),
        Rule(
            f"!has({config}) || !has({replicas}) || {config}.maxReplicas >= {replicas}",
            "maxReplicas of the autoscaler must not be below replicas",
        ),
    )


_COMPONENT_STRATEGY = (
    "(has({0}.updateStrategy) && (has({0}.updateStrategy.maxUnavailable) || has({0}.updateStrategy.maxSurge)))"
)
_ROLLING = "self.rollingUpdate"

RULES: dict[type[msgspec.Struct], tuple[Rule, ...]] = {
    PodCliqueSet: (
        Rule(
            "self.metadata.name.matches('^[a-z]([-a-z0-9]*[a-z0-9])?$')",
            "the name becomes a Service: lower case letters, digits and '-', beginning with a letter",
            on_create=True,
        ),
        Rule(
            "self.spec.template.cliques.all(c, size(self.metadata.name) + size(c.name) <= 58)",
            "names are too long: '<set>-<index>-<clique>-<index>' becomes a hostname of at most 63 characters",
            on_create=True,
        ),
    ),
    PodCliqueSetSpec: (
        Rule(
            "!has(self.updateStrategy) || !(self.updateStrategy.type in ['ReplicaRecreate', 'OnDelete']) || "
            f"(self.template.cliques.all(c, !{_COMPONENT_STRATEGY.format('c')}) && "
            "(!has(self.template.podCliqueScalingGroups) || "
            f"self.template.podCliqueScalingGroups.all(g, !{_COMPONENT_STRATEGY.format('g')})))",
            "updateStrategy of cliques and scaling groups has no meaning under ReplicaRecreate and OnDelete",
        ),
    ),
    UpdateStrategy: (
        Rule(
            f"self.type == 'ReplicaRecreate' || !has({_ROLLING}) || "
            f"((!has({_ROLLING}.maxUnavailable) || (self.type != 'OnDelete' && {_ROLLING}.maxUnavailable == 1)) && "
            f"(!has({_ROLLING}.maxSurge) || (self.type != 'OnDelete' && {_ROLLING}.maxSurge == 0)))",
            "rollingUpdate belongs to ReplicaRecreate: the other strategies do not replace whole replicas",
            ".rollingUpdate",
        ),
    ),
    RollingUpdate: (_NOT_BOTH_ZERO,),
    ComponentUpdateStrategy: (_NOT_BOTH_ZERO,),
    PodCliqueSetTemplate: (
        *_same_names("cliques", "cliques cannot be added, removed or renamed after creation"),
        *_same_names("podCliqueScalingGroups", "scaling groups cannot be added, removed or renamed after creation"),
        _fixed("cliqueStartupType", "'CliqueStartupTypeAnyOrder'"),
        Rule(
            "!has(self.terminationDelay) || duration(self.terminationDelay) > duration('0s')",
            "terminationDelay must be greater than 0; terminationPolicy: Never switches gang termination off",
            ".terminationDelay",
        ),
    ),
    CliqueTemplate: (
        Rule(
            "!has(self.spec.podSpec.schedulerName) || !has(oldSelf.spec.podSpec.schedulerName) || "
            "self.spec.podSpec.schedulerName == oldSelf.spec.podSpec.schedulerName",
            "schedulerName cannot be changed after creation",
        ),
        *_autoscaling("self.spec.replicas", "self.spec.minAvailable", "self.spec.autoScalingConfig"),
    ),
    PodCliqueSpec: (
        _MINIMUM,
        _fixed("roleName"),
        _fixed("minAvailable"),
        _fixed("startsAfter", "[]"),
        _unset("nodeName", "self.podSpec.nodeName == ''"),
        _unset("topologySpreadConstraints", "size(self.podSpec.topologySpreadConstraints) == 0"),
        _unset("ephemeralContainers", "size(self.podSpec.ephemeralContainers) == 0"),
    ),
    AutoScaling: (
        Rule(
            "!has(self.minReplicas) || self.minReplicas <= self.maxReplicas", "minReplicas must not exceed maxReplicas"
        ),
    ),
    ScalingGroupConfig: (
        _MINIMUM,
        _fixed("cliqueNames"),
        _fixed("minAvailable"),
        *_autoscaling("self.replicas", "self.minAvailable", "self.scaleConfig"),
    ),
    ScalingGroupSpec: (_MINIMUM, _fixed("cliqueNames"), _fixed("minAvailable")),
    TopologyConstraint: (
        Rule(
            "!has(self.packDomain) || !has(self.pack) || !has(self.pack.required) || "
            "self.packDomain == self.pack.required",
            "packDomain and pack.required say the same thing and must not differ",
        ),
    ),
    Pack: (Rule("has(self.required) || has(self.preferred)", "pack needs required, preferred or both"),),
    ClusterTopologySpec: (
        Rule(
            "self.levels.all(a, self.levels.exists_one(b, a.key == b.key))",
            "every level needs a key of its own",
            ".levels",
        ),
    ),
}
