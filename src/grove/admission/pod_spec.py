"""Pod specs: what the operator decides itself must not be set, and what the API server would refuse in a pod is refused
here, before anything has been made from it.

The schema has judged shapes already; values of a wrong shape are passed over.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from grove.admission import pod_values
from grove.admission.context import Case
from grove.admission.findings import FieldError, Names, duplicate, forbidden, invalid, required, unsupported
from grove.admission.quantity import amount
from grove.api import labels

_LABEL = re.compile(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?")
_LABEL_WORDS = "must be up to 63 lower case letters, digits and '-', beginning and ending with a letter or digit"
_SUBDOMAIN = re.compile(r"(?=.{1,253}$)[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*")
_SUBDOMAIN_WORDS = "must be the name of an object: lower case letters, digits, '-' and '.', up to 253"
_ENV_NAME = re.compile(r"[^=\x00-\x1f\x7f-\uffff]+")
_PORT_NAME = re.compile(r"(?=.{1,15}$)(?=.*[a-z])(?!.*--)[a-z0-9]([-a-z0-9]*[a-z0-9])?")
_PORT_WORDS = "must be up to 15 lower case letters, digits and single '-' inside, with at least one letter"
_PROTOCOLS = ("TCP", "UDP", "SCTP")
_RESTART_POLICIES = ("Always", "OnFailure", "Never")
_RESERVED_ENV = frozenset(
    {
        labels.ENV_SET_NAME,
        labels.ENV_SET_INDEX,
        labels.ENV_CLIQUE_NAME,
        labels.ENV_HEADLESS_SERVICE,
        labels.ENV_POD_INDEX,
        labels.ENV_GROUP_NAME,
        labels.ENV_GROUP_INDEX,
        labels.ENV_GROUP_PODS,
    }
)
# The operator places pods by gang and topology; these would contradict it.
_NOT_YOURS = {
    "nodeName": "the scheduler places the pods of a gang together",
    "topologySpreadConstraints": "placement follows topologyConstraint",
    "ephemeralContainers": "they can be added to running pods alone",
}

Json = dict[str, Any]


def check(case: Case) -> Iterator[FieldError]:
    before = {} if case.old is None else {c.name: c.spec.pod_spec for c in case.old.spec.template.cliques}
    for path, clique in case.cliques():
        # A pod spec that stays as it is was judged when it came; most updates change one of many.
        if clique.spec.pod_spec != before.get(clique.name):
            yield from _pod(f"{path}.spec.podSpec", clique.spec.pod_spec)


def warnings(case: Case) -> Iterator[str]:
    for path, clique in case.cliques():
        spec = clique.spec.pod_spec
        for field in ("hostname", "subdomain"):
            if spec.get(field):
                yield f"{path}.spec.podSpec.{field} is replaced: the operator gives every pod its own DNS name"
        for where, container in _containers(spec):
            for index, entry in enumerate(_dicts(container.get("env"))):
                if str(entry.get("name")) in _RESERVED_ENV:
                    yield f"{path}.spec.podSpec.{where}.env[{index}] is replaced: the operator sets {entry['name']}"


def _pod(path: str, spec: Json) -> Iterator[FieldError]:
    for field, reason in _NOT_YOURS.items():
        if spec.get(field):
            yield forbidden(f"{path}.{field}", f"must not be set: {reason}")
    if not spec.get("containers"):
        yield required(f"{path}.containers", "a pod needs at least one container")
    policy = spec.get("restartPolicy", "Always")
    if policy not in _RESTART_POLICIES:
        yield unsupported(f"{path}.restartPolicy", policy, _RESTART_POLICIES)
    for field, least in (("terminationGracePeriodSeconds", 0), ("activeDeadlineSeconds", 1)):
        value = spec.get(field)
        if isinstance(value, int) and value < least:
            yield invalid(f"{path}.{field}", value, f"must be at least {least}")
    for field in ("serviceAccountName", "priorityClassName", "runtimeClassName"):
        value = spec.get(field)
        if isinstance(value, str) and value and not _SUBDOMAIN.fullmatch(value):
            yield invalid(f"{path}.{field}", value, _SUBDOMAIN_WORDS)
    yield from _named_once(f"{path}.volumes", _dicts(spec.get("volumes")))
    yield from _named_once(f"{path}.resourceClaims", _dicts(spec.get("resourceClaims")))
    yield from _named_once(f"{path}.schedulingGates", _dicts(spec.get("schedulingGates")), label=False)
    yield from pod_values.of_pod(path, spec)
    yield from _all_containers(path, spec)


def _all_containers(path: str, spec: Json) -> Iterator[FieldError]:
    seen = Names()
    volumes = {str(volume.get("name")) for volume in _dicts(spec.get("volumes"))}
    claims = {str(claim.get("name")) for claim in _dicts(spec.get("resourceClaims"))}
    for where, container in _containers(spec):
        field = f"{path}.{where}"
        name = str(container.get("name") or "")
        if seen.repeated(name) and name:
            yield duplicate(f"{field}.name", name, "another container has this name")
        if name == labels.INIT_CONTAINER:
            yield invalid(f"{field}.name", name, "this name is taken by the container that keeps the start order")
        yield from _container(field, container)
        yield from pod_values.of_container(field, container, volumes)
        yield from _mounts(field, container, volumes)
        yield from _claims(field, container, claims)


def _container(path: str, container: Json) -> Iterator[FieldError]:
    name = container.get("name")
    if not name:
        yield required(f"{path}.name", "a container needs a name")
    elif not _LABEL.fullmatch(str(name)):
        yield invalid(f"{path}.name", name, _LABEL_WORDS)
    image = container.get("image")
    if not image:
        yield required(f"{path}.image", "a container needs an image")
    elif str(image) != str(image).strip():
        yield invalid(f"{path}.image", image, "must not begin or end with a space")
    yield from _env(f"{path}.env", _dicts(container.get("env")))
    yield from _ports(f"{path}.ports", _dicts(container.get("ports")))
    resources = container.get("resources")
    if isinstance(resources, dict):
        yield from _resources(f"{path}.resources", resources)


def _env(path: str, entries: list[Json]) -> Iterator[FieldError]:
    names = [entry.get("name") for entry in entries]
    if len(set(map(str, names))) == len(names) and all(map(_is_env_name, names)):
        return
    seen = Names()
    for index, entry in enumerate(entries):
        name = str(entry.get("name") or "")
        if not name:
            yield required(f"{path}[{index}].name", "must be set")
        elif not _ENV_NAME.fullmatch(name):
            yield invalid(f"{path}[{index}].name", name, "must be printable characters without '='")
        elif seen.repeated(name):
            yield duplicate(f"{path}[{index}].name", name, "listed twice")


def _is_env_name(name: Any) -> bool:
    # Nearly all are identifiers, and there are many.
    return isinstance(name, str) and ((name.isascii() and name.isidentifier()) or bool(_ENV_NAME.fullmatch(name)))


def _ports(path: str, ports: list[Json]) -> Iterator[FieldError]:
    seen = Names()
    for index, port in enumerate(ports):
        number = port.get("containerPort")
        if isinstance(number, int) and not 0 < number < 65536:
            yield invalid(f"{path}[{index}].containerPort", number, "must be between 1 and 65535")
        protocol = port.get("protocol", "TCP")
        if protocol not in _PROTOCOLS:
            yield unsupported(f"{path}[{index}].protocol", protocol, _PROTOCOLS)
        name = port.get("name")
        if name and seen.repeated(str(name)):
            yield duplicate(f"{path}[{index}].name", name, "listed twice")
        elif name and not _PORT_NAME.fullmatch(str(name)):
            yield invalid(f"{path}[{index}].name", name, _PORT_WORDS)


def _resources(path: str, resources: Json) -> Iterator[FieldError]:
    limits, requests = _dict(resources.get("limits")), _dict(resources.get("requests"))
    for kind, entries in (("limits", limits), ("requests", requests)):
        for name, value in entries.items():
            yield from pod_values.resource_name(f"{path}.{kind}[{name}]", name)
            size = amount(value)
            if size is None:
                yield invalid(f"{path}.{kind}[{name}]", value, "must be a quantity such as 500m, 2 or 16Gi")
            elif size < 0:
                yield invalid(f"{path}.{kind}[{name}]", value, "must not be negative")
            elif _is_device(name) and size != int(size):
                yield invalid(f"{path}.{kind}[{name}]", value, "devices are whole: must be a whole number")
    yield from _requests_within_limits(path, limits, requests)


def _requests_within_limits(path: str, limits: Json, requests: Json) -> Iterator[FieldError]:
    for name, value in requests.items():
        asked, most = amount(value), amount(limits.get(name))
        if asked is None:
            continue
        if _is_device(name) and most != asked:
            yield invalid(f"{path}.requests[{name}]", value, "devices cannot be overcommitted: must equal the limit")
        elif most is not None and asked > most:
            yield invalid(f"{path}.requests[{name}]", value, f"must not be greater than the limit {limits[name]}")


def _is_device(name: str) -> bool:
    """Resources outside Kubernetes' own names, such as nvidia.com/gpu."""
    return "/" in name and not name.partition("/")[0].endswith("kubernetes.io")


def _mounts(path: str, container: Json, volumes: set[str]) -> Iterator[FieldError]:
    for index, mount in enumerate(_dicts(container.get("volumeMounts"))):
        if str(mount.get("name")) not in volumes:
            yield invalid(f"{path}.volumeMounts[{index}].name", mount.get("name"), "no volume has this name")


def _claims(path: str, container: Json, claims: set[str]) -> Iterator[FieldError]:
    for index, claim in enumerate(_dicts(_dict(container.get("resources")).get("claims"))):
        if str(claim.get("name")) not in claims:
            yield invalid(
                f"{path}.resources.claims[{index}].name", claim.get("name"), "no resource claim has this name"
            )


def _named_once(path: str, entries: list[Json], *, label: bool = True) -> Iterator[FieldError]:
    seen = Names()
    for index, entry in enumerate(entries):
        name = str(entry.get("name") or "")
        if not name:
            yield required(f"{path}[{index}].name", "must be set")
        elif label and not _LABEL.fullmatch(name):
            yield invalid(f"{path}[{index}].name", name, _LABEL_WORDS)
        elif seen.repeated(name):
            yield duplicate(f"{path}[{index}].name", name, "listed twice")


def _containers(spec: Json) -> Iterator[tuple[str, Json]]:
    for kind in ("initContainers", "containers"):
        for index, container in enumerate(_dicts(spec.get(kind))):
            yield f"{kind}[{index}]", container


def _dict(value: Any) -> Json:
    return value if isinstance(value, dict) else {}


def _dicts(value: Any) -> list[Json]:
    return [item for item in value if isinstance(item, dict)] if isinstance(value, list) else []
