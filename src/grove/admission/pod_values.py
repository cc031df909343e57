"""Values inside a pod spec that its schema leaves open and the API server does not: known words, one of several ways to
say a thing, names that lead somewhere.

Looked at is what is there; a pod spec that uses none of it costs next to nothing. Values of a wrong shape are passed
over: the schema has judged those.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Iterator, Mapping
from typing import Any

from grove.admission.findings import FieldError, forbidden, invalid, required, unsupported

Json = dict[str, Any]
Words = Mapping[str, tuple[str, ...]]

_POD_WORDS: Words = {"dnsPolicy": ("ClusterFirst", "ClusterFirstWithHostNet", "Default", "None")}
_CONTAINER_WORDS: Words = {
    "imagePullPolicy": ("Always", "IfNotPresent", "Never"),
    "terminationMessagePolicy": ("FallbackToLogsOnError", "File"),
    "restartPolicy": ("Always", "OnFailure", "Never"),
}
_PROBES = ("livenessProbe", "readinessProbe", "startupProbe")
_PROBE_WAYS = ("exec", "httpGet", "tcpSocket", "grpc")
_HOOKS = ("postStart", "preStop")
_HOOK_WAYS = ("exec", "httpGet", "tcpSocket", "sleep")
_ENV_SOURCES = ("fieldRef", "resourceFieldRef", "configMapKeyRef", "secretKeyRef", "fileKeyRef")
_ENV_FROM = ("configMapRef", "secretRef")
_CLAIM_WAYS = ("resourceClaimName", "resourceClaimTemplateName")
_EFFECTS = ("NoSchedule", "PreferNoSchedule", "NoExecute")
_OPERATORS = ("Equal", "Exists", "Gt", "Lt")
_STANDARD = ("cpu", "memory", "ephemeral-storage")


def of_pod(path: str, spec: Json) -> Iterator[FieldError]:
    yield from _words(path, spec, _POD_WORDS)
    if spec.get("priority") is not None:
        yield forbidden(f"{path}.priority", "must not be set: it follows from the class", "say priorityClassName")
    for field, item in _listed(path, spec, "volumes"):
        sources = sorted(key for key, value in item.items() if key != "name" and value is not None)
        if len(sources) > 1:
            yield invalid(field, item.get("name"), f"may have one source, not {' and '.join(sources)}")
    for field, item in _listed(path, spec, "resourceClaims"):
        yield from _one_way(field, item, _CLAIM_WAYS)
    for field, item in _listed(path, spec, "hostAliases"):
        if not _is_address(item.get("ip")):
            yield invalid(f"{field}.ip", item.get("ip"), "must be an IP address such as 10.9.8.7")
    for field, item in _listed(path, spec, "tolerations"):
        yield from _toleration(field, item)


def of_container(path: str, container: Json, volumes: set[str]) -> Iterator[FieldError]:
    yield from _words(path, container, _CONTAINER_WORDS)
    for probe in _PROBES:
        if isinstance(container.get(probe), dict):
            yield from _one_way(f"{path}.{probe}", container[probe], _PROBE_WAYS)
    lifecycle = container.get("lifecycle")
    if isinstance(lifecycle, dict):
        for hook in _HOOKS:
            if isinstance(lifecycle.get(hook), dict):
                yield from _one_way(f"{path}.lifecycle.{hook}", lifecycle[hook], _HOOK_WAYS)
    for field, item in _listed(path, container, "envFrom"):
        yield from _one_way(field, item, _ENV_FROM)
    for field, item in _listed(path, container, "volumeDevices"):
        if item.get("name") not in volumes:
            yield invalid(f"{field}.name", item.get("name"), "no volume has this name")
    entries = container.get("env")
    for index, item in enumerate(entries if isinstance(entries, list) else ()):
        if isinstance(item, dict) and "valueFrom" in item:  # most have none, and there are many
            yield from _env_source(f"{path}.env[{index}].valueFrom", item)


def resource_name(path: str, name: str) -> Iterator[FieldError]:
    if "/" not in name and name not in _STANDARD and not name.startswith("hugepages-"):
        words = "must be cpu, memory, ephemeral-storage, hugepages-<size> or a name such as nvidia.com/gpu"
        yield invalid(path, name, words)


def _env_source(path: str, item: Json) -> Iterator[FieldError]:
    source = item["valueFrom"]
    if source is not None and item.get("value"):
        yield invalid(path, item.get("name"), "may not be set beside value", "keep one of them")
    if isinstance(source, dict):
        yield from _one_way(path, source, _ENV_SOURCES)


def _toleration(path: str, item: Json) -> Iterator[FieldError]:
    operator, effect = item.get("operator") or "Equal", item.get("effect")
    if operator not in _OPERATORS:
        yield unsupported(f"{path}.operator", operator, _OPERATORS)
    elif not item.get("key") and operator != "Exists":
        yield invalid(f"{path}.operator", operator, "must be Exists when key is empty, which means all keys")
    elif operator == "Exists" and item.get("value"):
        yield invalid(f"{path}.value", item["value"], "must be empty when operator is Exists")
    if effect and effect not in _EFFECTS:
        yield unsupported(f"{path}.effect", effect, _EFFECTS)
    if item.get("tolerationSeconds") is not None and effect != "NoExecute":
        yield invalid(f"{path}.effect", effect, "must be NoExecute when tolerationSeconds is set")


def _words(path: str, holder: Json, known: Words) -> Iterator[FieldError]:
    for field, allowed in known.items():
        value = holder.get(field)
        if value and value not in allowed:
            yield unsupported(f"{path}.{field}", value, allowed)


def _one_way(path: str, holder: Json, ways: tuple[str, ...]) -> Iterator[FieldError]:
    said = [way for way in ways if holder.get(way) is not None]
    if not said:
        yield required(path, f"must say one of {', '.join(ways)}")
    elif len(said) > 1:
        yield forbidden(path, f"may not say {' and '.join(said)} at once", "keep one of them")


def _listed(path: str, holder: Json, field: str) -> Iterator[tuple[str, Json]]:
    items = holder.get(field)
    for index, item in enumerate(items if isinstance(items, list) else ()):
        if isinstance(item, dict):
            yield f"{path}.{field}[{index}]", item


def _is_address(text: Any) -> bool:
    try:
        ipaddress.ip_address(str(text))
    except ValueError:
        return False
    return True
