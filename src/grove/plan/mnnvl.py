"""Multi-node NVLink: which ComputeDomain a clique's pods join, what stands for it in the cluster and in a pod spec.

- A clique asks when its annotations enable it and one of its containers uses GPUs; nobody else gets or makes anything.
- The scope says who shares a domain: a whole replica, one clique, or one replica of a scaling group. Domain and claim
  are named after that, and belong to the PodGang that really holds it: group replicas below the group's minimum live in
  the base gang, and what a whole replica shares lives as long as its base gang.
- Injection is a function of the pod spec: every GPU container refers to the claim, no other does, and both entries
  stand behind the user's own, wherever they stood before.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from grove.api import labels, names
from grove.api.devices import (
    COMPUTE_DOMAIN_DRIVER,
    COMPUTE_DOMAINS,
    RESOURCE_CLAIM_TEMPLATES,
    RESOURCE_CLAIMS,
    DeviceClaim,
)
from grove.api.pod_clique_set import PodCliqueSet
from grove.plan.children import clique_annotations, position_labels
from grove.plan.layout import Layout, Slot, layout
from grove.plan.revision import PodTemplate
from grove.runtime.resource import Resource

Json = dict[str, Any]

CLAIM = "mnnvl"
GPU = "nvidia.com/gpu"
REPLICA, CLIQUE, GROUP_REPLICA = "replica", "clique", "scalingGroupReplica"
_CONTAINER_LISTS = ("initContainers", "containers")
_FLAT_VERSION = "v1beta1"


class Unplaceable(ValueError):
    """A clique that asks cannot be given a domain; the message says why."""


@dataclass(frozen=True, slots=True)
class Apis:
    """What the cluster serves of what MNNVL needs."""

    compute_domains: bool = False
    claims_version: str | None = None

    @property
    def missing(self) -> str:
        """What is not served, in words; empty when everything is."""
        if not self.compute_domains:
            return f"this cluster has no ComputeDomain resource ({COMPUTE_DOMAINS.api_version}), which MNNVL needs"
        if self.claims_version is None:
            return f"this cluster serves no ResourceClaims ({RESOURCE_CLAIMS.group}), which MNNVL needs"
        return ""


@dataclass(frozen=True, slots=True)
class ClaimForm:
    """How pods come to their claim: which API version it is written in, and whether each pod has one of its own."""

    version: str = "v1"
    per_pod: bool = False

    @property
    def resource(self) -> Resource[DeviceClaim]:
        return (RESOURCE_CLAIM_TEMPLATES if self.per_pod else RESOURCE_CLAIMS).with_version(self.version)


@dataclass(frozen=True, slots=True)
class Domain:
    """One ComputeDomain with its claim: whose pods share it is in the labels, which PodGang it goes with in `gang`."""

    stem: str
    gang: str
    namespace: str
    labels: Mapping[str, str]
    device_class: str = COMPUTE_DOMAIN_DRIVER

    @property
    def name(self) -> str:
        return f"{self.stem}-cd"

    @property
    def claim(self) -> str:
        return f"{self.stem}-mnnvl-claim"

    @property
    def set_name(self) -> str:
        return self.labels[labels.SHORT_SET]


# Who asks, and for which domain.


def enabled(annotations: Mapping[str, str]) -> bool:
    return annotations.get(labels.MNNVL_ENABLED) == "true"


def uses_gpus(pod_spec: Mapping[str, Any]) -> bool:
    return any(_has_gpus(container) for kind in _CONTAINER_LISTS for container in pod_spec.get(kind) or ())


def _has_gpus(container: Mapping[str, Any]) -> bool:
    resources = container.get("resources") or {}
    amounts = [(resources.get(kind) or {}).get(GPU) for kind in ("limits", "requests")]
    return any(str(amount).strip() not in ("", "0") for amount in amounts if amount is not None)


def domain_of(namespace: str, marks: Mapping[str, str], annotations: Mapping[str, str]) -> Domain:
    """The domain of a clique with these labels and annotations; Unplaceable when they do not say enough."""
    set_name, index = _label(marks, labels.SHORT_SET), _label(marks, labels.SHORT_REPLICA)
    if not index.isdigit():
        raise Unplaceable(f"label {labels.SHORT_REPLICA} must be a number, not '{index}'")
    base = names.replica(set_name, int(index))
    scope = annotations.get(labels.MNNVL_SCOPE) or REPLICA
    place = {labels.SHORT_SET: set_name, labels.SHORT_REPLICA: index}
    if scope == REPLICA:
        stem, gang = base, base
    elif scope in (CLIQUE, GROUP_REPLICA):
        stem, gang = base, _label(marks, labels.POD_GANG)
        if scope == GROUP_REPLICA or labels.SHORT_GROUP in marks:
            group, group_index = _label(marks, labels.SHORT_GROUP), _label(marks, labels.SHORT_GROUP_REPLICA)
            place |= {labels.SHORT_GROUP: group, labels.SHORT_GROUP_REPLICA: group_index}
            stem = f"{stem}-{group}-{group_index}"
        if scope == CLIQUE:
            place[labels.SHORT_CLIQUE] = _label(marks, labels.SHORT_CLIQUE)
            stem = f"{stem}-{place[labels.SHORT_CLIQUE]}"
    else:
        allowed = ", ".join((REPLICA, CLIQUE, GROUP_REPLICA))
        raise Unplaceable(f"annotation {labels.MNNVL_SCOPE} is '{scope}', not one of {allowed}")
    own = {**labels.managed(set_name), **place, labels.POD_GANG: gang, labels.MNNVL_MANAGED: "true"}
    return Domain(stem, gang, namespace, own, annotations.get(labels.MNNVL_DEVICE_CLASS) or COMPUTE_DOMAIN_DRIVER)


def _label(marks: Mapping[str, str], key: str) -> str:
    if not marks.get(key):
        raise Unplaceable(f"the PodClique carries no label {key}, so its ComputeDomain has no name")
    return marks[key]


def asked_anywhere(owner: PodCliqueSet) -> bool:
    """Whether the set speaks of MNNVL at all; most do not."""
    template = owner.spec.template
    said = [group.annotations for group in template.pod_clique_scaling_groups]
    said += [clique.annotations for clique in template.cliques]
    return any(map(enabled, (owner.metadata.annotations, *said)))


def gang_takes_domains(owner: PodCliqueSet, gang_labels: Mapping[str, str]) -> bool:
    """Whether a new PodGang of this set, known by its labels, will own domains."""
    if not asked_anywhere(owner):
        return False
    index, group = int(gang_labels[labels.SHORT_REPLICA]), gang_labels.get(labels.SHORT_GROUP)
    indices = {g.name: tuple(range(g.minimum)) for g in owner.spec.template.pod_clique_scaling_groups}
    name = names.replica(owner.metadata.name, index)
    if group is not None:
        group_index = int(gang_labels[labels.SHORT_GROUP_REPLICA])
        indices = {group: (group_index,)}
        name = names.group_replica(owner.metadata.name, index, group, group_index)
    parts = layout(owner, index, indices)
    return any(_domain_of_slot(owner, parts, slot) == name for slot in parts.slots())


def _domain_of_slot(owner: PodCliqueSet, parts: Layout, slot: Slot) -> str | None:
    """The PodGang that owns the domain of this clique; None when the clique has none."""
    template = PodTemplate("", {}, slot.template.annotations, slot.template.spec.pod_spec)
    annotations = clique_annotations(owner, slot, template)
    if not enabled(annotations) or not uses_gpus(template.pod_spec):
        return None
    try:
        return domain_of(parts.namespace, position_labels(parts, slot), annotations).gang
    except Unplaceable:
        return None


# What stands for it in the cluster.


def domain_body(domain: Domain, owner: Json) -> Json:
    return {
        "apiVersion": COMPUTE_DOMAINS.api_version,
        "kind": COMPUTE_DOMAINS.kind,
        "metadata": _metadata(domain, domain.name, owner),
        "spec": {"numNodes": 0},
    }


def claim_body(domain: Domain, form: ClaimForm, owner: Json) -> Json:
    """The claim all pods of the domain share, or the template each pod's own is made from."""
    spec: Json = {"devices": {"requests": [_request(domain, form.version)]}}
    return {
        "apiVersion": form.resource.api_version,
        "kind": form.resource.kind,
        "metadata": _metadata(domain, domain.claim, owner),
        "spec": {"spec": spec} if form.per_pod else spec,
    }


def _metadata(domain: Domain, name: str, owner: Json) -> Json:
    return {
        "name": name,
        "namespace": domain.namespace,
        "labels": dict(domain.labels),
        "ownerReferences": [owner],
    }


def _request(domain: Domain, version: str) -> Json:
    expression = f'device.attributes["{COMPUTE_DOMAIN_DRIVER}"].name == "{domain.name}"'
    wish: Json = {"deviceClassName": domain.device_class, "selectors": [{"cel": {"expression": expression}}]}
    return {"name": CLAIM, **wish} if version == _FLAT_VERSION else {"name": CLAIM, "exactly": wish}


def device_class_of(claim: DeviceClaim) -> str | None:
    """The device class a stored claim or template of ours asks for, in whichever version it was read."""
    spec = claim.spec.get("spec", claim.spec)
    requests = (spec.get("devices") or {}).get("requests") or [{}]
    wish = requests[0].get("exactly") or requests[0]
    found: str | None = wish.get("deviceClassName")
    return found


# The pod spec.


def reference(domain: Domain, form: ClaimForm) -> Json:
    """The entry of a pod's resourceClaims that leads to the domain."""
    return {"name": CLAIM, "resourceClaimTemplateName" if form.per_pod else "resourceClaimName": domain.claim}


def claimed(pod_spec: Mapping[str, Any]) -> Json | None:
    """The entry of our name that stands in the pod spec, whoever put it there."""
    return next((claim for claim in pod_spec.get("resourceClaims") or () if claim.get("name") == CLAIM), None)


def inject(pod_spec: Mapping[str, Any], entry: Json) -> Json:
    """The pod spec in which every container with GPUs, and no other, uses the claim."""
    return {**_placed(pod_spec, True), "resourceClaims": _last(pod_spec.get("resourceClaims"), entry)}


def withdraw(pod_spec: Mapping[str, Any]) -> Json:
    """The pod spec without the claim: an update took the last GPU away."""
    return {**_placed(pod_spec, False), "resourceClaims": _last(pod_spec.get("resourceClaims"), None)}


def _placed(pod_spec: Mapping[str, Any], wanted: bool) -> Json:
    found = dict(pod_spec)
    for kind in _CONTAINER_LISTS:
        if found.get(kind):
            found[kind] = [_container(container, wanted and _has_gpus(container)) for container in found[kind]]
    return found


def _container(container: Json, uses: bool) -> Json:
    resources = container.get("resources") or {}
    before = resources.get("claims")
    after = _last(before, {"name": CLAIM} if uses else None)
    return container if after == (before or []) else {**container, "resources": {**resources, "claims": after}}


def _last(entries: list[Json] | None, ours: Json | None) -> list[Json]:
    """The entries with ours at the end: whoever compares with the template finds the template's own in front."""
    return [*(entry for entry in entries or () if entry.get("name") != CLAIM), *([ours] if ours else ())]
