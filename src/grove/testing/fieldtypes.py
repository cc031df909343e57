"""How the fields of a kind merge under server-side apply: which maps and lists are atomic, sets, or keyed.

The answer comes from a CRD's structural schema, or for core kinds from the small table at the end of this file. Where
neither says anything, objects merge field by field and lists are replaced whole, as the real server does.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True, eq=False)
class FieldType:
    """One node of the tree of types.

    `atomic` values are owned and replaced whole. A list with `keys` is a map in disguise; `is_set` lists own values.
    `fields` are the named fields of a structure, `element` the type of everything else in it (or of list items).
    """

    fields: Mapping[str, FieldType] = field(default_factory=dict)
    element: FieldType | None = None
    keys: tuple[str, ...] = ()
    key_defaults: Mapping[str, Any] = field(default_factory=dict)
    is_set: bool = False
    atomic: bool = False
    structure: bool = False

    def child(self, name: str) -> FieldType:
        return self.fields.get(name) or self.element or DEDUCED

    def item(self) -> FieldType:
        return self.element or DEDUCED

    def merges_items(self) -> bool:
        return self.is_set or bool(self.keys)

    def is_named_field(self, name: str) -> bool:
        return self.structure or name in self.fields


DEDUCED = FieldType()
_ANY_STRUCTURE = FieldType(structure=True)
_ATOMIC = FieldType(atomic=True)
_SET = FieldType(is_set=True)


def _keyed(*keys: str, item: FieldType = _ANY_STRUCTURE, **key_defaults: Any) -> FieldType:
    return FieldType(keys=keys, element=item, key_defaults=key_defaults)


def _structure(**fields: FieldType) -> FieldType:
    return FieldType(fields=fields, structure=True, element=_ANY_STRUCTURE)


OBJECT_METADATA = _structure(finalizers=_SET, ownerReferences=_keyed("uid", item=_ATOMIC))


def from_schema(schema: Mapping[str, Any], *, root: bool = False) -> FieldType:
    """The merge types that a structural schema declares."""
    if schema.get("x-kubernetes-int-or-string") or schema.get("type") in ("string", "integer", "number", "boolean"):
        return DEDUCED
    if schema.get("type") == "array" or "items" in schema:
        return _list_from_schema(schema)
    atomic = schema.get("x-kubernetes-map-type") == "atomic"
    fields = {name: from_schema(sub) for name, sub in schema.get("properties", {}).items()}
    if root or schema.get("x-kubernetes-embedded-resource"):
        fields["metadata"] = OBJECT_METADATA
    additional = schema.get("additionalProperties")
    element = from_schema(additional) if isinstance(additional, Mapping) else None
    return FieldType(fields=fields, element=element, atomic=atomic)


def _list_from_schema(schema: Mapping[str, Any]) -> FieldType:
    items: Mapping[str, Any] = schema.get("items", {})
    match schema.get("x-kubernetes-list-type", "atomic"):
        case "map":
            keys = tuple(schema.get("x-kubernetes-list-map-keys", ()))
            properties = items.get("properties", {})
            defaults = {key: properties[key]["default"] for key in keys if "default" in properties.get(key, {})}
            return FieldType(keys=keys, element=from_schema(items), key_defaults=defaults)
        case "set":
            return _SET
        case _:
            return _ATOMIC


_CONTAINER = _structure(
    env=_keyed("name"),
    ports=_keyed("containerPort", "protocol", protocol="TCP"),
    volumeMounts=_keyed("mountPath"),
    volumeDevices=_keyed("devicePath"),
    resources=_structure(claims=_keyed("name")),
)
_POD_SPEC = _structure(
    containers=_keyed("name", item=_CONTAINER),
    initContainers=_keyed("name", item=_CONTAINER),
    ephemeralContainers=_keyed("name", item=_CONTAINER),
    volumes=_keyed("name"),
    imagePullSecrets=_keyed("name"),
    hostAliases=_keyed("ip"),
    topologySpreadConstraints=_keyed("topologyKey", "whenUnsatisfiable"),
    schedulingGates=_keyed("name"),
    resourceClaims=_keyed("name"),
    nodeSelector=_ATOMIC,
)
_CONDITIONS = _keyed("type")
_POD_STATUS = _structure(conditions=_CONDITIONS, podIPs=_keyed("ip"), resourceClaimStatuses=_keyed("name"))
_TEMPLATE = _structure(metadata=OBJECT_METADATA, spec=_POD_SPEC)
_WORKLOAD_SPEC = _structure(template=_TEMPLATE, selector=_ATOMIC)
_ANY_STATUS = _structure(conditions=_CONDITIONS)
_PLAIN = _structure(metadata=OBJECT_METADATA, status=_ANY_STATUS, spec=_ANY_STRUCTURE)

_CORE: Mapping[str, FieldType] = {
    "Pod": _structure(metadata=OBJECT_METADATA, spec=_POD_SPEC, status=_POD_STATUS),
    "PodTemplate": _structure(metadata=OBJECT_METADATA, template=_TEMPLATE),
    "Service": _structure(
        metadata=OBJECT_METADATA,
        spec=_structure(ports=_keyed("port", "protocol", protocol="TCP"), selector=_ATOMIC),
        status=_ANY_STATUS,
    ),
    "ServiceAccount": _structure(metadata=OBJECT_METADATA, secrets=_keyed("name")),
    "Node": _structure(
        metadata=OBJECT_METADATA,
        spec=_structure(podCIDRs=_SET),
        status=_structure(conditions=_CONDITIONS, addresses=_keyed("type")),
    ),
    **{
        kind: _structure(metadata=OBJECT_METADATA, spec=_WORKLOAD_SPEC, status=_ANY_STATUS)
        for kind in ("Deployment", "StatefulSet", "ReplicaSet", "DaemonSet", "Job")
    },
    "Workload": _structure(metadata=OBJECT_METADATA, spec=_structure(podGroups=_keyed("name"))),
    "MutatingWebhookConfiguration": _structure(metadata=OBJECT_METADATA, webhooks=_keyed("name")),
    "ValidatingWebhookConfiguration": _structure(metadata=OBJECT_METADATA, webhooks=_keyed("name")),
    "CustomResourceDefinition": _structure(metadata=OBJECT_METADATA, spec=_ANY_STRUCTURE, status=_ANY_STATUS),
}


def of_core_kind(kind: str) -> FieldType:
    return _CORE.get(kind, _PLAIN)
