"""Other sets of the namespace: nothing a new set becomes may be called like something that one of them becomes.

Names are joined with dashes, so replicas of scaling group `pool` in set `w` meet those of a set called `w-0-pool`. Only
sets of which one's name begins with the other's can. Names and cliques never change, so a creation is when to look.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from grove.admission.context import Case
from grove.admission.findings import FieldError, invalid
from grove.admission.names import INDEX, same_name
from grove.api.pod_clique_set import PodCliqueSet


@dataclass(frozen=True, slots=True)
class _Made:
    """One kind of object a set becomes, and its name in parts."""

    kind: str
    parts: tuple[str, ...]


def related(name: str, other: str) -> bool:
    """Whether two different sets could ever meet."""
    return name.startswith(f"{other}-") or other.startswith(f"{name}-")


def check(case: Case) -> Iterator[FieldError]:
    if case.old is not None or not case.context.neighbours or not case.new.metadata.name:
        return
    ours = list(_made(case.new))
    for neighbour in case.context.neighbours:
        met = _meeting(ours, _made(neighbour))
        if met is not None:
            yield invalid(
                "metadata.name",
                case.new.metadata.name,
                f"its {met.kind} '{'-'.join(met.parts)}' would be called like one of PodCliqueSet "
                f"'{neighbour.metadata.name}'",
                "choose another name",
            )


def _meeting(ours: list[_Made], theirs: Iterable[_Made]) -> _Made | None:
    for other in theirs:
        for one in ours:
            if one.kind == other.kind and same_name(one.parts, other.parts):
                return one
    return None


def _made(owner: PodCliqueSet) -> Iterator[_Made]:
    """Everything with a name of its own; Services are called like base gangs, pods after their clique."""
    base = (*owner.metadata.name.split("-"), INDEX)
    template = owner.spec.template
    yield _Made("PodGang", base)
    for clique in template.standalone():
        name = (*base, *clique.name.split("-"))
        yield _Made("PodClique", name)
        if clique.spec.auto_scaling_config:
            yield _Made("HorizontalPodAutoscaler", name)
    for group in template.pod_clique_scaling_groups:
        name = (*base, *group.name.split("-"))
        yield _Made("PodCliqueScalingGroup", name)
        yield _Made("PodGang", (*name, INDEX))
        if group.scale_config:
            yield _Made("HorizontalPodAutoscaler", name)
        for member in group.clique_names:
            yield _Made("PodClique", (*name, INDEX, *member.split("-")))
