"""A PodGang for Kubernetes' own scheduler: one Workload that says exactly the same, or a refusal."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from grove.api.pod_gang import PodGang
from grove.schedulers.kube_workload import Refusal, unexpressed, workload_for, workload_ref


def part(name: str, minimum: int, pods: int, **pack: str) -> dict[str, Any]:
    references = [{"namespace": "ns", "name": f"{name}-{i}"} for i in range(pods)]
    found: dict[str, Any] = {"name": name, "minReplicas": minimum, "podReferences": references}
    return found | ({"topologyConstraint": {"packConstraint": pack}} if pack else {})


def gang(*parts: dict[str, Any], **spec: Any) -> PodGang:
    metadata = {"name": "g-0", "namespace": "ns", "uid": "u", "labels": {"a": "b"}}
    return msgspec.convert({"metadata": metadata, "spec": {"podgroups": list(parts), **spec}}, PodGang)


def policy(source: PodGang) -> dict[str, Any]:
    body = workload_for(source)
    assert isinstance(body, dict), body
    (group,) = body["spec"]["podGroups"]
    assert workload_ref("g-0") == {"name": body["metadata"]["name"], "podGroup": group["name"]}
    found: dict[str, Any] = group["policy"]
    return found


@pytest.mark.parametrize(
    ("parts", "minimum"),
    [([part("a", 2, 2)], 2), ([part("a", 2, 5)], 2), ([part("a", 1, 1), part("b", 3, 3)], 4)],
    ids=["whole", "elastic", "several, all required"],
)
def test_minimum_of_the_gang(parts: list[dict[str, Any]], minimum: int) -> None:
    assert policy(gang(*parts)) == {"gang": {"minCount": minimum}}


def test_gang_that_needs_no_pod_has_the_basic_policy() -> None:
    assert policy(gang(part("a", 0, 3))) == {"basic": {}}


def test_workload_belongs_to_the_gang() -> None:
    body = workload_for(gang(part("a", 1, 1)))
    assert isinstance(body, dict)
    (owner,) = body["metadata"]["ownerReferences"]
    assert (owner["kind"], owner["name"], owner["uid"]) == ("PodGang", "g-0", "u")
    assert body["spec"]["controllerRef"] == {"apiGroup": "scheduler.grove.io", "kind": "PodGang", "name": "g-0"}


def test_several_minimums_with_spare_pods_are_refused() -> None:
    found = workload_for(gang(part("a", 1, 1), part("b", 2, 3)))
    assert isinstance(found, Refusal)
    assert "b may run with fewer pods" in found.message


@pytest.mark.parametrize(
    "source",
    [
        gang(part("a", 1, 1, required="rack")),
        gang(part("a", 1, 1), topologyConstraint={"packConstraint": {"required": "rack"}}),
        gang(
            part("a", 1, 1),
            topologyConstraintGroupConfigs=[
                {"name": "x", "podGroupNames": ["a"], "topologyConstraint": {"packConstraint": {"required": "rack"}}}
            ],
        ),
    ],
    ids=["pod group", "gang", "topology group"],
)
def test_required_packing_is_refused(source: PodGang) -> None:
    found = workload_for(source)
    assert isinstance(found, Refusal)
    assert "requires packing" in found.message


def test_preferred_packing_is_reported() -> None:
    source = gang(part("a", 1, 1, preferred="host"), part("b", 1, 1, preferred="host"), part("c", 1, 1))
    assert isinstance(workload_for(source), dict)
    left_out = unexpressed(source)
    assert left_out is not None
    assert left_out.message == "PodGang g-0: a, b would rather be packed, which this scheduler does not know"
    assert unexpressed(gang(part("a", 1, 1))) is None
