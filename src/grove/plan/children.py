"""The objects around the pods of one replica, as the fragments we apply: cliques, groups, Service, autoscalers."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from grove.api import labels, names
from grove.api.core import Autoscaler, Service
from grove.api.kinds import AUTOSCALERS, POD_CLIQUES, SCALING_GROUPS
from grove.api.pod_clique import AutoScaling, PodClique
from grove.api.pod_clique_set import PodCliqueSet, ScalingGroupConfig
from grove.api.scaling_group import ScalingGroup
from grove.api.sharing import shared
from grove.plan.layout import Layout, Slot
from grove.plan.matching import covers, covers_shared, metadata_covers
from grove.plan.revision import PodTemplate, Revision, owner_reference, set_owner
from grove.plan.start_order import parents


def position_labels(layout: Layout, slot: Slot) -> dict[str, str]:
    """Where a clique and its pods stand, in both label families."""
    index = str(layout.index)
    found = {
        labels.REPLICA_INDEX: index,
        labels.POD_GANG: slot.gang,
        labels.SHORT_SET: layout.set_name,
        labels.SHORT_REPLICA: index,
        labels.SHORT_CLIQUE: slot.template.name,
    }
    if slot.gang != layout.name:
        found[labels.BASE_POD_GANG] = layout.name
    if slot.group:
        found |= {
            labels.SCALING_GROUP: slot.group_name,
            labels.SCALING_GROUP_REPLICA_INDEX: str(slot.group_index),
            labels.SHORT_GROUP: slot.group.name,
            labels.SHORT_GROUP_REPLICA: str(slot.group_index),
        }
    return found


def clique_annotations(owner: PodCliqueSet, slot: Slot, template: PodTemplate) -> dict[str, str]:
    """The clique template's annotations, and the MNNVL ones of the nearest level that has them."""
    found = {k: v for k, v in template.annotations.items() if k != labels.TOPOLOGY_NAME}
    levels = [owner.metadata.annotations, slot.group.annotations if slot.group else {}]
    for level in reversed(levels):
        for key in labels.MNNVL_ANNOTATIONS:
            if key in level:
                found.setdefault(key, level[key])
    return found


def pod_clique(
    owner: PodCliqueSet, layout: Layout, slot: Slot, revision: Revision, group_uid: str, replicas: int
) -> dict[str, Any]:
    """The PodClique of a slot at a revision. Members belong to their scaling group, others to the PodCliqueSet."""
    template = revision.cliques[slot.template.name]
    spec = slot.template.spec
    body_spec: dict[str, Any] = {
        "roleName": spec.role_name,
        "podSpec": shared(dict(template.pod_spec)),
        "replicas": replicas,
        "minAvailable": spec.minimum,
        "startsAfter": [name for name, _ in parents(owner, layout.index, slot)],
    }
    if spec.auto_scaling_config and not slot.group:
        body_spec["autoScalingConfig"] = msgspec.to_builtins(spec.auto_scaling_config)
    component = labels.COMPONENT_MEMBER_CLIQUE if slot.group else labels.COMPONENT_STANDALONE_CLIQUE
    own = {
        **labels.managed(layout.set_name),
        labels.NAME: slot.name,
        labels.COMPONENT: component,
        **position_labels(layout, slot),
        labels.POD_TEMPLATE_HASH: template.hash,
        labels.GENERATION_HASH: revision.hash,
    }
    reference = (
        owner_reference(SCALING_GROUPS.api_version, SCALING_GROUPS.kind, slot.group_name, group_uid)
        if slot.group
        else set_owner(owner)
    )
    return {
        "apiVersion": POD_CLIQUES.api_version,
        "kind": POD_CLIQUES.kind,
        "metadata": {
            "name": slot.name,
            "namespace": layout.namespace,
            "labels": {**template.labels, **own},
            "annotations": clique_annotations(owner, slot, template),
            "ownerReferences": [reference],
        },
        "spec": body_spec,
    }


def pod_clique_in_step(observed: PodClique, wanted: Mapping[str, Any]) -> bool:
    spec, seen = wanted["spec"], observed.spec
    return (
        metadata_covers(observed.metadata, wanted["metadata"])
        and seen.role_name == spec["roleName"]
        and seen.min_available == spec["minAvailable"]
        and seen.starts_after == spec["startsAfter"]
        and covers_shared(seen.pod_spec, spec["podSpec"])
        and _scaling_in_step(seen.auto_scaling_config, spec.get("autoScalingConfig"))
    )


def _scaling_in_step(observed: AutoScaling | None, wanted: Any) -> bool:
    return covers(msgspec.to_builtins(observed) if observed else None, wanted or {})


def scaling_group(owner: PodCliqueSet, layout: Layout, group: ScalingGroupConfig, replicas: int) -> dict[str, Any]:
    name = names.scaling_group(layout.set_name, layout.index, group.name)
    return {
        "apiVersion": SCALING_GROUPS.api_version,
        "kind": SCALING_GROUPS.kind,
        "metadata": {
            "name": name,
            "namespace": layout.namespace,
            "labels": {
                **labels.managed(layout.set_name),
                labels.NAME: name,
                labels.COMPONENT: labels.COMPONENT_SCALING_GROUP,
                labels.REPLICA_INDEX: str(layout.index),
                labels.SHORT_GROUP: group.name,
            },
            "annotations": dict(group.annotations),
            "ownerReferences": [set_owner(owner)],
        },
        "spec": {"cliqueNames": list(group.clique_names), "replicas": replicas, "minAvailable": group.minimum},
    }


def scaling_group_in_step(observed: ScalingGroup, wanted: Mapping[str, Any]) -> bool:
    return (
        metadata_covers(observed.metadata, wanted["metadata"])
        and observed.spec.clique_names == wanted["spec"]["cliqueNames"]
        and observed.spec.min_available == wanted["spec"]["minAvailable"]
    )


def headless_service(owner: PodCliqueSet, layout: Layout) -> dict[str, Any]:
    """The DNS home of a replica's pods; it finds them by set and replica, ready or not."""
    config = owner.spec.template.headless_service_config
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {
            "name": layout.name,
            "namespace": layout.namespace,
            "labels": {
                **labels.managed(layout.set_name),
                labels.NAME: layout.name,
                labels.COMPONENT: labels.COMPONENT_SERVICE,
                labels.REPLICA_INDEX: str(layout.index),
            },
            "ownerReferences": [set_owner(owner)],
        },
        "spec": {
            "clusterIP": "None",
            "publishNotReadyAddresses": config.publish_not_ready_addresses if config else True,
            "selector": {**labels.managed(layout.set_name), labels.REPLICA_INDEX: str(layout.index)},
        },
    }


def headless_service_in_step(observed: Service, wanted: Mapping[str, Any]) -> bool:
    spec = wanted["spec"]
    return (
        metadata_covers(observed.metadata, wanted["metadata"])
        and observed.spec.publish_not_ready_addresses == spec["publishNotReadyAddresses"]
        and observed.spec.selector == spec["selector"]
    )


def autoscalers(owner: PodCliqueSet, layout: Layout) -> list[dict[str, Any]]:
    """A HorizontalPodAutoscaler for every standalone clique and scaling group that asks for one."""
    found = [
        _autoscaler(owner, layout, POD_CLIQUES.kind, slot.name, slot.template.spec.auto_scaling_config)
        for slot in layout.standalone
        if slot.template.spec.auto_scaling_config
    ]
    found += [
        _autoscaler(
            owner,
            layout,
            SCALING_GROUPS.kind,
            names.scaling_group(layout.set_name, layout.index, group.name),
            group.scale_config,
        )
        for group in owner.spec.template.pod_clique_scaling_groups
        if group.scale_config
    ]
    return found


def _autoscaler(
    owner: PodCliqueSet, layout: Layout, kind: str, name: str, config: AutoScaling | None
) -> dict[str, Any]:
    scaling = config or AutoScaling()
    spec: dict[str, Any] = {
        "scaleTargetRef": {"apiVersion": POD_CLIQUES.api_version, "kind": kind, "name": name},
        "maxReplicas": scaling.max_replicas,
    }
    if scaling.min_replicas is not None:
        spec["minReplicas"] = scaling.min_replicas
    if scaling.metrics:
        spec["metrics"] = scaling.metrics
    return {
        "apiVersion": AUTOSCALERS.api_version,
        "kind": AUTOSCALERS.kind,
        "metadata": {
            "name": name,
            "namespace": layout.namespace,
            "labels": {
                **labels.managed(layout.set_name),
                labels.NAME: name,
                labels.COMPONENT: labels.COMPONENT_AUTOSCALER,
                labels.REPLICA_INDEX: str(layout.index),
            },
            "ownerReferences": [set_owner(owner)],
        },
        "spec": spec,
    }


def autoscaler_in_step(observed: Autoscaler, wanted: Mapping[str, Any]) -> bool:
    return metadata_covers(observed.metadata, wanted["metadata"]) and covers(
        msgspec.to_builtins(observed.spec), wanted["spec"]
    )
