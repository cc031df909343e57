"""The published CRDs are the ones the types say, and their schemas judge as the API server does."""

from __future__ import annotations

from typing import Any

import pytest

from grove.api import crd
from grove.api.crd.__main__ import text
from grove.api.crd.conformance import Departure, mismatches
from grove.api.crd.kubernetes import converted, packaged
from manifests import tables

PUBLISHED = tables.HERE.parent.parent / "deploy" / "crds"
KINDS = ["PodCliqueSet", "PodClique", "PodCliqueScalingGroup", "ClusterTopology", "PodGang"]


def test_the_published_files_are_what_the_types_say() -> None:
    assert {path.name for path in PUBLISHED.glob("*.yaml")} == set(crd.files())
    stale = [
        name for name, definition in crd.files().items() if (PUBLISHED / name).read_text("utf-8") != text(definition)
    ]
    assert stale == [], "run `make generate`"


def test_all_kinds_can_be_listed_together_and_by_short_names() -> None:
    names = [definition["spec"]["names"] for definition in crd.definitions()]
    assert [name["kind"] for name in names] == KINDS
    assert [name["shortNames"] for name in names] == [["pcs"], ["pclq"], ["pcsg"], ["ct"], ["pg"]]
    assert all(name["categories"] == ["grove"] for name in names)


def version(kind: str) -> dict[str, Any]:
    (found,) = [d for d in crd.definitions() if d["spec"]["names"]["kind"] == kind]
    content: dict[str, Any] = found["spec"]["versions"][0]
    return content


@pytest.mark.parametrize(
    ("kind", "selector"),
    [
        ("PodCliqueSet", ".status.hpaPodSelector"),
        ("PodClique", ".status.hpaPodSelector"),
        ("PodCliqueScalingGroup", ".status.selector"),
    ],
)
def test_what_can_be_scaled_has_a_scale_subresource(kind: str, selector: str) -> None:
    assert version(kind)["subresources"]["scale"] == {
        "specReplicasPath": ".spec.replicas",
        "statusReplicasPath": ".status.replicas",
        "labelSelectorPath": selector,
    }


@pytest.mark.parametrize("kind", KINDS)
def test_a_status_requires_nothing_of_its_writers(kind: str) -> None:
    schema = crd.schema(kind)
    assert schema["required"] == ["spec"]
    assert "required" not in schema["properties"]["status"]
    assert version(kind)["subresources"]["status"] == {}


@pytest.mark.parametrize("kind", KINDS)
def test_every_field_of_ours_is_described(kind: str) -> None:
    missing = [path for path, node in fields(crd.schema(kind), "") if "description" not in node]
    assert missing == []


def fields(schema: dict[str, Any], path: str) -> list[tuple[str, dict[str, Any]]]:
    """Every field we declare ourselves; Kubernetes' own types are described where they come from."""
    found: list[tuple[str, dict[str, Any]]] = []
    for name, node in schema.get("properties", {}).items():
        if path == "" and name in ("metadata", "status"):
            found += fields(node, f"{path}.{name}")
            continue
        found.append((f"{path}.{name}", node))
        if name in ("podSpec", "metrics", "conditions"):
            continue
        found += fields(node.get("items", node), f"{path}.{name}")
    return found


def test_lists_are_owned_item_by_item() -> None:
    template = crd.schema("PodCliqueSet")["properties"]["spec"]["properties"]["template"]["properties"]
    assert template["cliques"]["x-kubernetes-list-map-keys"] == ["name"]
    assert template["podCliqueScalingGroups"]["x-kubernetes-list-map-keys"] == ["name"]
    levels = crd.schema("ClusterTopology")["properties"]["spec"]["properties"]["levels"]
    assert levels["x-kubernetes-list-map-keys"] == ["domain"]
    groups = crd.schema("PodGang")["properties"]["spec"]["properties"]["podgroups"]
    assert groups["x-kubernetes-list-map-keys"] == ["name"]


def test_a_pod_spec_carries_the_whole_of_kubernetes() -> None:
    spec = packaged()["PodSpec"]["properties"]
    container = spec["containers"]["items"]["properties"]
    assert {"containers", "initContainers", "resourceClaims", "schedulingGates", "tolerations", "affinity"} <= set(spec)
    assert container["ports"]["items"]["properties"]["protocol"]["default"] == "TCP"
    assert container["resources"]["properties"]["limits"]["additionalProperties"]["x-kubernetes-int-or-string"]
    assert "description" not in str(packaged()["PodSpec"])


def test_kubernetes_types_are_made_structural() -> None:
    reference = {"$ref": "#/components/schemas/io.k8s.apimachinery.pkg.api.resource.Quantity"}
    definitions = {
        "io.k8s.api.core.v1.PodSpec": {
            "type": "object",
            "description": "long",
            "properties": {
                "schedulerName": {"type": "string", "default": ""},
                "nodeName": {"type": "string"},
                "size": {"allOf": [reference], "description": "how big"},
                "list": {
                    "type": "array",
                    "items": {"allOf": [{"$ref": "#/components/schemas/Item"}], "default": {}},
                    "x-kubernetes-list-type": "map",
                    "x-kubernetes-list-map-keys": ["name"],
                    "x-kubernetes-patch-strategy": "merge",
                },
            },
        },
        "Item": {"type": "object", "properties": {"name": {"type": "string", "default": ""}}},
        "io.k8s.api.autoscaling.v2.MetricSpec": {"type": "object"},
    }
    properties = converted(definitions)["PodSpec"]["properties"]
    assert properties["schedulerName"] == {"type": "string", "maxLength": 253}
    assert properties["size"]["x-kubernetes-int-or-string"] is True
    assert properties["list"] == {
        "type": "array",
        "x-kubernetes-list-type": "map",
        "x-kubernetes-list-map-keys": ["name"],
        "items": {"type": "object", "properties": {"name": {"type": "string", "default": ""}}},
    }


SCHEMA: dict[str, Any] = {
    "type": "object",
    "required": ["name"],
    "properties": {
        "name": {"type": "string", "minLength": 1, "maxLength": 3, "pattern": "^[a-z]*$"},
        "count": {"type": "integer", "format": "int32", "minimum": 1, "maximum": 5},
        "share": {"x-kubernetes-int-or-string": True, "minimum": 0, "pattern": "^[0-9]+%$"},
        "on": {"type": "boolean"},
        "score": {"type": "number"},
        "colour": {"type": "string", "enum": ["red", "blue"]},
        "tags": {"type": "array", "x-kubernetes-list-type": "set", "maxItems": 2, "items": {"type": "string"}},
        "labels": {"type": "object", "additionalProperties": {"type": "string"}},
        "open": {"type": "object", "x-kubernetes-preserve-unknown-fields": True},
    },
}


@pytest.mark.parametrize(
    ("document", "path", "kind"),
    [
        ({}, "name", Departure.REQUIRED),
        ({"name": "a", "nam": 1}, "nam", Departure.UNKNOWN),
        ({"name": 1}, "name", Departure.TYPE),
        ({"name": ""}, "name", Departure.BOUND),
        ({"name": "abcd"}, "name", Departure.BOUND),
        ({"name": "A"}, "name", Departure.BOUND),
        ({"name": "a", "count": 0}, "count", Departure.BOUND),
        ({"name": "a", "count": 6}, "count", Departure.BOUND),
        ({"name": "a", "count": True}, "count", Departure.TYPE),
        ({"name": "a", "count": 1.5}, "count", Departure.TYPE),
        ({"name": "a", "share": "x"}, "share", Departure.BOUND),
        ({"name": "a", "share": -1}, "share", Departure.BOUND),
        ({"name": "a", "share": []}, "share", Departure.TYPE),
        ({"name": "a", "on": "yes"}, "on", Departure.TYPE),
        ({"name": "a", "score": "1"}, "score", Departure.TYPE),
        ({"name": "a", "colour": "green"}, "colour", Departure.ENUM),
        ({"name": "a", "tags": ["a", "a"]}, "tags[1]", Departure.DUPLICATE),
        ({"name": "a", "tags": ["a", "b", "c"]}, "tags", Departure.BOUND),
        ({"name": "a", "tags": "a"}, "tags", Departure.TYPE),
        ({"name": "a", "labels": {"b": 1}}, "labels[b]", Departure.TYPE),
    ],
)
def test_a_departure_is_found_where_it_is(document: dict[str, Any], path: str, kind: Departure) -> None:
    assert [(m.path, m.kind) for m in mismatches(document, SCHEMA)] == [(path, kind)]


def test_a_document_that_fits_has_no_departures() -> None:
    document = {"name": "a", "count": 5, "share": "5%", "score": 1, "labels": {"x": "y"}, "open": {"any": [1]}}
    assert list(mismatches(document, SCHEMA)) == []
