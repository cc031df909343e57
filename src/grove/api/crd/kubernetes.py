"""Schemas of Kubernetes' own types inside our CRDs: OpenAPI v3 in, structural schema out.

The API server publishes its types with references, descriptions and Go zero values; a CRD may hold none of these in
bulk. The result is committed as package data, so that rendering the CRDs needs no cluster.
"""

from __future__ import annotations

import json
from functools import cache
from importlib import resources
from typing import Any

Schema = dict[str, Any]

WANTED = {"PodSpec": "io.k8s.api.core.v1.PodSpec", "MetricSpec": "io.k8s.api.autoscaling.v2.MetricSpec"}
PACKAGED = "kubernetes.json"

_QUANTITY = "io.k8s.apimachinery.pkg.api.resource.Quantity"
_INT_OR_STRING = "io.k8s.apimachinery.pkg.util.intstr.IntOrString"
_OBJECT_META = "io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta"
_QUANTITY_PATTERN = (
    r"^(\+|-)?(([0-9]+(\.[0-9]*)?)|(\.[0-9]+))(([KMGTPE]i)|[numkMGTPE]|([eE](\+|-)?(([0-9]+(\.[0-9]*)?)|(\.[0-9]+))))?$"
)
# Enums stay out: a pod may say what a newer API server knows.
_KEPT = ("type", "format", "required", "x-kubernetes-list-type", "x-kubernetes-list-map-keys", "x-kubernetes-map-type")
# Bounds on what our own rules read, so that their cost can be calculated.
_BOUNDS: dict[str, Schema] = {"schedulerName": {"maxLength": 253}, "nodeName": {"maxLength": 253}}


@cache
def packaged() -> dict[str, Schema]:
    """The committed schemas, by their short names."""
    loaded: dict[str, Schema] = json.loads(resources.files(__package__).joinpath(PACKAGED).read_text("utf-8"))
    return loaded


def converted(definitions: dict[str, Schema]) -> dict[str, Schema]:
    """The structural schemas of the wanted types, from the `components.schemas` of OpenAPI v3 documents."""
    schemas = {short: _structural({"$ref": full}, definitions) for short, full in WANTED.items()}
    for field, bound in _BOUNDS.items():
        schemas["PodSpec"]["properties"][field] |= bound
    return schemas


def _structural(node: Schema, definitions: dict[str, Schema]) -> Schema:
    reference = _reference(node)
    if reference == _QUANTITY:
        return _either(pattern=_QUANTITY_PATTERN)
    if reference == _INT_OR_STRING:
        return _either()
    if reference == _OBJECT_META:
        # Metadata inside a claim template: the API server checks it when the pod is made.
        return {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    schema = _structural(definitions[reference], definitions) if reference else _own(node, definitions)
    # A zero value is how Go encodes "nothing"; as a default it would fill every object with noise.
    if node.get("default"):
        schema["default"] = node["default"]
    return schema


def _own(node: Schema, definitions: dict[str, Schema]) -> Schema:
    schema: Schema = {key: node[key] for key in _KEPT if key in node}
    if "properties" in node:
        schema["properties"] = {name: _structural(sub, definitions) for name, sub in sorted(node["properties"].items())}
    if "items" in node:
        schema["items"] = _with_keys(_structural(node["items"], definitions), node)
    if "additionalProperties" in node:
        schema["additionalProperties"] = _structural(node["additionalProperties"], definitions)
    return schema


def _with_keys(items: Schema, list_node: Schema) -> Schema:
    """Keys of a list map must be required or have a default; here the zero value is one."""
    for key in list_node.get("x-kubernetes-list-map-keys", []):
        if key not in items.get("required", []):
            items["properties"][key].setdefault("default", "")
    return items


def _reference(node: Schema) -> str | None:
    """The name of the type a node points at, directly or through the `allOf` that carries its description."""
    target = node.get("$ref") or next((part["$ref"] for part in node.get("allOf", []) if "$ref" in part), None)
    return None if target is None else str(target).rpartition("/")[2]


def _either(**keywords: Any) -> Schema:
    return {"anyOf": [{"type": "integer"}, {"type": "string"}], "x-kubernetes-int-or-string": True, **keywords}
