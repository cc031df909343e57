"""What cannot change after creation: who is in the system, how it starts, which minimum makes a gang, and MNNVL."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from grove.admission import mnnvl
from grove.admission.context import CLIQUES, GROUPS, TEMPLATE, Case
from grove.admission.findings import FieldError, forbidden, immutable
from grove.api import labels
from grove.api.pod_clique_set import CliqueTemplate, PodCliqueSet, ScalingGroupConfig

_ANY_ORDER = "CliqueStartupTypeAnyOrder"
_NEW_SET = "create a PodCliqueSet under another name and delete this one"


def check(case: Case) -> Iterator[FieldError]:
    old = case.old
    if old is None:
        return
    yield from _annotations("metadata.annotations", case.new.metadata.annotations, old.metadata.annotations)
    yield from _template(case, old)
    yield from _cliques(case, old)
    yield from _groups(case, old)


def _template(case: Case, old: PodCliqueSet) -> Iterator[FieldError]:
    new, before = case.template, old.spec.template
    if (new.clique_startup_type or _ANY_ORDER) != (before.clique_startup_type or _ANY_ORDER):
        yield immutable(f"{TEMPLATE}.cliqueStartupType", new.clique_startup_type)
    if new.resource_claim_templates != before.resource_claim_templates:
        yield immutable(f"{TEMPLATE}.resourceClaimTemplates", new.resource_claim_templates)
    if new.resource_sharing != before.resource_sharing:
        yield immutable(f"{TEMPLATE}.resourceSharing", new.resource_sharing)


def _cliques(case: Case, old: PodCliqueSet) -> Iterator[FieldError]:
    before = {clique.name: clique for clique in old.spec.template.cliques}
    names = [clique.name for clique in case.template.cliques]
    if set(names) != set(before):
        yield forbidden(CLIQUES, f"cliques cannot {_change(names, before)} after creation", _NEW_SET)
    elif case.template.clique_startup_type == "CliqueStartupTypeInOrder" and names != list(before):
        order = ", ".join(before)
        yield forbidden(CLIQUES, f"the order of cliques is their start order and cannot change: {order}", _NEW_SET)
    for path, clique in case.cliques():
        if clique.name in before:
            yield from _clique(path, clique, before[clique.name], case.context.default_scheduler)


def _clique(path: str, new: CliqueTemplate, old: CliqueTemplate, default_scheduler: str) -> Iterator[FieldError]:
    if new.spec.role_name != old.spec.role_name:
        yield immutable(f"{path}.spec.roleName", new.spec.role_name)
    if old.spec.min_available is not None and new.spec.min_available != old.spec.min_available:
        yield immutable(f"{path}.spec.minAvailable", new.spec.min_available)
    if set(new.spec.starts_after) != set(old.spec.starts_after):
        yield immutable(f"{path}.spec.startsAfter", new.spec.starts_after)
    if _scheduler(new, default_scheduler) != _scheduler(old, default_scheduler):
        yield immutable(f"{path}.spec.podSpec.schedulerName", new.spec.pod_spec.get("schedulerName"))
    if new.resource_sharing != old.resource_sharing:
        yield immutable(f"{path}.resourceSharing", new.resource_sharing)
    yield from _annotations(f"{path}.annotations", new.annotations, old.annotations)


def _groups(case: Case, old: PodCliqueSet) -> Iterator[FieldError]:
    before = {group.name: group for group in old.spec.template.pod_clique_scaling_groups}
    names = [group.name for group in case.template.pod_clique_scaling_groups]
    if set(names) != set(before):
        yield forbidden(GROUPS, f"scaling groups cannot {_change(names, before)} after creation", _NEW_SET)
    for path, group in case.groups():
        if group.name in before:
            yield from _group(path, group, before[group.name])


def _group(path: str, new: ScalingGroupConfig, old: ScalingGroupConfig) -> Iterator[FieldError]:
    if set(new.clique_names) != set(old.clique_names):
        yield immutable(f"{path}.cliqueNames", new.clique_names)
    if new.minimum != old.minimum:
        yield immutable(f"{path}.minAvailable", new.min_available)
    if new.resource_sharing != old.resource_sharing:
        yield immutable(f"{path}.resourceSharing", new.resource_sharing)
    yield from _annotations(f"{path}.annotations", new.annotations, old.annotations)


def _annotations(path: str, new: dict[str, str], old: dict[str, str]) -> Iterator[FieldError]:
    now, before = mnnvl.settings(new), mnnvl.settings(old)
    for key in labels.MNNVL_ANNOTATIONS:
        if now.get(key) != before.get(key):
            yield immutable(f"{path}[{key}]", now.get(key))


def _scheduler(clique: CliqueTemplate, default: str) -> Any:
    """The scheduler meant: an empty name is the default one, whatever way it is written."""
    return clique.spec.pod_spec.get("schedulerName") or default


def _change(names: list[str], before: dict[str, Any]) -> str:
    added, removed = sorted(set(names) - set(before)), sorted(set(before) - set(names))
    parts = [f"be added ({', '.join(added)})"] if added else []
    parts += [f"be removed ({', '.join(removed)})"] if removed else []
    return " or ".join(parts)
