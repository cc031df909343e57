"""Cliques: there is one at least, each has pods and a minimum it can reach, and one scheduler places them all."""

from __future__ import annotations

import re
from collections.abc import Iterator

from grove.admission.context import CLIQUES, TEMPLATE, Case
from grove.admission.findings import FieldError, invalid, required, unsupported
from grove.api import duration
from grove.api.pod_clique import PodCliqueSpec
from grove.api.schema import QUALIFIED_NAME, QUALIFIED_NAME_LENGTH

_KEY = re.compile(QUALIFIED_NAME)
_LABEL_VALUE = re.compile(r"([A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?)?")


def check(case: Case) -> Iterator[FieldError]:
    if case.new.spec.replicas < 0:
        yield invalid("spec.replicas", case.new.spec.replicas, "must not be negative")
    if not case.template.cliques:
        yield required(CLIQUES, "a PodCliqueSet needs at least one clique")
    for path, clique in case.cliques():
        yield from _counts(f"{path}.spec", clique.spec)
        yield from _labels(f"{path}.labels", clique.labels)
        yield from _keys(f"{path}.annotations", clique.annotations)
    yield from _schedulers(case)
    yield from _termination(case)


def _counts(path: str, spec: PodCliqueSpec) -> Iterator[FieldError]:
    if spec.replicas < 1:
        yield invalid(f"{path}.replicas", spec.replicas, "must be greater than 0")
    if spec.min_available is None:
        return
    if spec.min_available < 1:
        yield invalid(f"{path}.minAvailable", spec.min_available, "must be greater than 0")
    elif spec.min_available > spec.replicas:
        yield invalid(
            f"{path}.minAvailable",
            spec.min_available,
            f"must not be greater than replicas {spec.replicas}",
            "raise replicas or lower minAvailable",
        )


def _labels(path: str, labels: dict[str, str]) -> Iterator[FieldError]:
    yield from _keys(path, labels)
    for key, value in labels.items():
        if not _LABEL_VALUE.fullmatch(value):
            yield invalid(f"{path}[{key}]", value, "must be a label value: up to 63 letters, digits, '-', '_' and '.'")


def _keys(path: str, entries: dict[str, str]) -> Iterator[FieldError]:
    for key in entries:
        if len(key) > QUALIFIED_NAME_LENGTH or not _KEY.match(key):
            yield invalid(f"{path}[{key}]", key, "must be a key such as example.com/name")


def _schedulers(case: Case) -> Iterator[FieldError]:
    """All pods of a gang must be placed by one scheduler, and the operator must know it."""
    first: str | None = None
    for path, clique in case.cliques():
        written = clique.spec.pod_spec.get("schedulerName")
        name = written if isinstance(written, str) and written else case.context.default_scheduler
        field = f"{path}.spec.podSpec.schedulerName"
        if case.context.schedulers is not None and name not in case.context.schedulers:
            yield unsupported(field, name, sorted(case.context.schedulers))
        first = first or name
        if name != first:
            yield invalid(
                field, name, f"all cliques must use one scheduler; the first uses '{first}'", f"say '{first}'"
            )


def _termination(case: Case) -> Iterator[FieldError]:
    text = case.template.termination_delay
    path = f"{TEMPLATE}.terminationDelay"
    if text is None:
        return
    try:
        delay = duration.parse(text).total_seconds()
    except ValueError as error:
        yield invalid(path, text, str(error))
        return
    if delay <= 0:
        yield invalid(
            path,
            text,
            "must be greater than 0",
            "to switch gang termination off say terminationPolicy: Never",
        )
