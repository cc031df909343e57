"""What must pass: examples, everything the strategies allow, and writes that admission has no business with."""

from __future__ import annotations

from typing import Any

import pytest

from grove.admission import Context, Topology, default, structure, validate
from grove.config import parse
from manifests import tables

CONTEXT = Context(
    topology=Topology(True, "grove-topology", ("zone", "rack", "host")),
    mnnvl_enabled=True,
    compute_domains_served=True,
    schedulers=frozenset({"default-scheduler", "kai-scheduler"}),
)
SETS = [(name, document) for name, document in tables.samples() if document["kind"] == "PodCliqueSet"]
CONFIGURATION = next(document for _, document in tables.samples() if document["kind"] == "OperatorConfiguration")


@pytest.mark.parametrize(("name", "document"), SETS, ids=[name for name, _ in SETS])
def test_every_example_is_admitted_under_the_example_configuration(name: str, document: dict[str, Any]) -> None:
    context = Context.of(parse(CONFIGURATION), compute_domains_served=True)
    verdict = validate(default(document), None, context)
    assert verdict.allowed, verdict.message
    assert verdict.warnings == ()
    assert structure.check(document, "PodCliqueSet") == []


@pytest.mark.parametrize(
    "strategy",
    [
        {"type": "RollingRecreate"},
        {"type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": 1, "maxSurge": 0}},
        {"rollingUpdate": {"maxUnavailable": 1}},
        {"type": "RollingRecreate", "rollingUpdate": {}},
        {"type": "ReplicaRecreate", "rollingUpdate": {"maxUnavailable": 0, "maxSurge": 1}},
        {"type": "ReplicaRecreate", "rollingUpdate": {"maxUnavailable": "100%"}},
        {"type": "ReplicaRecreate", "rollingUpdate": {"maxUnavailable": "10%", "maxSurge": "10%"}},
        {"type": "OnDelete"},
        {"paused": True, "partition": 1, "progressDeadlineSeconds": 600},
    ],
    ids=str,
)
def test_update_strategies_that_mean_something_are_admitted(strategy: dict[str, Any]) -> None:
    verdict = validate(default(tables.varied(tables.base(), {"spec.updateStrategy": strategy})), None, CONTEXT)
    assert verdict.allowed, verdict.message
    assert verdict.warnings == ()


def test_an_alias_of_a_strategy_is_not_rewritten() -> None:
    document = tables.varied(tables.base(), {"spec.updateStrategy": {"type": "RollingUpdate"}})
    assert default(document)["spec"]["updateStrategy"] == {"type": "RollingUpdate"}


def test_a_set_of_no_replicas_may_have_a_pace() -> None:
    strategy = {"type": "ReplicaRecreate", "rollingUpdate": {"maxUnavailable": 1}}
    document = tables.varied(tables.base(), {"spec.replicas": 0, "spec.updateStrategy": strategy})
    assert validate(default(document), None, CONTEXT).allowed


def test_both_words_for_a_level_may_be_used_when_they_agree() -> None:
    constraint = {"packDomain": "rack", "pack": {"required": "rack", "preferred": "host"}}
    document = tables.varied(tables.base(), {"router.topologyConstraint": constraint})
    verdict = validate(default(document), None, CONTEXT)
    assert verdict.allowed
    assert verdict.warnings == ()


def test_gang_termination_can_be_switched_off() -> None:
    document = tables.varied(tables.base(), {"spec.template.terminationPolicy": "Never"})
    assert validate(default(document), None, CONTEXT).allowed


def test_mnnvl_that_is_declined_needs_no_driver() -> None:
    document = tables.varied(tables.base(), {"metadata.annotations": {"grove.io/mnnvl-enabled": "false"}})
    assert validate(default(document), None, Context()).allowed


def test_a_clique_may_decline_what_its_set_asks_for() -> None:
    asking = {"grove.io/mnnvl-enabled": "true", "grove.io/mnnvl-scope": "scalingGroupReplica"}
    changes = {"metadata.annotations": asking, "router.annotations": {"grove.io/mnnvl-enabled": "false"}}
    assert validate(default(tables.varied(tables.base(), changes)), None, CONTEXT).allowed


def test_user_scheduling_gates_and_restart_policies_are_theirs_to_choose() -> None:
    changes = {
        "router.spec.podSpec.schedulingGates": [{"name": "example.com/licence"}],
        "router.spec.podSpec.restartPolicy": "OnFailure",
    }
    verdict = validate(default(tables.varied(tables.base(), changes)), None, CONTEXT)
    assert verdict.allowed
    assert verdict.warnings == ()


def broken() -> dict[str, Any]:
    """An object that no rule would admit today."""
    return tables.varied(default(tables.base()), {"spec.template.cliques": [], "spec.updateStrategy": {"type": "Gone"}})


def test_an_object_that_is_being_deleted_always_passes() -> None:
    old = {**broken(), "metadata": {"name": "base", "deletionTimestamp": "2026-01-01T00:00:00Z", "finalizers": ["a"]}}
    new = {**old, "metadata": {"name": "base", "deletionTimestamp": "2026-01-01T00:00:00Z"}}
    assert validate(new, old, Context()).allowed


def test_a_change_of_metadata_alone_always_passes() -> None:
    old = broken()
    new = {**old, "metadata": {**old["metadata"], "finalizers": ["grove.io/x"], "labels": {"a": "b"}}}
    assert validate(new, old, Context()).allowed


def test_a_rule_that_came_later_does_not_stop_other_changes() -> None:
    constraint = {"spec.template.topologyConstraint": {"packDomain": "rack"}}
    old = default(tables.varied(tables.base(), constraint))
    new = tables.varied(old, {"spec.replicas": 5})
    verdict = validate(new, old, Context())
    assert verdict.allowed
    assert any("topology support is not enabled" in warning for warning in verdict.warnings)


def test_a_scheduler_that_was_disabled_does_not_stop_other_changes() -> None:
    old = default(tables.base())
    new = tables.varied(old, {"pod.image": "example.com/router:2"})
    assert validate(new, old, Context(schedulers=frozenset({"kai-scheduler"}))).allowed


def test_a_new_mistake_is_refused_beside_an_old_one() -> None:
    old = default(tables.varied(tables.base(), {"spec.template.topologyConstraint": {"packDomain": "rack"}}))
    new = tables.varied(old, {"spec.replicas": -1})
    assert [error.path for error in validate(new, old, Context()).errors] == ["spec.replicas"]


@pytest.mark.parametrize(
    "changes",
    [
        {"spec.replicas": 0},
        {"pod.image": "example.com/router:2"},
        {"router.spec.replicas": 7},
        {"pool.replicas": 5},
        {"spec.template.terminationDelay": "10m"},
        {"spec.template.priorityClassName": "high"},
        {"spec.updateStrategy": {"type": "OnDelete"}},
        {"pool.cliqueNames": ["worker", "leader"]},
    ],
    ids=str,
)
def test_what_may_change_may_change(changes: dict[str, Any]) -> None:
    old = default(tables.base())
    verdict = validate(default(tables.varied(old, changes), old), old, CONTEXT)
    assert verdict.allowed, verdict.message


def test_naming_the_default_scheduler_is_no_change_of_scheduler() -> None:
    old = default(tables.base())
    names = {f"{clique}.spec.podSpec.schedulerName": "default-scheduler" for clique in ("router", "leader", "worker")}
    assert validate(tables.varied(old, names), old, CONTEXT).allowed


def test_a_changed_constraint_is_admitted_with_a_warning() -> None:
    old = default(tables.varied(tables.base(), {"spec.template.topologyConstraint": {"packDomain": "rack"}}))
    new = tables.varied(old, {"spec.template.topologyConstraint": {"packDomain": "host"}})
    verdict = validate(new, old, CONTEXT)
    assert verdict.allowed
    assert any("survivors keep the old placement" in warning for warning in verdict.warnings)


@pytest.mark.parametrize(
    ("changes", "warning"),
    [
        ({"worker.spec.startsAfter": ["leader"]}, "startsAfter has no effect"),
        ({"spec.updateStrategy": {"type": "OnDelete", "paused": True}}, "paused has no effect under OnDelete"),
        ({"spec.updateStrategy": {"partition": 3}}, "no replica will be updated"),
        ({"router.topologyConstraint": {}}, "names no level"),
        ({"router.topologyConstraint": {"pack": {"required": "rack", "preferred": "zone"}}}, "adds nothing"),
        ({"router.annotations": {"grove.io/mnnvl-group": "a"}}, "is not known here"),
        ({"router.resourceSharing": [{"name": "a", "scope": "PerReplica"}]}, "no ResourceClaims are made from it"),
        ({"router.spec.podSpec.hostname": "me"}, "the operator gives every pod its own DNS name"),
        ({"pod.env": [{"name": "GROVE_PCS_NAME", "value": "a"}]}, "the operator sets GROVE_PCS_NAME"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_what_works_but_is_probably_not_meant_is_pointed_out(changes: dict[str, Any], warning: str) -> None:
    verdict = validate(default(tables.varied(tables.base(), changes)), None, CONTEXT)
    assert verdict.allowed, verdict.message
    assert any(warning in text for text in verdict.warnings), verdict.warnings


def test_a_document_without_defaults_is_judged_without_breaking() -> None:
    config = {"router.spec.autoScalingConfig": {"maxReplicas": 5}, "pool.scaleConfig": {"maxReplicas": 5}}
    document = tables.varied(tables.base(), config, ["router.spec.minAvailable", "pool.minAvailable", "pool.replicas"])
    assert validate(document, None, CONTEXT).allowed
