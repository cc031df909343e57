"""Names: everything a PodCliqueSet, a clique or a scaling group is called by ends up in other names.

- A PodCliqueSet's name becomes a Service (a DNS label that begins with a letter), cliques and groups become parts of
  hostnames (DNS labels).
- The longest thing made of them is a pod's name, which is its hostname and a label value too: 63 characters. Indices
  count with the width they can reach: replicas, the autoscaler's maximum and the surge of an update, but two digits at
  least, so that a workload may grow to a hundred of anything without being named anew. Claims and ComputeDomains may
  have 253 characters, so what fits a pod fits them.
- Two different things must not come out under one name.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from grove.admission import budget
from grove.admission.context import CLIQUES, GROUPS, Case
from grove.admission.findings import FieldError, Names, duplicate, invalid, required
from grove.api.pod_clique_set import CliqueTemplate, ScalingGroupConfig

LABEL_LENGTH = 63
RESERVED_DIGITS = 2
_LABEL = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?")
_SERVICE = re.compile(r"[a-z]([-a-z0-9]*[a-z0-9])?")
_LABEL_WORDS = "must be lower case letters, digits and '-', beginning and ending with a letter or digit"
_ROLE_LABEL = "grove.io-pcs-"
INDEX = "#"  # stands where an index goes


def check(case: Case) -> Iterator[FieldError]:
    yield from _set_name(case)
    yield from _listed([(path, clique.name) for path, clique in case.cliques()], "clique")
    yield from _listed([(path, group.name) for path, group in case.groups()], "scaling group")
    yield from _roles(case)
    yield from _lengths(case)
    yield from _collisions(case)
    yield from _autoscaler_collisions(case)


def _set_name(case: Case) -> Iterator[FieldError]:
    name = case.new.metadata.name
    if not name:
        # With generateName the API server completes the name after admission; the CRD's own rule judges it then.
        return
    path = "metadata.name"
    if not _SERVICE.fullmatch(name):
        yield invalid(path, name, "becomes a Service: lower case letters, digits and '-', beginning with a letter")
    longest = max(len(_ROLE_LABEL + name), len(f"{name}-{_set_digits(case)}"))
    if longest > LABEL_LENGTH:
        yield invalid(path, name, "is too long for the objects made from it", f"shorten it by {longest - LABEL_LENGTH}")


def _listed(names: list[tuple[str, str]], what: str) -> Iterator[FieldError]:
    seen = Names()
    for path, name in names:
        if not name:
            yield required(f"{path}.name", f"a {what} needs a name")
        elif not _LABEL.fullmatch(name):
            yield invalid(f"{path}.name", name, _LABEL_WORDS)
        if name and seen.repeated(name):
            yield duplicate(f"{path}.name", name, f"another {what} has this name")


def _roles(case: Case) -> Iterator[FieldError]:
    seen = Names()
    for path, clique in case.cliques():
        if seen.repeated(clique.spec.role_name):
            yield duplicate(f"{path}.spec.roleName", clique.spec.role_name, "another clique has this role")


def _lengths(case: Case) -> Iterator[FieldError]:
    set_name = case.new.metadata.name
    for path, clique in case.cliques():
        group = case.groups_by_clique.get(clique.name)
        longest = _longest_pod(case, clique, group)
        excess = len(longest) - LABEL_LENGTH
        if excess > 0:
            parts = [f"PodCliqueSet '{set_name}'", *([f"scaling group '{group.name}'"] if group else [])]
            yield invalid(
                f"{path}.name",
                clique.name,
                f"pods would be named like '{longest}': {len(longest)} characters where a hostname has {LABEL_LENGTH}",
                f"shorten {', '.join(parts)} or clique '{clique.name}' by {excess}",
            )


def _longest_pod(case: Case, clique: CliqueTemplate, group: ScalingGroupConfig | None) -> str:
    """A pod's name with every index at its widest."""
    stem = f"{case.new.metadata.name}-{_set_digits(case)}"
    if group is None:
        name = f"{stem}-{clique.name}"
    else:
        config = group.scale_config
        most = max(group.initial_replicas, config.max_replicas if config else 0)
        name = f"{stem}-{group.name}-{_digits(most + budget.surge(group.update_strategy, most))}-{clique.name}"
    config = clique.spec.auto_scaling_config
    pods = max(clique.spec.replicas, config.max_replicas if config else 0)
    return f"{name}-{_digits(pods + budget.surge(clique.update_strategy, pods))}"


def _set_digits(case: Case) -> str:
    spec = case.new.spec
    return _digits(spec.replicas + budget.surge(spec.strategy.rolling_update, spec.replicas))


def _digits(count: int) -> str:
    """A stand-in for the widest index of this many things."""
    return "9" * max(RESERVED_DIGITS, len(str(max(count - 1, 0))))


@dataclass(frozen=True, slots=True)
class _Made:
    """A name made for each replica, in the parts between its dashes, with `#` where an index goes."""

    path: str
    what: str
    parts: tuple[str, ...]

    def meets(self, other: _Made) -> bool:
        """Whether some index makes both names the same. Equal parts come from equal names, reported as such."""
        return self.parts != other.parts and same_name(self.parts, other.parts)


def same_name(ours: Sequence[str], theirs: Sequence[str]) -> bool:
    """Whether some index makes two names in parts the same."""
    return len(ours) == len(theirs) and all(map(_alike, ours, theirs))


def _alike(a: str, b: str) -> bool:
    return a == b or (a == INDEX and _is_index(b)) or (b == INDEX and _is_index(a))


def _is_index(part: str) -> bool:
    return part == INDEX or (part.isascii() and part.isdigit() and str(int(part)) == part)


def _collisions(case: Case) -> Iterator[FieldError]:
    """PodCliques must not be called like each other, nor like the replica of a group that packs them together."""
    by_length: dict[int, list[_Made]] = {}
    for one in (*_groups_made(case), *_cliques_made(case)):
        earlier = by_length.setdefault(len(one.parts), [])
        other = next((other for other in earlier if one.meets(other)), None)
        if other is not None:
            name = "-".join(one.parts)
            yield invalid(f"{one.path}.name", name, f"would be called like {other.what}", "choose another name")
        earlier.append(one)


def _groups_made(case: Case) -> Iterator[_Made]:
    for path, group in case.groups():
        yield _Made(path, f"a replica of scaling group '{group.name}'", (*group.name.split("-"), INDEX))


def _cliques_made(case: Case) -> Iterator[_Made]:
    for path, clique in case.cliques():
        group = case.groups_by_clique.get(clique.name)
        if group is None:
            yield _Made(path, f"clique '{clique.name}'", tuple(clique.name.split("-")))
        else:
            what = f"clique '{clique.name}' of scaling group '{group.name}'"
            yield _Made(path, what, (*group.name.split("-"), INDEX, *clique.name.split("-")))


def _autoscaler_collisions(case: Case) -> Iterator[FieldError]:
    """A clique and a group of one name are different objects, but their autoscalers would be one."""
    scaled = {group.name for _, group in case.groups() if group.scale_config}
    for path, clique in case.cliques():
        if clique.spec.auto_scaling_config and clique.name in scaled and clique.name not in case.groups_by_clique:
            yield invalid(
                f"{path}.name",
                clique.name,
                "its autoscaler would be called like that of the scaling group of this name",
                f"rename one of them in {CLIQUES} or {GROUPS}",
            )
