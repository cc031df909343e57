"""Names are judged by everything they become."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from grove.admission import Context, default, neighbours, validate
from grove.api.pod_clique_set import PodCliqueSet

NAME = st.from_regex(r"[a-z]([-a-z0-9]{0,40}[a-z0-9])?", fullmatch=True)


def document(name: str, cliques: list[str], groups: dict[str, list[str]], **spec: Any) -> dict[str, Any]:
    pod = {"containers": [{"name": "a", "image": "b"}]}
    return default(
        {
            "metadata": {"name": name},
            "spec": {
                "replicas": 1,
                "template": {
                    "cliques": [{"name": c, "spec": {"roleName": c, "podSpec": pod}} for c in cliques],
                    "podCliqueScalingGroups": [{"name": g, "cliqueNames": members} for g, members in groups.items()],
                },
                **spec,
            },
        }
    )


def problems(name: str, cliques: list[str], groups: dict[str, list[str]], **spec: Any) -> list[str]:
    return [str(error) for error in validate(document(name, cliques, groups, **spec), None, Context()).errors]


@given(NAME, NAME)
def test_forty_five_characters_always_fit_a_standalone_clique(name: str, clique: str) -> None:
    name = name[: 45 - len(clique)].rstrip("-") or "a"
    if len(name) + len(clique) <= 45:
        assert problems(name, [clique], {}, replicas=5000) == []


@given(NAME, NAME, NAME)
def test_forty_five_characters_always_fit_a_member(name: str, group: str, clique: str) -> None:
    name, group, clique = name[:15].rstrip("-"), group[:15].rstrip("-"), clique[:15].rstrip("-")
    assert problems(name, [clique], {group: [clique]}, replicas=5000) == []


def test_more_than_forty_five_characters_are_fine_while_the_pods_have_room() -> None:
    name, clique = "n" * 40, "c" * 16
    assert len(f"{name}-99-{clique}-99") == 63
    assert problems(name, [clique], {}) == []
    assert problems(name, [clique + "c"], {}) != []


def test_the_width_an_index_can_reach_counts() -> None:
    name, clique = "n" * 40, "c" * 16
    assert problems(name, [clique], {}, replicas=100) == []
    assert problems(name, [clique], {}, replicas=101) != []
    surging = {"type": "ReplicaRecreate", "rollingUpdate": {"maxSurge": 1}}
    assert problems(name, [clique], {}, replicas=100, updateStrategy=surging) != []


def test_the_message_says_by_how_much() -> None:
    (problem,) = problems("n" * 40, ["c" * 20], {})
    assert "by 4" in problem
    assert "n" * 40 + "-99-" + "c" * 20 + "-99" in problem


@pytest.mark.parametrize(
    ("cliques", "groups", "collides"),
    [
        (["sg-1", "x"], {"sg": ["x"]}, True),
        (["sg-1-x", "x"], {"sg": ["x"]}, True),
        (["sg-01", "x"], {"sg": ["x"]}, False),
        (["sg-a", "x"], {"sg": ["x"]}, False),
        (["sg", "x"], {"sg": ["x"]}, False),
        (["1-x", "x"], {"sg": ["1-x"], "sg-0": ["x"]}, True),
        (["1", "x"], {"sg": ["1"], "sg-0": ["x"]}, True),
        (["a-1", "a"], {}, False),
        (["1-x", "x"], {"sg": ["1-x"], "st-0": ["x"]}, False),
    ],
)
def test_two_things_never_come_out_under_one_name(
    cliques: list[str], groups: dict[str, list[str]], collides: bool
) -> None:
    found = problems("w", cliques, groups)
    assert any("would be called like" in problem for problem in found) == collides, found


@pytest.mark.parametrize(
    ("new", "standing", "meets"),
    [
        (("w-0-pool", ["x"], {}), ("w", ["x"], {"pool": ["x"]}), "PodGang 'w-0-pool-#'"),
        (("w", ["x"], {"pool": ["x"]}), ("w-0-pool", ["y"], {}), "PodGang 'w-#-pool-#'"),
        (("w-0", ["x"], {}), ("w", ["1-x"], {}), "PodClique 'w-0-#-x'"),
        (("w-0", ["x"], {"1": ["x"]}), ("w", ["y"], {"2": ["y"]}), None),
        (("w-0", ["x"], {}), ("w", ["x"], {"pool": ["x"]}), None),
        (("w-1-pool", ["x"], {}), ("w", ["pool"], {}), None),
        (("w-pool", ["x"], {}), ("w", ["x"], {"pool": ["x"]}), None),
        (("w2", ["x"], {}), ("w", ["x"], {}), None),
    ],
)
def test_two_sets_never_come_to_one_name(new: Any, standing: Any, meets: str | None) -> None:
    neighbour = msgspec.convert(document(*standing), PodCliqueSet)
    verdict = validate(document(*new), None, Context(neighbours=(neighbour,)))
    expected = [] if meets is None else [f"its {meets} would be called like one of PodCliqueSet '{standing[0]}'"]
    assert [error.message for error in verdict.errors if error.path == "metadata.name"] == expected
    assert meets is None or neighbours.related(new[0], standing[0])


def test_a_set_that_stands_is_not_held_to_its_neighbours() -> None:
    stored = document("w-0-pool", ["x"], {})
    neighbour = msgspec.convert(document("w", ["x"], {"pool": ["x"]}), PodCliqueSet)
    changed = document("w-0-pool", ["x"], {}, replicas=2)
    assert validate(changed, stored, Context(neighbours=(neighbour,))).allowed


def test_a_generated_name_is_left_to_the_api_server() -> None:
    generated = document("", ["a"], {})
    generated["metadata"] = {"generateName": "w-"}
    assert validate(generated, None, Context()).allowed
