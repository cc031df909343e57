"""Who may write what the operator owns, and that nothing hangs because of it."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from grove.admission.authorization import Attempt, Decision, Identities, Operation, managed_write, topology_write
from grove.api.pod_clique_set import PodCliqueSet
from manifests import tables

OPERATOR = "system:serviceaccount:grove-system:grove-operator"
COLLECTOR = "system:serviceaccount:kube-system:generic-garbage-collector"
NAMESPACES = "system:serviceaccount:kube-system:namespace-controller"
IDENTITIES = Identities(OPERATOR, frozenset({"system:serviceaccount:kai:binder"}))
MANAGED = {"app.kubernetes.io/managed-by": "grove-operator", "app.kubernetes.io/part-of": "base"}


def owner(**metadata: Any) -> PodCliqueSet:
    document = tables.base()
    document["metadata"] |= metadata
    return msgspec.convert(document, PodCliqueSet)


def attempt(user: str, operation: Operation, resource: str = "podcliques", **metadata: Any) -> Attempt:
    stored = {"metadata": {"name": "base-0-router", "labels": MANAGED, **metadata}, "spec": {"replicas": 1}}
    return Attempt(
        user=user,
        operation=operation,
        resource=resource,
        namespace="default",
        name="base-0-router",
        before=None if operation == "CREATE" else stored,
        after=None if operation == "DELETE" else {**stored, "spec": {"replicas": 2}},
    )


def decide(made: Attempt, of: PodCliqueSet | None = None) -> Decision:
    return managed_write(made, of or owner(), IDENTITIES)


@pytest.mark.parametrize(
    ("operation", "message"),
    [
        ("CREATE", "ClusterTopology can only be created by the operator"),
        ("UPDATE", "ClusterTopology can only be modified by the operator"),
        ("DELETE", "ClusterTopology can only be deleted by the operator"),
    ],
)
@pytest.mark.parametrize("user", ["kubernetes-admin", "system:serviceaccount:grove-system:default", ""])
def test_a_cluster_topology_belongs_to_the_operator(user: str, operation: Operation, message: str) -> None:
    made = attempt(user, operation, "clustertopologies")
    assert topology_write(made, IDENTITIES) == Decision(False, message)
    assert topology_write(attempt(OPERATOR, operation, "clustertopologies"), IDENTITIES).allowed


def test_the_garbage_collector_may_delete_a_cluster_topology_but_not_change_it() -> None:
    assert topology_write(attempt(COLLECTOR, "DELETE", "clustertopologies"), IDENTITIES).allowed
    assert not topology_write(attempt(COLLECTOR, "UPDATE", "clustertopologies"), IDENTITIES).allowed


def test_finalizers_come_off_a_topology_that_is_being_deleted() -> None:
    made = attempt("kubernetes-admin", "UPDATE", "clustertopologies", deletionTimestamp="2026-01-01T00:00:00Z")
    assert topology_write(made, IDENTITIES).allowed


@pytest.mark.parametrize("operation", ["CREATE", "UPDATE", "DELETE"])
def test_a_managed_object_is_not_for_others_to_write(operation: Operation) -> None:
    decision = decide(attempt("alice", operation))
    assert not decision.allowed
    assert "change PodCliqueSet 'base' instead" in decision.message


@pytest.mark.parametrize(
    "user",
    [OPERATOR, COLLECTOR, NAMESPACES, "system:kube-controller-manager", "system:serviceaccount:kai:binder"],
)
def test_those_whose_work_it_is_may_write(user: str) -> None:
    for operation in ("CREATE", "UPDATE", "DELETE"):
        assert decide(attempt(user, operation)).allowed


@pytest.mark.parametrize("user", ["system:node:node-1", "system:kube-scheduler"])
def test_kubelet_and_scheduler_may_write_pods(user: str) -> None:
    assert decide(attempt(user, "UPDATE", "pods")).allowed


def test_anyone_may_delete_a_pod() -> None:
    assert decide(attempt("alice", "DELETE", "pods")).allowed
    assert not decide(attempt("alice", "UPDATE", "pods")).allowed


def test_an_object_that_is_being_deleted_may_lose_its_finalizers() -> None:
    assert decide(attempt("alice", "UPDATE", deletionTimestamp="2026-01-01T00:00:00Z")).allowed


def test_an_annotation_on_the_set_opens_its_objects() -> None:
    opened = owner(annotations={"grove.io/disable-managed-resource-protection": "true"})
    assert decide(attempt("alice", "DELETE"), opened).allowed


def test_under_on_delete_cliques_are_deleted_by_their_owner() -> None:
    document = tables.varied(tables.base(), {"spec.updateStrategy": {"type": "OnDelete"}})
    manual = msgspec.convert(document, PodCliqueSet)
    assert decide(attempt("alice", "DELETE"), manual).allowed
    assert not decide(attempt("alice", "UPDATE"), manual).allowed


def test_an_orphan_is_not_protected_and_says_so() -> None:
    orphan = managed_write(attempt("alice", "DELETE"), None, IDENTITIES)
    assert orphan.allowed
    assert "does not exist" in orphan.warning
    stranger = managed_write(attempt("alice", "DELETE", labels={}), None, IDENTITIES)
    assert stranger.allowed
    assert "part-of" in stranger.warning


def test_an_object_of_unknown_shape_does_not_break_the_decision() -> None:
    made = Attempt("alice", "UPDATE", "podcliques", "default", "x", before=None, after=None)
    assert managed_write(made, None, IDENTITIES).allowed
