"""Multi-node NVLink: annotations on the set, a scaling group or a clique; the nearest one to a clique counts for it.

The values are known ones, the cluster can serve what they ask for, and a domain per group replica needs a group.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from grove.admission.context import Case
from grove.admission.findings import FieldError, forbidden, invalid, unsupported
from grove.api import labels
from grove.api.devices import COMPUTE_DOMAIN_DRIVER
from grove.api.pod_clique_set import CliqueTemplate

SCOPES = ("replica", "clique", "scalingGroupReplica")
CLAIM = "mnnvl"
_GROUPED = "scalingGroupReplica"
_SUBDOMAIN = re.compile(r"(?=.{1,253}$)[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*")
_FOREIGN = "grove.io/mnnvl-group"


def check(case: Case) -> Iterator[FieldError]:
    for path, said in _places(case):
        yield from _values(path, said)
        if said.get(labels.MNNVL_ENABLED) == "true":
            yield from _served(f"{path}[{labels.MNNVL_ENABLED}]", case)
    for path, clique in case.cliques():
        yield from _clique(path, clique, case)
    yield from _device_classes(case)


def warnings(case: Case) -> Iterator[str]:
    for path, said in _places(case):
        if _FOREIGN in said:
            yield f"{path}[{_FOREIGN}] is not known here; say {labels.MNNVL_ENABLED} and {labels.MNNVL_SCOPE}"


def settings(annotations: dict[str, str]) -> dict[str, str]:
    """The annotations that speak of MNNVL."""
    return {key: annotations[key] for key in labels.MNNVL_ANNOTATIONS if key in annotations}


def _places(case: Case) -> Iterator[tuple[str, dict[str, str]]]:
    yield "metadata.annotations", case.new.metadata.annotations
    for path, group in case.groups():
        yield f"{path}.annotations", group.annotations
    for path, clique in case.cliques():
        yield f"{path}.annotations", clique.annotations


def _values(path: str, annotations: dict[str, str]) -> Iterator[FieldError]:
    enabled = annotations.get(labels.MNNVL_ENABLED, "true")
    if enabled not in ("true", "false"):
        yield unsupported(f"{path}[{labels.MNNVL_ENABLED}]", enabled, ("true", "false"))
    scope = annotations.get(labels.MNNVL_SCOPE, "replica")
    if scope not in SCOPES:
        yield unsupported(f"{path}[{labels.MNNVL_SCOPE}]", scope, SCOPES)
    device_class = annotations.get(labels.MNNVL_DEVICE_CLASS)
    if device_class is not None and not _SUBDOMAIN.fullmatch(device_class):
        yield invalid(f"{path}[{labels.MNNVL_DEVICE_CLASS}]", device_class, "must be the name of a DeviceClass")


def _served(field: str, case: Case) -> Iterator[FieldError]:
    if not case.context.mnnvl_enabled:
        yield forbidden(
            field,
            "MNNVL is not enabled in the operator configuration",
            "remove the annotation or ask an administrator to set mnnvl.enabled",
        )
    elif not case.context.compute_domains_served:
        yield forbidden(
            field,
            "this cluster has no ComputeDomain resource (resource.nvidia.com), which MNNVL needs",
            "remove the annotation or ask an administrator to install the NVIDIA DRA driver",
        )


def _clique(path: str, clique: CliqueTemplate, case: Case) -> Iterator[FieldError]:
    """What the nearest annotations mean for one clique."""
    group = case.groups_by_clique.get(clique.name)
    own = f"{path}.annotations[{labels.MNNVL_SCOPE}]"
    nearest = [(own, clique.annotations)]
    if group is not None:
        nearest.append(("", group.annotations))
    nearest.append((f"metadata.annotations[{labels.MNNVL_SCOPE}]", case.new.metadata.annotations))
    enabled = next((a[labels.MNNVL_ENABLED] for _, a in nearest if labels.MNNVL_ENABLED in a), "false")
    field, scope = next(
        ((field, a[labels.MNNVL_SCOPE]) for field, a in nearest if labels.MNNVL_SCOPE in a), ("", "replica")
    )
    asks = enabled == "true"
    if scope == _GROUPED and group is None and (asks or field == own):
        yield invalid(
            field,
            scope,
            f"clique '{clique.name}' belongs to no scaling group",
            "say replica or clique, or put the annotation on the scaling group that is meant",
        )
    if asks:
        yield from _claim_name(path, clique)


def _claim_name(path: str, clique: CliqueTemplate) -> Iterator[FieldError]:
    claims = clique.spec.pod_spec.get("resourceClaims")
    for index, claim in enumerate(claims if isinstance(claims, list) else []):
        if isinstance(claim, dict) and claim.get("name") == CLAIM:
            field = f"{path}.spec.podSpec.resourceClaims[{index}].name"
            yield invalid(field, CLAIM, "this name is taken by the claim that MNNVL adds", "rename the claim")


def _device_classes(case: Case) -> Iterator[FieldError]:
    """Cliques that share a ComputeDomain share its claim, which asks for one device class."""
    first: dict[str, tuple[str, str]] = {}
    for path, clique in case.cliques():
        group = case.groups_by_clique.get(clique.name)
        said = settings(case.new.metadata.annotations)
        said |= settings(group.annotations if group else {}) | settings(clique.annotations)
        scope = said.get(labels.MNNVL_SCOPE, "replica")
        if said.get(labels.MNNVL_ENABLED) != "true" or scope == "clique":
            continue
        asked = said.get(labels.MNNVL_DEVICE_CLASS, COMPUTE_DOMAIN_DRIVER)
        shared = group.name if group and scope == _GROUPED else ""
        name, other = first.setdefault(shared, (clique.name, asked))
        if asked != other:
            field = f"{path}.annotations[{labels.MNNVL_DEVICE_CLASS}]"
            detail = f"clique '{name}' shares the ComputeDomain and asks for device class '{other}'"
            yield invalid(field, asked, detail, "ask for one device class, or give the clique scope clique")
