"""PodGangs of one replica: complete from the first write on.

Pods have names before they exist, so a PodGang lists every pod of every group at once; nothing of it has to be added
while pods appear, and no scheduler can see half of it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from grove.api import labels, names
from grove.api.kinds import POD_GANGS
from grove.api.pod_clique_set import PodCliqueSet, TopologyConstraint
from grove.api.pod_gang import GangTopologyConstraint, NamespacedName, PodGang, PodGangSpec, PodGroup, TopologyGroup
from grove.plan import mnnvl
from grove.plan.layout import Gang, Slot
from grove.plan.matching import metadata_covers
from grove.plan.revision import set_owner
from grove.plan.settings import Settings
from grove.plan.topology import translate, within
from grove.schedulers import kai

_LAST_APPLIED = "kubectl.kubernetes.io/last-applied-configuration"


def gang_spec(
    owner: PodCliqueSet, gang: Gang, pod_names: Mapping[str, Sequence[str]], settings: Settings, before: PodGang | None
) -> PodGangSpec:
    """The gang's spec; `pod_names` lists the pods of each PodClique, `before` is the gang as it stands."""
    old = before.spec if before else PodGangSpec()
    old_groups = {group.name: group.topology_constraint for group in old.podgroups}
    template = owner.spec.template
    whole = within(gang.group.topology_constraint if gang.group else None, template.topology_constraint)
    return PodGangSpec(
        podgroups=[
            _pod_group(slot, owner.metadata.namespace, pod_names.get(slot.name, ()), settings, old_groups)
            for slot in gang.slots
        ],
        topology_constraint=translate(whole, settings.topology, old.topology_constraint),
        topology_constraint_group_configs=_topology_groups(gang, settings, old),
        priority_class_name=template.priority_class_name,
    )


def _pod_group(
    slot: Slot,
    namespace: str,
    pods: Sequence[str],
    settings: Settings,
    before: Mapping[str, GangTopologyConstraint | None],
) -> PodGroup:
    return PodGroup(
        name=slot.name,
        pod_references=[NamespacedName(namespace=namespace, name=name) for name in pods],
        min_replicas=slot.template.spec.minimum,
        topology_constraint=translate(slot.template.topology_constraint, settings.topology, before.get(slot.name)),
    )


def _topology_groups(gang: Gang, settings: Settings, old: PodGangSpec) -> list[TopologyGroup]:
    """One group per scaling-group replica in the base gang whose scaling group asks for packing."""
    before = {group.name: group.topology_constraint for group in old.topology_constraint_group_configs}
    packed: dict[str, tuple[TopologyConstraint, list[str]]] = {}
    for slot in gang.slots:
        constraint = slot.group.topology_constraint if slot.group else None
        if constraint is not None and gang.base is None:
            name = names.topology_group(slot.group_name, slot.group_index)
            packed.setdefault(name, (constraint, []))[1].append(slot.name)
    return [
        TopologyGroup(
            name=name,
            pod_group_names=members,
            topology_constraint=translate(constraint, settings.topology, before.get(name)),
        )
        for name, (constraint, members) in packed.items()
    ]


def gang_metadata(owner: PodCliqueSet, gang: Gang, index: int, scheduler: str, settings: Settings) -> dict[str, Any]:
    """Labels and annotations: the PodCliqueSet's own (a scheduler reads queue and priority here), then ours."""
    meta = owner.metadata
    mirrored_labels = _mirrored(meta.labels)
    queue = _queue(owner)
    if queue:
        mirrored_labels.setdefault(kai.QUEUE_LABEL, queue)
    own = {
        **labels.managed(meta.name),
        labels.NAME: gang.name,
        labels.COMPONENT: labels.COMPONENT_POD_GANG,
        labels.REPLICA_INDEX: str(index),
        labels.SCHEDULER_NAME: scheduler,
        labels.SHORT_SET: meta.name,
        labels.SHORT_REPLICA: str(index),
    }
    if gang.group:
        own |= {labels.SHORT_GROUP: gang.group.name, labels.SHORT_GROUP_REPLICA: str(gang.group_index)}
    annotations = _mirrored(meta.annotations)
    if mirrored_labels or annotations:
        # Says which keys came from the PodCliqueSet, so that one removed there is seen to be missing here.
        annotations[labels.MIRRORED] = ",".join(sorted({*mirrored_labels, *annotations}))
    if settings.topology.enabled:
        annotations[labels.TOPOLOGY_NAME] = settings.topology.name
    if mnnvl.gang_takes_domains(owner, own):
        annotations[labels.MNNVL_ENABLED] = "true"  # The MNNVL webhook is called for these gangs and no others.
    return {
        "name": gang.name,
        "namespace": meta.namespace,
        "labels": {**mirrored_labels, **own},
        "annotations": annotations,
        "ownerReferences": [set_owner(owner)],
    }


def _mirrored(values: Mapping[str, str]) -> dict[str, str]:
    return {k: v for k, v in values.items() if not k.startswith(labels.GROVE_PREFIX) and k != _LAST_APPLIED}


def _queue(owner: PodCliqueSet) -> str | None:
    """The KAI queue: named on the PodCliqueSet, or by all cliques that name one alike."""
    meta = owner.metadata
    named = meta.labels.get(kai.QUEUE_LABEL) or meta.annotations.get(kai.QUEUE_LABEL)
    if named:
        return named
    by_cliques = {
        clique.labels.get(kai.QUEUE_LABEL) or clique.annotations.get(kai.QUEUE_LABEL)
        for clique in owner.spec.template.cliques
    } - {None}
    return by_cliques.pop() if len(by_cliques) == 1 else None


def gang_body(metadata: dict[str, Any], spec: PodGangSpec) -> dict[str, Any]:
    return {
        "apiVersion": POD_GANGS.api_version,
        "kind": POD_GANGS.kind,
        "metadata": metadata,
        "spec": msgspec.to_builtins(spec),
    }


def gang_in_step(observed: PodGang, metadata: Mapping[str, Any], spec: PodGangSpec) -> bool:
    """Whether the stored gang is what is wanted, in the fields that are ours."""
    seen = observed.spec
    if labels.TOPOLOGY_NAME in observed.metadata.annotations and labels.TOPOLOGY_NAME not in metadata["annotations"]:
        return False  # a scheduler must not look for a topology that is switched off
    return (
        metadata_covers(observed.metadata, metadata)
        and seen.podgroups == spec.podgroups
        and seen.topology_constraint == spec.topology_constraint
        and seen.topology_constraint_group_configs == spec.topology_constraint_group_configs
        and seen.priority_class_name == spec.priority_class_name
    )
