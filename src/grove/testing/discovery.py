"""The discovery documents: which groups, versions and resources the server offers, and the server's own version."""

from __future__ import annotations

from grove.testing import failures
from grove.testing.kinds import Registry, Resource
from grove.testing.objects import JsonObject

_VERBS = ["create", "delete", "deletecollection", "get", "list", "patch", "update", "watch"]
VERSION: JsonObject = {
    "major": "1",
    "minor": "35",
    "gitVersion": "v1.35.4",
    "platform": "linux/amd64",
}


def document(path: str, registry: Registry) -> JsonObject:
    """The answer to a path that is not about objects; raises NotFound for any other path."""
    parts = [part for part in path.split("/") if part]
    match parts:
        case ["version"]:
            return VERSION
        case ["api"]:
            return {"kind": "APIVersions", "versions": ["v1"], "serverAddressByClientCIDRs": []}
        case ["api", version] if version == "v1":
            return _resource_list(registry, "", "v1")
        case ["apis"]:
            groups = [_group(name, versions) for name, versions in registry.groups().items() if name]
            return {"kind": "APIGroupList", "apiVersion": "v1", "groups": groups}
        case ["apis", group] if group in registry.groups():
            return {"apiVersion": "v1", **_group(group, registry.groups()[group], kind="APIGroup")}
        case ["apis", group, version] if version in registry.groups().get(group, ()):
            return _resource_list(registry, group, version)
        case _:
            raise failures.path_not_found()


def _group(name: str, versions: list[str], **more: str) -> JsonObject:
    served = [{"groupVersion": f"{name}/{version}", "version": version} for version in versions]
    return {**more, "name": name, "versions": served, "preferredVersion": served[0]}


def _resource_list(registry: Registry, group: str, version: str) -> JsonObject:
    entries = []
    for resource in registry:
        if (resource.group, resource.version) == (group, version):
            entries.extend(_entries(resource))
    group_version = f"{group}/{version}" if group else version
    return {"kind": "APIResourceList", "apiVersion": "v1", "groupVersion": group_version, "resources": entries}


def _entries(resource: Resource) -> list[JsonObject]:
    own: JsonObject = {
        "name": resource.plural,
        "singularName": resource.kind.lower(),
        "namespaced": resource.namespaced,
        "kind": resource.kind,
        "verbs": _VERBS,
    }
    if resource.short_names:
        own["shortNames"] = list(resource.short_names)
    if resource.categories:
        own["categories"] = list(resource.categories)
    entries = [own]
    if resource.has_status:
        entries.append(_subresource(resource, "status", resource.kind, ["get", "patch", "update"]))
    if resource.scale is not None:
        scale = _subresource(resource, "scale", "Scale", ["get", "patch", "update"])
        entries.append({**scale, "group": "autoscaling", "version": "v1"})
    return entries + [_subresource(resource, name, name.capitalize(), ["create"]) for name in resource.subresources]


def _subresource(resource: Resource, name: str, kind: str, verbs: list[str]) -> JsonObject:
    return {
        "name": f"{resource.plural}/{name}",
        "singularName": "",
        "namespaced": resource.namespaced,
        "kind": kind,
        "verbs": verbs,
    }
