"""However levels are configured and constraints nest: admitted is exactly what gets no wider towards the inside."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from grove.admission import Context, default, validate
from grove.admission.context import Topology
from grove.api.cluster_topology import NATURAL_ORDER

LEVELS = st.lists(st.sampled_from(NATURAL_ORDER), min_size=1, max_size=7, unique=True)
# Set, group, clique in the group, clique of its own: each a place in the list of levels, or none.
PLACES = st.tuples(*[st.none() | st.integers(0, 6)] * 4)


def constraint(levels: list[str], place: int | None) -> dict[str, Any]:
    return {} if place is None else {"topologyConstraint": {"packDomain": levels[place % len(levels)]}}


def clique(name: str, packing: dict[str, Any]) -> dict[str, Any]:
    pod = {"containers": [{"name": "main", "image": "i:1"}]}
    return {"name": name, "spec": {"roleName": name, "replicas": 1, "podSpec": pod}, **packing}


@given(levels=LEVELS, places=PLACES)
def test_exactly_what_gets_no_wider_towards_the_inside_is_admitted(
    levels: list[str], places: tuple[int | None, ...]
) -> None:
    of_set, of_group, of_member, of_single = places
    template = {
        "cliques": [clique("member", constraint(levels, of_member)), clique("single", constraint(levels, of_single))],
        "podCliqueScalingGroups": [{"name": "group", "cliqueNames": ["member"], **constraint(levels, of_group)}],
        **constraint(levels, of_set),
    }
    meta = {"name": "drawn", "namespace": "default"}
    document = default({"metadata": meta, "spec": {"replicas": 1, "template": template}})
    verdict = validate(document, None, Context(topology=Topology(True, "grove-topology", tuple(levels))))

    def narrowing(*chain: int | None) -> bool:
        indices = [place % len(levels) for place in chain if place is not None]
        return indices == sorted(indices)

    assert verdict.allowed == (narrowing(of_set, of_group, of_member) and narrowing(of_set, of_single))
    if not verdict.allowed:
        assert "must be equal to or stricter than parent constraint" in verdict.message
