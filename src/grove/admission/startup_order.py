"""Start order: with explicit order, `startsAfter` names other cliques and never runs in a circle."""

from __future__ import annotations

from collections.abc import Iterator

from grove.admission.context import Case
from grove.admission.findings import FieldError, forbidden, invalid, repetitions
from grove.api.pod_clique_set import CliqueTemplate

EXPLICIT = "CliqueStartupTypeExplicit"


def check(case: Case) -> Iterator[FieldError]:
    if case.template.clique_startup_type != EXPLICIT:
        return
    known = {clique.name for clique in case.template.cliques}
    for path, clique in case.cliques():
        yield from _dependencies(f"{path}.spec.startsAfter", clique, known)
    circle = _circle({clique.name: clique.spec.starts_after for clique in case.template.cliques})
    if circle:
        steps = " after ".join([*circle, circle[0]])
        yield forbidden(
            "spec.template.cliques", f"start order runs in a circle: {steps}", "remove one of these startsAfter"
        )


def warnings(case: Case) -> Iterator[str]:
    if case.template.clique_startup_type == EXPLICIT:
        return
    for path, clique in case.cliques():
        if clique.spec.starts_after:
            yield f"{path}.spec.startsAfter has no effect unless cliqueStartupType is {EXPLICIT}"


def _dependencies(path: str, clique: CliqueTemplate, known: set[str]) -> Iterator[FieldError]:
    yield from repetitions(path, clique.spec.starts_after, "listed twice")
    for index, name in enumerate(clique.spec.starts_after):
        field = f"{path}[{index}]"
        if not name:
            yield invalid(field, name, "must be the name of a clique")
        elif name == clique.name:
            yield invalid(field, name, "a clique cannot start after itself")
        elif name not in known:
            yield invalid(field, name, "no clique has this name", f"the cliques are: {', '.join(sorted(known))}")


def _circle(dependencies: dict[str, list[str]]) -> list[str]:
    """One circle of cliques that wait for each other, in waiting order; empty when there is none."""
    done: set[str] = set()
    for start in dependencies:
        trail: list[str] = []
        pending = [iter([start])]
        while pending:
            name = next(pending[-1], None)
            if name is None:
                pending.pop()
                if trail:
                    done.add(trail.pop())
            elif name in trail:
                circle = trail[trail.index(name) :]
                if len(circle) > 1:
                    return circle
            elif name not in done:
                trail.append(name)
                pending.append(iter(dependencies.get(name, [])))
    return []
