"""Every rule has a manifest that breaks it and a message that says so."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from grove.admission import default, validate
from grove.cli.validate import check
from manifests import tables
from manifests.drawn import drawn

CONTEXT = tables.context()
CREATIONS = tables.entries("refused_creations.yaml")
UPDATES = tables.entries("refused_updates.yaml")


def case(entry: dict[str, Any]) -> str:
    return str(entry["case"])


@pytest.mark.parametrize("entry", CREATIONS, ids=case)
def test_a_bad_manifest_is_refused_with_its_message(entry: dict[str, Any]) -> None:
    document = tables.varied(tables.base(), entry.get("set"), entry.get("remove"))
    findings = check(document, tables.context(entry))
    assert findings is not None
    said = [str(error) for error in findings.errors if error.path == tables.full_path(entry["path"])]
    assert any(entry["says"] in text for text in said), [str(error) for error in findings.errors]


@pytest.mark.parametrize("entry", UPDATES, ids=case)
def test_a_bad_change_is_refused_with_its_message(entry: dict[str, Any]) -> None:
    before = tables.varied(tables.base(), entry.get("before"))
    after = tables.varied(before, entry.get("set"), entry.get("remove"))
    stored = default(before)
    verdict = validate(default(after, stored), stored, CONTEXT)
    said = [str(error) for error in verdict.errors if error.path == tables.full_path(entry["path"])]
    assert any(entry["says"] in text for text in said), verdict.message


def test_the_base_manifest_itself_is_admitted() -> None:
    verdict = validate(default(tables.base()), None, CONTEXT)
    assert verdict.allowed, verdict.message
    assert verdict.warnings == ()


def test_all_errors_are_collected() -> None:
    document = tables.varied(
        tables.base(), {"spec.replicas": -1, "router.spec.minAvailable": 9, "pool.minAvailable": 9}
    )
    verdict = validate(default(document), None, CONTEXT)
    assert {error.path for error in verdict.errors} == {
        "spec.replicas",
        "spec.template.cliques[0].spec.minAvailable",
        "spec.template.podCliqueScalingGroups[0].minAvailable",
    }


def test_an_error_reads_like_kubernetes_and_says_what_to_do() -> None:
    document = tables.varied(tables.base(), {"spec.template.terminationDelay": "0s"})
    (error,) = validate(default(document), None, CONTEXT).errors
    assert str(error) == (
        'spec.template.terminationDelay: Invalid value: "0s": must be greater than 0 '
        "(to switch gang termination off say terminationPolicy: Never)"
    )


def test_a_required_value_reads_like_kubernetes() -> None:
    document = tables.varied(tables.base(), {"spec.template.cliques": []})
    errors = {error.path: str(error) for error in validate(document, None, CONTEXT).errors}
    assert errors["spec.template.cliques"] == (
        "spec.template.cliques: Required value: a PodCliqueSet needs at least one clique"
    )


def test_the_table_is_as_long_as_it_should_be() -> None:
    assert len(CREATIONS) >= 80
    assert len({entry["case"] for entry in (*CREATIONS, *UPDATES)}) == len(CREATIONS) + len(UPDATES)


@pytest.mark.parametrize("make", [tables.spoilt, drawn])
@pytest.mark.parametrize("seed", range(400))
def test_no_document_breaks_the_judge(seed: int, make: Callable[[int], dict[str, Any]]) -> None:
    document = make(seed)
    filled = default(document)
    assert default(filled) == filled
    verdict = validate(filled, None, CONTEXT)
    if verdict.allowed:
        # What passes creation passes as an update of itself and of the base.
        assert validate(filled, filled, CONTEXT).allowed
    validate(filled, default(tables.base()), CONTEXT)
    check(document, CONTEXT)
