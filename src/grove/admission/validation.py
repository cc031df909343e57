"""Judges a PodCliqueSet: runs every rule family and collects all that is wrong.

- An object that is being deleted, and a change that touches neither the spec nor the MNNVL annotations, pass unseen:
  finalizers must always come off.
- An update is judged by what it does. A complaint the stored object already deserves (a scheduler that was disabled
  since, a rule that came with an upgrade) becomes a warning and does not stand in the way of the change.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import msgspec

from grove.admission import (
    autoscaling,
    cliques,
    immutability,
    mnnvl,
    names,
    neighbours,
    pod_spec,
    resource_sharing,
    scaling_groups,
    startup_order,
    structure,
    topology,
    updates,
)
from grove.admission.context import Case, Context
from grove.admission.findings import ADMITTED, FieldError, Verdict, invalid
from grove.api.pod_clique_set import PodCliqueSet

Json = dict[str, Any]

FAMILIES: tuple[Callable[[Case], Iterator[FieldError]], ...] = (
    names.check,
    neighbours.check,
    cliques.check,
    scaling_groups.check,
    startup_order.check,
    autoscaling.check,
    updates.check,
    topology.check,
    mnnvl.check,
    pod_spec.check,
    resource_sharing.check,
)
ADVISERS: tuple[Callable[[Case], Iterator[str]], ...] = (
    startup_order.warnings,
    updates.warnings,
    topology.warnings,
    mnnvl.warnings,
    pod_spec.warnings,
    resource_sharing.warnings,
)


def validate(new: PodCliqueSet | Json, old: PodCliqueSet | Json | None, context: Context) -> Verdict:
    """What is wrong with a PodCliqueSet that is created (no old one) or updated."""
    if isinstance(new, dict) and _passes_unread(new, old):
        return ADMITTED
    try:
        after, before = _decoded(new), None if old is None else _decoded(old)
    except msgspec.ValidationError as error:
        found = structure.check(new, "PodCliqueSet") if isinstance(new, dict) else []
        return Verdict(tuple(found) or (invalid("", "", str(error)),))
    if after.metadata.terminating or (before is not None and _same_wish(after, before)):
        return ADMITTED
    return _judged(after, before, context)


def _judged(new: PodCliqueSet, old: PodCliqueSet | None, context: Context) -> Verdict:
    case = Case(new, old, context)
    errors = _errors(case)
    warnings = [warning for advise in ADVISERS for warning in advise(case)]
    if errors and old is not None:
        known = set(_errors(Case(old, None, context)))
        warnings += [f"{error} (was so before this change)" for error in errors if error in known]
        errors = [error for error in errors if error not in known]
    errors += immutability.check(case)
    return Verdict(tuple(errors), tuple(warnings))


def _errors(case: Case) -> list[FieldError]:
    return [error for family in FAMILIES for error in family(case)]


def _decoded(value: PodCliqueSet | Json) -> PodCliqueSet:
    return value if isinstance(value, PodCliqueSet) else msgspec.convert(value, PodCliqueSet)


def _passes_unread(new: Json, old: PodCliqueSet | Json | None) -> bool:
    """The two cases that must pass whatever the rest of the document looks like."""
    metadata = new.get("metadata")
    if isinstance(metadata, dict) and metadata.get("deletionTimestamp"):
        return True
    if not isinstance(old, dict) or not isinstance(metadata, dict):
        return False
    before = old.get("metadata")
    return new.get("spec") == old.get("spec") and _settings(metadata) == _settings(before)


def _settings(metadata: Any) -> dict[str, str]:
    annotations = metadata.get("annotations") if isinstance(metadata, dict) else None
    return mnnvl.settings(annotations) if isinstance(annotations, dict) else {}


def _same_wish(new: PodCliqueSet, old: PodCliqueSet) -> bool:
    return new.spec == old.spec and mnnvl.settings(new.metadata.annotations) == mnnvl.settings(old.metadata.annotations)
