"""What the server knows about each kind it serves: its path, scope, subresources, schema and merge types.

A `Resource` is one version of a kind. Core kinds come from the table in `coretable`, custom ones from CRD objects; the
versions of a kind share one table of stored objects.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from grove.testing import failures, fieldtypes, schema
from grove.testing.failures import Cause, Subject
from grove.testing.fieldtypes import FieldType
from grove.testing.objects import JsonObject

GroupResource = tuple[str, str]
"""API group and plural name: what identifies a table of objects."""


@dataclass(frozen=True, slots=True)
class ScalePaths:
    """Where the scale subresource finds its numbers, as field paths."""

    spec_replicas: tuple[str, ...] = ("spec", "replicas")
    status_replicas: tuple[str, ...] = ("status", "replicas")
    selector: tuple[str, ...] = ()


@dataclass(frozen=True, eq=False)
class Resource:
    """One served version of a kind."""

    group: str
    version: str
    kind: str
    plural: str
    namespaced: bool = True
    has_status: bool = False
    counts_generation: bool = False
    scale: ScalePaths | None = None
    custom: bool = False
    short_names: tuple[str, ...] = ()
    categories: tuple[str, ...] = ()
    merge_type: FieldType = fieldtypes.DEDUCED
    schema: schema.Node | None = None
    storage_version: str = ""
    subresources: tuple[str, ...] = ()
    needs_version_on_update: bool = False

    @property
    def api_version(self) -> str:
        return f"{self.group}/{self.version}" if self.group else self.version

    @property
    def group_resource(self) -> GroupResource:
        return (self.group, self.plural)

    @property
    def list_kind(self) -> str:
        return f"{self.kind}List"

    def subject(self, name: str) -> Subject:
        return Subject(self.plural, self.group, name, self.kind)


class Registry:
    """All served resources, found by path or by kind."""

    def __init__(self) -> None:
        self._by_path: dict[tuple[str, str, str], Resource] = {}
        self._by_kind: dict[tuple[str, str], Resource] = {}

    def add(self, resource: Resource) -> None:
        self._by_path[resource.group, resource.version, resource.plural] = resource
        self._by_kind[resource.api_version, resource.kind] = resource

    def remove(self, group: str, plural: str) -> None:
        for resource in [r for r in self if r.group_resource == (group, plural)]:
            del self._by_path[resource.group, resource.version, resource.plural]
            self._by_kind.pop((resource.api_version, resource.kind), None)

    def __iter__(self) -> Iterator[Resource]:
        return iter(list(self._by_path.values()))

    def find(self, group: str, version: str, plural: str) -> Resource | None:
        return self._by_path.get((group, version, plural))

    def of_kind(self, api_version: str, kind: str) -> Resource | None:
        return self._by_kind.get((api_version, kind))

    def groups(self) -> dict[str, list[str]]:
        """Served versions by group, in the order they were registered."""
        found: dict[str, list[str]] = {}
        for resource in self:
            versions = found.setdefault(resource.group, [])
            if resource.version not in versions:
                versions.append(resource.version)
        return found


_compiled: dict[int, tuple[JsonObject, list[Resource]]] = {}
_COMPILED_LIMIT = 64
"""Large schemas take tens of milliseconds: a simulation that starts thousands of servers compiles each only once."""


def resources_from_crd(crd: JsonObject) -> list[Resource]:
    """One resource per served version of a CustomResourceDefinition."""
    spec: JsonObject = crd["spec"]
    known = _compiled.get(id(spec))
    if known is not None and known[0] is spec:
        return known[1]
    resources = _compile(crd, spec)
    if len(_compiled) >= _COMPILED_LIMIT:
        del _compiled[next(iter(_compiled))]
    _compiled[id(spec)] = (spec, resources)
    return resources


def _compile(crd: JsonObject, spec: JsonObject) -> list[Resource]:
    storage = next((version["name"] for version in spec["versions"] if version.get("storage")), None)
    if storage is None:
        subject = Subject("customresourcedefinitions", "apiextensions.k8s.io", crd["metadata"]["name"], crd["kind"])
        causes = [Cause("FieldValueInvalid", "spec.versions", "Invalid value: must have exactly one storage version")]
        raise failures.invalid(subject, causes)
    return [_resource_of_version(spec, version, storage) for version in spec["versions"] if version.get("served", True)]


def _resource_of_version(spec: JsonObject, version: JsonObject, storage: str) -> Resource:
    names = spec["names"]
    open_api: JsonObject = (version.get("schema") or {}).get("openAPIV3Schema") or {
        "type": "object",
        "x-kubernetes-preserve-unknown-fields": True,
    }
    if spec.get("preserveUnknownFields"):
        open_api = {**open_api, "x-kubernetes-preserve-unknown-fields": True}
    subresources = version.get("subresources") or {}
    return Resource(
        group=spec["group"],
        version=version["name"],
        kind=names["kind"],
        plural=names["plural"],
        namespaced=spec["scope"] == "Namespaced",
        has_status="status" in subresources,
        counts_generation=True,
        scale=_scale_paths(subresources["scale"]) if "scale" in subresources else None,
        custom=True,
        short_names=tuple(names.get("shortNames") or ()),
        categories=tuple(names.get("categories") or ()),
        merge_type=fieldtypes.from_schema(open_api, root=True),
        schema=schema.compile_schema(open_api),
        storage_version=storage,
        needs_version_on_update=True,
    )


def _scale_paths(declared: JsonObject) -> ScalePaths:
    selector = declared.get("labelSelectorPath")
    return ScalePaths(
        spec_replicas=_steps(declared["specReplicasPath"]),
        status_replicas=_steps(declared["statusReplicasPath"]),
        selector=_steps(selector) if selector else (),
    )


def _steps(json_path: str) -> tuple[str, ...]:
    return tuple(step for step in json_path.split(".") if step)
