"""Whose a ComputeDomain and its claim are, and how they come to belong to their PodGang.

They are made for a PodCliqueSet, before there is a PodGang, and move to the PodGang once that is stored: from then on
the garbage collector takes them when the gang goes, and nothing here ever deletes. What somebody removed while its
PodGang and a clique that uses it exist is made again, owned by the gang at once. At rest every domain and claim of a
gang has the gang as its controller, and the gang says so in an annotation.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import msgspec

from grove.api import labels
from grove.api.devices import COMPUTE_DOMAINS, ComputeDomain, DeviceClaim
from grove.api.kinds import POD_CLIQUE_SETS, POD_GANGS
from grove.api.meta import ObjectMeta, OwnerReference
from grove.api.pod_clique import PodClique
from grove.api.pod_gang import PodGang
from grove.api.reasons import Reason
from grove.plan import mnnvl
from grove.plan.actions import Action, Create, Patch, Plan, Wait, Why
from grove.plan.mnnvl import ClaimForm, Domain
from grove.plan.revision import owner_reference
from grove.runtime.resource import Resource

ADOPTED = "true"
PENDING = "false"
_OWNERS = (POD_CLIQUE_SETS, POD_GANGS)


def held_by(meta: ObjectMeta, resource: Resource[Any]) -> OwnerReference | None:
    """The controller of an object, if it is of this kind."""
    controller = meta.controller
    if controller and (controller.api_version, controller.kind) == (resource.api_version, resource.kind):
        return controller
    return None


def objection(meta: ObjectMeta, domain: Domain, set_uid: str, gang_uid: str | None = None) -> str:
    """Why an object of the domain's name may not be used for it; empty when it may.

    Ours carries our labels and belongs to the set, to the domain's PodGang, or to nobody. With `gang_uid` the gang must
    be that very one; without, whoever asks adopts what an earlier gang of the name has left.
    """
    for key in (labels.MNNVL_MANAGED, labels.SHORT_SET):
        if meta.labels.get(key) != domain.labels[key]:
            return f"it is not ours: its label {key} is not '{domain.labels[key]}'"
    if meta.terminating:
        return "it is being deleted; it is made again when it is gone"
    controller = meta.controller
    if controller is None:
        return ""
    if held_by(meta, POD_CLIQUE_SETS) and controller.name == domain.set_name:
        return "" if controller.uid == set_uid else "it is left from an earlier PodCliqueSet of this name and will go"
    if held_by(meta, POD_GANGS) and controller.name == domain.gang:
        return "" if gang_uid in (None, controller.uid) else "it is left from an earlier PodGang of this name"
    return f"it is not ours: it belongs to {controller.kind} '{controller.name}'"


@dataclass(frozen=True, slots=True)
class GangDomains:
    """A stored PodGang, the cliques of its replica, and the domains and claims that carry its name or are theirs."""

    gang: PodGang
    cliques: Sequence[PodClique]
    domains: Mapping[str, ComputeDomain]
    claims: Mapping[str, DeviceClaim]
    form: ClaimForm = ClaimForm()

    @property
    def set_uid(self) -> str:
        holder = held_by(self.gang.metadata, POD_CLIQUE_SETS)
        return holder.uid if holder else ""


def wanted(gang: PodGang, cliques: Sequence[PodClique]) -> dict[str, Domain]:
    """The domains this gang is to own for the cliques that stand, by name."""
    found: dict[str, Domain] = {}
    for clique in cliques:
        meta = clique.metadata
        if meta.terminating or not mnnvl.enabled(meta.annotations) or not mnnvl.uses_gpus(clique.spec.pod_spec):
            continue
        try:
            domain = mnnvl.domain_of(meta.namespace, meta.labels, meta.annotations)
        except mnnvl.Unplaceable:
            continue  # Refused where the clique is written.
        if domain.gang == gang.metadata.name:
            found[domain.name] = domain
    return found


def plan_gang(world: GangDomains) -> Plan:
    """What makes the gang the owner of all that is its own; then the gang says so."""
    asked = wanted(world.gang, world.cliques)
    actions: list[Action] = []
    waits: list[Wait] = []
    for domain in asked.values():
        actions.extend(_missing(world, domain))
        waits.extend(_objections(world, domain))
    refused = {wait.subject for wait in waits}
    for resource, item in _named(world):
        if item.metadata.name not in refused and not item.metadata.terminating:
            actions.extend(_adoption(world, resource, item.metadata))
    stages: list[tuple[Action, ...]] = [tuple(actions)] if actions else []
    if not waits and (asked or world.domains or world.claims):
        stages.extend((mark,) for mark in _mark(world))
    return Plan(tuple(stages), waits=tuple(waits))


def _missing(world: GangDomains, domain: Domain) -> list[Action]:
    owner = _gang_reference(world.gang)
    found: list[Action] = []
    why = Why(Reason.CHILD_MISSING, f"pods of PodGang {world.gang.metadata.name} need it")
    if domain.name not in world.domains:
        found.append(Create(COMPUTE_DOMAINS, mnnvl.domain_body(domain, owner), why))
    if domain.claim not in world.claims:
        found.append(Create(world.form.resource, mnnvl.claim_body(domain, world.form, owner), why))
    return found


def _objections(world: GangDomains, domain: Domain) -> list[Wait]:
    standing: list[tuple[Resource[Any], ComputeDomain | DeviceClaim | None]] = [
        (COMPUTE_DOMAINS, world.domains.get(domain.name)),
        (world.form.resource, world.claims.get(domain.claim)),
    ]
    found = []
    for resource, item in standing:
        against = objection(item.metadata, domain, world.set_uid) if item else ""
        if item and against:
            why = Why(Reason.FOREIGN_OBJECT, f"{resource.kind} {item.metadata.name} cannot be used: {against}")
            found.append(Wait(item.metadata.name, why))
    return found


def _named(world: GangDomains) -> list[tuple[Resource[Any], ComputeDomain | DeviceClaim]]:
    """Everything that names this gang in its labels, also what no clique has come for yet."""
    return [
        *((COMPUTE_DOMAINS, item) for item in world.domains.values()),
        *((world.form.resource, item) for item in world.claims.values()),
    ]


def _adoption(world: GangDomains, resource: Resource[Any], meta: ObjectMeta) -> list[Action]:
    gang = world.gang.metadata
    controller = meta.controller
    if meta.labels.get(labels.MNNVL_MANAGED) != "true" or meta.labels.get(labels.POD_GANG) != gang.name:
        return []
    if controller and (controller.uid == gang.uid or not any(held_by(meta, kind) for kind in _OWNERS)):
        return []
    if held_by(meta, POD_CLIQUE_SETS) and controller and controller.uid != world.set_uid:
        return []  # Left from an earlier set of this name; it goes by itself.
    others = [msgspec.to_builtins(owner) for owner in meta.owner_references if owner is not controller]
    operations = (
        # Writing the version we saw makes a change in between a conflict.
        {"op": "replace", "path": "/metadata/resourceVersion", "value": meta.resource_version},
        {"op": "add", "path": "/metadata/ownerReferences", "value": [_gang_reference(world.gang), *others]},
    )
    why = Why(Reason.CHILD_CHANGED, f"{resource.kind} {meta.name} goes with PodGang {gang.name}")
    return [Patch(resource, meta.namespace, meta.name, operations, why)]


def _mark(world: GangDomains) -> list[Action]:
    """The annotation that ends the transfer, once no clique of the gang is still to come."""
    meta = world.gang.metadata
    standing = {clique.metadata.name for clique in world.cliques if not clique.metadata.terminating}
    if meta.annotations.get(labels.MNNVL_ADOPTED) == ADOPTED:
        return []
    if any(group.name not in standing for group in world.gang.spec.podgroups):
        return []
    same = {"op": "test", "path": "/metadata/uid", "value": meta.uid}
    why = Why(Reason.CHILD_CHANGED, f"PodGang {meta.name} owns its ComputeDomains and claims")
    return [Patch(POD_GANGS, meta.namespace, meta.name, (same, *annotated(meta.annotations, ADOPTED)), why)]


def annotated(annotations: Mapping[str, str], value: str) -> list[dict[str, Any]]:
    """The operations that write how far the transfer is onto a PodGang with these annotations."""
    path = "/metadata/annotations"
    if not annotations:
        return [{"op": "add", "path": path, "value": {labels.MNNVL_ADOPTED: value}}]
    return [{"op": "add", "path": f"{path}/{labels.MNNVL_ADOPTED.replace('/', '~1')}", "value": value}]


def _gang_reference(gang: PodGang) -> dict[str, Any]:
    meta = gang.metadata
    return owner_reference(POD_GANGS.api_version, POD_GANGS.kind, meta.name, meta.uid)
