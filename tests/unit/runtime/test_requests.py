from __future__ import annotations

from runtime_fakes import WIDGETS, Widget

from grove.runtime import requests
from grove.runtime.resource import Resource

NODES = Resource("", "v1", "nodes", "Node", Widget, namespaced=False)


def test_paths_follow_group_scope_and_subresource() -> None:
    assert WIDGETS.path("ns", "a", "status") == "/apis/example.com/v1/namespaces/ns/widgets/a/status"
    assert WIDGETS.path() == "/apis/example.com/v1/widgets"
    assert NODES.path(None, "n") == "/api/v1/nodes/n"
    assert NODES.api_version == "v1"
    assert WIDGETS.api_version == "example.com/v1"


def test_a_resource_is_a_hashable_value_and_keeps_its_place_under_another_model() -> None:
    assert {WIDGETS: 1}[Resource("example.com", "v1", "widgets", "Widget", Widget)] == 1
    other = WIDGETS.with_model(dict)
    assert other.model is dict
    assert other.path("ns") == WIDGETS.path("ns")


def test_create_takes_the_namespace_of_the_object_and_adds_its_type() -> None:
    request = requests.create(WIDGETS, {"metadata": {"name": "a", "namespace": "ns"}}, dry_run=True)
    assert request.path == "/apis/example.com/v1/namespaces/ns/widgets"
    assert request.body["kind"] == "Widget"
    assert request.body["apiVersion"] == "example.com/v1"
    assert ("dryRun", "All") in request.query
    assert not request.repeatable


def test_apply_is_forced_and_repeatable() -> None:
    request = requests.apply(WIDGETS, {"metadata": {"name": "a", "namespace": "ns"}}, subresource="status")
    assert request.path.endswith("/widgets/a/status")
    assert ("force", "true") in request.query
    assert request.repeatable


def test_a_patch_is_repeatable_only_under_a_precondition() -> None:
    assert not requests.merge_patch(WIDGETS, "ns", "a", {"spec": {}}).repeatable
    assert requests.merge_patch(WIDGETS, "ns", "a", {"metadata": {"resourceVersion": "1"}}).repeatable
    assert not requests.json_patch(WIDGETS, "ns", "a", [{"op": "remove", "path": "/x"}]).repeatable
    assert requests.json_patch(WIDGETS, "ns", "a", [{"op": "test", "path": "/x", "value": 1}]).repeatable


def test_delete_carries_its_preconditions() -> None:
    request = requests.delete(
        WIDGETS, "ns", "a", uid="u", resource_version="3", grace_period=0, propagation="Foreground", dry_run=True
    )
    assert request.body == {
        "apiVersion": "v1",
        "kind": "DeleteOptions",
        "preconditions": {"uid": "u", "resourceVersion": "3"},
        "gracePeriodSeconds": 0,
        "propagationPolicy": "Foreground",
        "dryRun": ["All"],
    }
    assert request.repeatable
    assert not requests.delete(WIDGETS, "ns", "a").repeatable


def test_binding_eviction_and_scale_go_to_their_subresources() -> None:
    assert requests.bind(WIDGETS, "ns", "p", "node-1", uid="u").body["target"]["name"] == "node-1"
    assert requests.bind(WIDGETS, "ns", "p", "node-1").path.endswith("/p/binding")
    eviction = requests.evict(WIDGETS, "ns", "p", uid="u")
    assert eviction.path.endswith("/p/eviction")
    assert eviction.body["deleteOptions"]["preconditions"] == {"uid": "u"}
    assert requests.set_scale(WIDGETS, "ns", "w", 3).body == {"spec": {"replicas": 3}}
    assert requests.get_scale(WIDGETS, "ns", "w").path.endswith("/w/scale")
