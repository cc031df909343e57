"""Defaulting fills in, keeps what it does not know, and doing it twice changes nothing."""

from __future__ import annotations

import copy
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from grove.admission import Context, default, validate
from grove.webhooks.patches import additions
from manifests import tables

TEXT = st.text(alphabet="ab/~", max_size=4)
SCALARS = st.none() | st.booleans() | st.integers(-5, 5) | TEXT
JSON = SCALARS | st.lists(SCALARS, max_size=2) | st.dictionaries(TEXT, SCALARS, max_size=2)


def sometimes(**fields: st.SearchStrategy[Any]) -> st.SearchStrategy[dict[str, Any]]:
    return st.fixed_dictionaries({}, optional=fields)


COUNT = st.integers(0, 9) | st.none() | JSON
CLIQUE = sometimes(
    name=st.sampled_from(["a", "b", "c"]),
    spec=JSON
    | sometimes(
        replicas=COUNT,
        minAvailable=COUNT,
        podSpec=JSON | sometimes(restartPolicy=st.sampled_from(["Never", None]), terminationGracePeriodSeconds=COUNT),
        autoScalingConfig=JSON | sometimes(minReplicas=COUNT, maxReplicas=COUNT),
    ),
)
GROUP = sometimes(name=st.sampled_from(["a", "b"]), replicas=COUNT, minAvailable=COUNT, scaleConfig=JSON)
DOCUMENT = sometimes(
    metadata=JSON,
    spec=JSON
    | sometimes(
        replicas=COUNT,
        template=JSON
        | sometimes(
            cliques=JSON | st.lists(CLIQUE | JSON, max_size=3),
            podCliqueScalingGroups=JSON | st.lists(GROUP, max_size=2),
            terminationDelay=st.none() | TEXT,
            headlessServiceConfig=JSON,
            cliqueStartupType=st.none() | TEXT,
        ),
    ),
)


@given(DOCUMENT, st.none() | DOCUMENT)
def test_defaulting_twice_is_defaulting_once(document: dict[str, Any], old: dict[str, Any] | None) -> None:
    once = default(document, old)
    assert default(once, old) == once


@given(DOCUMENT)
def test_the_document_given_is_left_alone(document: dict[str, Any]) -> None:
    before = copy.deepcopy(document)
    default(document)
    assert document == before


@given(DOCUMENT)
def test_the_patch_leads_to_the_defaulted_document(document: dict[str, Any]) -> None:
    filled = default(document)
    assert _patched(copy.deepcopy(document), additions(document, filled)) == filled


@given(DOCUMENT)
def test_any_document_is_judged_without_breaking(document: dict[str, Any]) -> None:
    validate(default(document), None, Context())


def test_everything_left_out_is_filled_in() -> None:
    pod = {"containers": [{"name": "a", "image": "b"}]}
    clique = {"name": "a", "spec": {"roleName": "a", "podSpec": pod, "autoScalingConfig": {"maxReplicas": 3}}}
    group = {"name": "g", "cliqueNames": ["b"], "scaleConfig": {"maxReplicas": 3}}
    filled = default({"spec": {"template": {"cliques": [clique], "podCliqueScalingGroups": [group]}}})
    template = filled["spec"]["template"]
    assert template["cliques"][0]["spec"] == {
        "roleName": "a",
        "podSpec": {**pod, "restartPolicy": "Always", "terminationGracePeriodSeconds": 30},
        "replicas": 1,
        "minAvailable": 1,
        "autoScalingConfig": {"maxReplicas": 3, "minReplicas": 1},
    }
    assert template["podCliqueScalingGroups"][0] == {
        **group,
        "replicas": 1,
        "minAvailable": 1,
        "scaleConfig": {"maxReplicas": 3, "minReplicas": 1},
    }
    assert template["terminationDelay"] == "4h"
    assert template["cliqueStartupType"] == "CliqueStartupTypeAnyOrder"
    assert template["headlessServiceConfig"] == {"publishNotReadyAddresses": True}
    assert "updateStrategy" not in filled["spec"]


def test_the_minimum_follows_the_replicas_that_were_filled_in() -> None:
    document = tables.varied(tables.base(), {"router.spec.replicas": 0}, ["router.spec.minAvailable"])
    spec = default(document)["spec"]["template"]["cliques"][0]["spec"]
    assert (spec["replicas"], spec["minAvailable"]) == (1, 1)


def test_an_update_that_leaves_the_minimum_out_keeps_the_stored_one() -> None:
    stored = default(tables.base())
    applied = tables.varied(
        tables.base(), {"router.spec.replicas": 9, "pool.replicas": 7}, ["router.spec.minAvailable"]
    )
    filled = default(applied, stored)
    assert filled["spec"]["template"]["cliques"][0]["spec"]["minAvailable"] == 2
    assert validate(filled, stored, Context()).allowed


def test_a_document_that_needs_nothing_is_returned_as_it_is() -> None:
    complete = default(tables.base())
    assert default(complete) is complete


def _patched(document: Any, operations: list[dict[str, Any]]) -> Any:
    for operation in operations:
        steps = [part.replace("~1", "/").replace("~0", "~") for part in operation["path"].split("/")[1:]]
        target = document
        for step in steps[:-1]:
            target = target[int(step) if isinstance(target, list) else step]
        target[int(steps[-1]) if isinstance(target, list) else steps[-1]] = operation["value"]
    return document
