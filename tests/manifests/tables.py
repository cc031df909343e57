"""The base manifest and its variations: a table entry in, documents out."""

from __future__ import annotations

import copy
import random
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import yaml

from grove.admission import Context, Topology

HERE = Path(__file__).parent
EXAMPLES = HERE.parent.parent / "examples"
_TEMPLATE = "spec.template"
_SHORT = {
    "router": f"{_TEMPLATE}.cliques[0]",
    "leader": f"{_TEMPLATE}.cliques[1]",
    "worker": f"{_TEMPLATE}.cliques[2]",
    "pool": f"{_TEMPLATE}.podCliqueScalingGroups[0]",
    "pod": f"{_TEMPLATE}.cliques[0].spec.podSpec.containers[0]",
}

Json = dict[str, Any]

_WHOLE = Context(
    topology=Topology(True, "grove-topology", ("zone", "rack", "host")),
    mnnvl_enabled=True,
    compute_domains_served=True,
    schedulers=frozenset({"default-scheduler", "kai-scheduler"}),
)
_LACKING = {
    "topology": Context(),
    "mnnvl": Context(compute_domains_served=True),
    "driver": Context(mnnvl_enabled=True),
}
_ODDITIES: list[Any] = [
    *(None, True, 0, -1, 7, 2**40, 1.5, "", "a", "A B", "50%", "0", "x" * 300),
    *([], [None], ["a", "a"], [{}], [[1]], {}, {"name": "a"}, {"unknown": 1}, {"name": {}, "spec": []}),
]


def base() -> Json:
    document: Json = yaml.safe_load((HERE / "base.yaml").read_text())
    return document


def entries(name: str) -> list[Json]:
    table: list[Json] = yaml.safe_load((HERE / name).read_text())
    return table


def context(entry: Json | None = None) -> Context:
    """The operator an entry is judged by: one with everything, or one that lacks what the entry says."""
    return _LACKING.get((entry or {}).get("without", ""), _WHOLE)


def full_path(path: str) -> str:
    """The path an entry means: `router.spec` is `spec.template.cliques[0].spec`."""
    head = re.match(r"[a-z]+", path)
    assert head is not None
    return _SHORT.get(head[0], head[0]) + path[head.end() :]


def varied(document: Json, changes: Json | None, removals: list[str] | None = None) -> Json:
    """A copy with some fields set and others removed."""
    result = copy.deepcopy(document)
    for path, value in (changes or {}).items():
        _set(result, _steps(full_path(path)), value)
    for path in removals or []:
        steps = _steps(full_path(path))
        del _reach(result, steps[:-1])[steps[-1]]
    return result


def samples() -> list[tuple[str, Json]]:
    """Every object of every example file."""
    return [
        (str(path.relative_to(EXAMPLES)), document)
        for path in sorted(EXAMPLES.rglob("*.yaml"))
        for document in yaml.safe_load_all(path.read_text())
    ]


def spoilt(seed: int) -> Json:
    """The base manifest with one to three values below spec replaced by something else, the same for a seed always."""
    chance = random.Random(seed)
    document = base()
    for _ in range(chance.randint(1, 3)):
        places = list(_places(document["spec"]))
        holder, key = chance.choice(places)
        holder[key] = copy.deepcopy(chance.choice(_ODDITIES))
    return document


def _places(value: Any) -> Iterator[tuple[Any, Any]]:
    entries = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, item in list(entries):
        yield value, key
        yield from _places(item)


def _steps(path: str) -> list[Any]:
    return [int(part[1:-1]) if part.startswith("[") else part for part in re.findall(r"\[\d+\]|[^.\[\]]+", path)]


def _reach(document: Any, steps: list[Any]) -> Any:
    for step in steps:
        document = document[step]
    return document


def _set(document: Json, steps: list[Any], value: Any) -> None:
    target: Any = document
    for step in steps[:-1]:
        target = target.setdefault(step, {}) if isinstance(target, dict) else target[step]
    last = steps[-1]
    if isinstance(target, list) and last == len(target):
        target.append(value)
    else:
        target[last] = value
