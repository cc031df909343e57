"""Topology: domains become label keys, preferred is never what is required, and switching off keeps preferences."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, get_args

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sample_sets import LATER, clique, group, running, spec

from grove.api import labels
from grove.api.cluster_topology import TopologyDomain, TopologyLevel
from grove.api.kinds import POD_GANGS
from grove.api.pod_clique_set import Pack, TopologyConstraint
from grove.api.pod_gang import GangTopologyConstraint, PackConstraint
from grove.plan.settings import Settings, TopologySettings
from grove.plan.topology import translate, verdict

DOMAINS: tuple[TopologyDomain, ...] = get_args(TopologyDomain)
LEVELS = (
    TopologyLevel(domain="zone", key="zone-key"),
    TopologyLevel(domain="rack", key="rack-key"),
    TopologyLevel(domain="host", key="host-key"),
)
ON = TopologySettings(enabled=True, levels=LEVELS)
OFF = TopologySettings()


def packed(found: GangTopologyConstraint | None) -> tuple[str | None, str | None]:
    pack = found.pack_constraint if found else None
    return (pack.required, pack.preferred) if pack else (None, None)


@pytest.mark.parametrize(
    ("constraint", "expected"),
    [
        (None, (None, "host-key")),
        (TopologyConstraint(pack_domain="rack"), ("rack-key", "host-key")),
        (TopologyConstraint(pack=Pack(required="rack")), ("rack-key", "host-key")),
        (TopologyConstraint(pack=Pack(required="zone", preferred="rack")), ("zone-key", "rack-key")),
        (TopologyConstraint(pack_domain="host"), ("host-key", None)),
        (TopologyConstraint(pack=Pack(required="rack", preferred="zone")), ("rack-key", None)),
        (TopologyConstraint(pack_domain="numa"), (None, "host-key")),
        (TopologyConstraint(pack=Pack(preferred="block")), (None, "host-key")),
    ],
)
def test_what_is_asked_for_becomes_label_keys(
    constraint: TopologyConstraint | None, expected: tuple[str | None, str | None]
) -> None:
    assert packed(translate(constraint, ON)) == expected


@settings(max_examples=300, deadline=None, derandomize=True, database=None)
@given(
    st.lists(st.sampled_from(DOMAINS), unique=True, min_size=1, max_size=7),
    st.one_of(st.none(), st.sampled_from(DOMAINS)),
    st.one_of(st.none(), st.sampled_from(DOMAINS)),
)
def test_every_key_is_that_of_the_domain_meant_and_preferred_is_narrower_than_required(
    configured: list[TopologyDomain], required: TopologyDomain | None, preferred: TopologyDomain | None
) -> None:
    topology = TopologySettings(
        enabled=True, levels=tuple(TopologyLevel(domain=d, key=f"example.com/{d}") for d in configured)
    )
    back = {level.key: level.domain for level in topology.levels}
    constraint = TopologyConstraint(pack=Pack(required=required, preferred=preferred))
    found_required, found_preferred = packed(translate(constraint, topology))
    assert back.get(found_required or "") == (required if required in configured else None)
    wished = preferred if preferred in configured else configured[-1]
    narrower = required not in configured or configured.index(wished) > configured.index(required)
    assert back.get(found_preferred or "") == (wished if narrower else None)


def test_switched_off_what_was_required_goes_and_what_was_preferred_stays() -> None:
    before = GangTopologyConstraint(pack_constraint=PackConstraint(required="rack-key", preferred="host-key"))
    assert packed(translate(TopologyConstraint(pack_domain="rack"), OFF, before)) == (None, "host-key")
    assert translate(TopologyConstraint(pack_domain="rack"), OFF, None) is None


WANTED = spec(
    1,
    cliques=[clique("front", topologyConstraint={"packDomain": "host"}), clique("b")],
    podCliqueScalingGroups=[group("g", ["b"], 2, topologyConstraint={"packDomain": "rack"})],
    topologyConstraint={"packDomain": "zone"},
)


def test_every_gang_names_its_topology_and_every_level_prefers_the_narrowest() -> None:
    gangs = running(WANTED, Settings(topology=ON)).objects.of(POD_GANGS)
    assert {gang.metadata.annotations[labels.TOPOLOGY_NAME] for gang in gangs.values()} == {"grove-topology"}
    base = gangs["web-0"].spec
    assert packed(base.topology_constraint) == ("zone-key", "host-key")
    assert {g.name: packed(g.topology_constraint) for g in base.podgroups} == {
        "web-0-front": ("host-key", None),
        "web-0-g-0-b": (None, "host-key"),
    }
    assert [packed(g.topology_constraint) for g in base.topology_constraint_group_configs] == [("rack-key", "host-key")]
    assert packed(gangs["web-0-g-1"].spec.topology_constraint) == ("rack-key", "host-key")


@pytest.mark.parametrize(
    ("of_group", "expected"),
    [
        (None, ("zone-key", "host-key")),
        ({"packDomain": "rack"}, ("rack-key", "host-key")),
        ({"pack": {"preferred": "rack"}}, ("zone-key", "rack-key")),
        ({}, ("zone-key", "host-key")),
    ],
)
def test_a_scaled_gang_keeps_the_sets_level_unless_its_group_requires_one(
    of_group: dict[str, Any] | None, expected: tuple[str, str]
) -> None:
    constraint = {} if of_group is None else {"topologyConstraint": of_group}
    wanted = spec(
        1,
        cliques=[clique("b")],
        podCliqueScalingGroups=[group("g", ["b"], 2, **constraint)],
        topologyConstraint={"packDomain": "zone"},
    )
    gangs = running(wanted, Settings(topology=ON)).objects.of(POD_GANGS)
    assert packed(gangs["web-0-g-1"].spec.topology_constraint) == expected
    assert packed(gangs["web-0"].spec.topology_constraint) == ("zone-key", "host-key")


def test_switching_topology_off_under_a_running_workload_drops_only_what_was_required() -> None:
    model = running(WANTED, Settings(topology=ON))
    model.settings = replace(model.settings, topology=OFF)
    records = model.settle(LATER)
    assert {record.kind for record in records} == {"PodGang"}
    base = model.objects.of(POD_GANGS)["web-0"].spec
    assert packed(base.topology_constraint) == (None, "host-key")
    assert [packed(g.topology_constraint) for g in base.topology_constraint_group_configs] == [(None, "host-key")]
    assert model.owner.status is not None
    said = next(c for c in model.owner.status.conditions if c.type == "TopologyConstraints")
    assert (said.status, said.reason) == ("False", "TopologyDisabled")


def test_the_verdict_names_the_levels_that_are_missing() -> None:
    assert verdict(WANTED.template, ON) is not None
    found = verdict(WANTED.template, TopologySettings(enabled=True, levels=LEVELS[:2]))
    assert found is not None
    assert (found[0], found[1].reason) == (False, "TopologyLevelNotFound")
    assert "'host'" in found[1].message
    found = verdict(WANTED.template, TopologySettings(enabled=True, levels=LEVELS[:1]))
    assert found is not None
    assert (found[0], found[1].reason) == (False, "TopologyLevelsRemoved")
    plain = spec(cliques=[clique("a")])
    assert verdict(plain.template, ON) is None


def test_a_changed_constraint_changes_gangs_and_no_pod() -> None:
    model = running(WANTED, Settings(topology=ON))
    body = msgspec.to_builtins(WANTED)
    body["template"]["topologyConstraint"] = {"packDomain": "rack"}
    model.submit(msgspec.convert(body, type(WANTED)))
    assert {record.kind for record in model.settle(LATER)} == {"PodGang"}
