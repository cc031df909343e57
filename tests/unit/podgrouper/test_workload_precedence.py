"""What a Workload overrides, field by field, and what it leaves to owner and pod."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import msgspec
import pytest
from grouper_objects import owner, pod

from grove.api.reasons import Reason
from grove.plan.actions import Apply, Why
from grove.podgrouper.grouping import Grouping, Topology, body
from grove.podgrouper.inheritance import Surroundings
from grove.podgrouper.kinds import PodGroup
from grove.podgrouper.pod_plan import Place, decide, held_back, placed_by_hand, writes_for_group
from grove.podgrouper.subject import Subject
from grove.podgrouper.workload import RECORD, Claim, Terms, group_name, opted_out, possible_names
from grove.podgrouper.workload_v1alpha1 import Workload, claim, terms
from grove.podgrouper.workload_v1alpha2 import NativePodGroup, WorkloadTemplates
from grove.podgrouper.workload_v1alpha2 import claim as claim_v1alpha2
from grove.podgrouper.workload_v1alpha2 import terms as terms_v1alpha2

AROUND = Surroundings(frozenset({"low", "mid", "high", "train"}))
QUEUE, PRIORITY, PREEMPT = "kai.scheduler/queue", "priorityClassName", "kai.scheduler/preemptibility"
TOPOLOGY, REQUIRED, PREFERRED = (
    "kai.scheduler/topology",
    "kai.scheduler/topology-required-placement",
    "kai.scheduler/topology-preferred-placement",
)


def workload(policy: dict[str, Any], **metadata: Any) -> Workload:
    meta = {"name": "w", "namespace": "ns", "uid": "uid-w", **metadata}
    return msgspec.convert({"metadata": meta, "spec": {"podGroups": [{"name": "g", "policy": policy}]}}, Workload)


GANG = {"gang": {"minCount": 4}}
REF = {"workloadRef": {"name": "w", "podGroup": "g", "podGroupReplicaKey": "k"}}


def grouped(on: Workload | None, top: dict[str, Any] | None = None, **pod_fields: Any) -> Grouping:
    spec = {**REF, **pod_fields.pop("spec", {})}
    subject_pod = pod("p", spec=spec, **pod_fields)
    claimed = claim(subject_pod)
    assert claimed is not None
    subject = Subject(subject_pod, (owner("StatefulSet", **(top or {})),), AROUND)
    found = decide(subject, terms(claimed, on) if on else None)
    assert isinstance(found, Place), found
    assert found.grouping is not None
    return found.grouping


@dataclass(frozen=True)
class Row:
    """One line of the table: labels or annotations at each level, and what comes out."""

    name: str
    attribute: str
    expected: Any
    workload: dict[str, Any] = field(default_factory=dict)
    top: dict[str, Any] = field(default_factory=dict)
    pod: dict[str, Any] = field(default_factory=dict)


def said(key: str, value: str) -> dict[str, Any]:
    return {"labels": {key: value}}


def noted(*values: str) -> dict[str, Any]:
    return {
        "annotations": {
            key: value for key, value in zip((TOPOLOGY, REQUIRED, PREFERRED), values, strict=False) if value
        }
    }


TABLE = [
    Row("queue of the Workload", "queue", "w", said(QUEUE, "w"), said(QUEUE, "o"), said(QUEUE, "p")),
    Row("queue of the owner", "queue", "o", {}, said(QUEUE, "o"), said(QUEUE, "p")),
    Row("queue of the pod", "queue", "p", {}, {}, said(QUEUE, "p")),
    Row("default queue", "queue", "default-queue"),
    Row("empty queue of the Workload", "queue", "o", said(QUEUE, ""), said(QUEUE, "o")),
    Row("priority of the Workload", "priority_class_name", "high", said(PRIORITY, "high"), said(PRIORITY, "mid")),
    Row("priority of the owner", "priority_class_name", "mid", {}, said(PRIORITY, "mid"), said(PRIORITY, "low")),
    Row("priority of the pod", "priority_class_name", "low", {}, {}, said(PRIORITY, "low")),
    Row(
        "unknown priority of the Workload", "priority_class_name", "mid", said(PRIORITY, "none"), said(PRIORITY, "mid")
    ),
    Row("unknown priority of the owner", "priority_class_name", "train", {}, said(PRIORITY, "none")),
    Row("class in the pod's spec", "priority_class_name", "low", pod={"spec": {"priorityClassName": "low"}}),
    Row(
        "preemptibility of the Workload",
        "preemptibility",
        "preemptible",
        said(PREEMPT, "preemptible"),
        said(PREEMPT, "non-preemptible"),
    ),
    Row(
        "preemptibility of the owner",
        "preemptibility",
        "non-preemptible",
        {},
        said(PREEMPT, "non-preemptible"),
        said(PREEMPT, "preemptible"),
    ),
    Row("preemptibility of the pod", "preemptibility", "preemptible", {}, {}, said(PREEMPT, "preemptible")),
    Row(
        "invalid preemptibility",
        "preemptibility",
        "non-preemptible",
        said(PREEMPT, "maybe"),
        said(PREEMPT, "non-preemptible"),
    ),
    Row(
        "topology of the Workload as one",
        "topology",
        Topology("w", "rack"),
        noted("w", "rack"),
        noted("o", "zone", "host"),
    ),
    Row("topology of the owner", "topology", Topology("o", "zone", "host"), {}, noted("o", "zone", "host")),
    Row("minimum", "min_member", 4),
    Row("no subgroups", "sub_groups", ()),
    Row("name", "name", "w-g-k"),
]


@pytest.mark.parametrize("row", TABLE, ids=lambda row: row.name)
def test_precedence(row: Row) -> None:
    found = grouped(workload(GANG, **row.workload), row.top, **row.pod)
    assert getattr(found, row.attribute) == row.expected


def test_labels_and_annotations_are_merged_and_the_workloads_win() -> None:
    on = workload(GANG, labels={"a": "w", "b": "w"}, annotations={"x": "w"})
    found = grouped(on, {"labels": {"a": "o", "c": "o"}, "annotations": {"x": "o", "y": "o"}})
    assert found.labels == {"a": "w", "b": "w", "c": "o"}
    assert {key: found.annotations[key] for key in ("x", "y")} == {"x": "w", "y": "o"}


def test_owner_is_the_top_owner() -> None:
    assert grouped(workload(GANG)).owner.kind == "StatefulSet"


def test_owner_that_cannot_say_its_size_does_not_hold_back_a_pod_of_a_workload() -> None:
    subject_pod = pod("p", spec=REF)
    broken = Subject(subject_pod, (owner("TFJob", "kubeflow.org/v1"),), AROUND)
    assert isinstance(decide(broken, None), Why)
    claimed = claim(subject_pod)
    assert claimed is not None
    found = decide(broken, terms(claimed, workload(GANG)))
    assert isinstance(found, Place)
    assert found.name == "w-g-k"


def test_basic_policy_has_minimum_one_and_no_key() -> None:
    found = grouped(workload({"basic": {}}))
    assert (found.name, found.min_member) == ("w-g", 1)


@pytest.mark.parametrize(("value", "expected"), [("true", True), ("True", False), ("1", False), (None, False)])
def test_only_the_exact_word_opts_out(value: str | None, expected: bool) -> None:
    notes = {"annotations": {"kai.scheduler/ignore-workload-api": value}} if value else {}
    assert opted_out(pod(**notes), owner("Job")) is expected
    assert opted_out(pod(), owner("Job", **notes)) is expected


def test_missing_workload_and_missing_group_are_told_apart() -> None:
    claimed = claim(pod(spec=REF))
    assert claimed is not None
    missing = terms(claimed, None)
    assert isinstance(missing, Why)
    assert missing.reason is Reason.WORKLOAD_MISSING
    other = Claim("ns/w", "w", "other")
    unknown = terms(other, workload(GANG))
    assert isinstance(unknown, Why)
    assert unknown.reason is Reason.WORKLOAD_GROUP_MISSING


def test_long_names_are_cut_and_stay_distinct() -> None:
    one, two = (group_name(Claim("", "w" * 200, "g" * 63, key), keyed=True) for key in ("a" * 63, "b" * 63))
    assert len(one) == len(two) == 253
    assert one != two


def stored_for(grouping: Grouping, **owner_fields: str) -> PodGroup:
    written = body(grouping, None)
    if owner_fields:
        written["metadata"]["ownerReferences"] = [owner_fields]
    return msgspec.convert(written, PodGroup)


def place(key: str = "k", uid: str = "uid-w") -> Place:
    subject_pod = pod("p", spec={"workloadRef": {"name": "w", "podGroup": "g", "podGroupReplicaKey": key}})
    claimed = claim(subject_pod)
    assert claimed is not None
    found = decide(Subject(subject_pod, (owner("Job", "batch/v1"),), AROUND), terms(claimed, workload(GANG, uid=uid)))
    assert isinstance(found, Place)
    return found


def grouping_of(found: Place) -> Grouping:
    assert found.grouping is not None
    return found.grouping


def test_group_of_the_same_name_for_another_workload_is_refused() -> None:
    mine = grouping_of(place())
    other = msgspec.json.encode({"workload": "w-g", "podGroup": "k"}).decode()
    foreign = msgspec.convert({"metadata": {"name": mine.name, "annotations": {RECORD: other}}, "spec": {}}, PodGroup)
    refused = writes_for_group(place(), foreign, describes=True)
    assert isinstance(refused, Why)
    assert refused.reason is Reason.GROUP_NAME_TAKEN
    assert "Workload w-g" in refused.message


def test_group_of_the_same_workload_made_anew_is_corrected() -> None:
    before = stored_for(grouping_of(place(uid="uid-old")))
    writes = writes_for_group(place(), before, describes=True)
    assert not isinstance(writes, Why)
    assert len(writes) == 1


def test_group_in_step_is_not_written_and_pods_that_do_not_describe_it_never_rewrite_it() -> None:
    found = place()
    before = stored_for(grouping_of(found))
    assert writes_for_group(found, before, describes=True) == ()
    before.spec.priority_class_name = "another"
    assert writes_for_group(found, before, describes=False) == ()
    assert len(writes_for_group(found, before, describes=True)) == 1


def test_second_owner_hands_the_group_to_the_workload_and_that_lasts() -> None:
    found = place()
    by_another = stored_for(grouping_of(found), apiVersion="batch/v1", kind="Job", name="x", uid="uid-x")
    writes = writes_for_group(found, by_another, describes=False)
    assert not isinstance(writes, Why)
    (write,) = writes
    assert isinstance(write, Apply)
    (owner_reference,) = write.body["metadata"]["ownerReferences"]
    assert owner_reference["kind"] == "Workload"
    shared = msgspec.convert(write.body, PodGroup)
    assert writes_for_group(found, shared, describes=True) == ()


def test_waiting_pod_leaves_only_groups_its_workload_did_not_give_it() -> None:
    claimed = Claim("ns/w", "w", "g", "k")
    why = Why(Reason.WORKLOAD_MISSING, "missing")
    assert held_back(pod(annotations={"pod-group-name": "w-g-k"}), claimed, why) is None
    assert held_back(pod(annotations={"pod-group-name": "pg-x"}, spec={"nodeName": "n"}), claimed, why) is None
    assert held_back(pod(), claimed, why) is None
    patch = held_back(pod(annotations={"pod-group-name": "pg-x"}), claimed, why)
    assert patch is not None
    assert {"op": "remove", "path": "/metadata/annotations/pod-group-name"} in patch.operations


def test_hand_placed_pods_are_those_without_owner_whose_group_we_would_not_give() -> None:
    claimed = Claim("ns/w", "w", "g", "k")
    assert {"w-g", "w-g-k"} < possible_names(claimed)
    assert placed_by_hand(pod(annotations={"pod-group-name": "mine"}), claimed)
    assert not placed_by_hand(pod(annotations={"pod-group-name": "w-g"}), claimed)
    assert not placed_by_hand(pod("p", annotations={"pod-group-name": "pg-p-uid-p"}), None)
    assert not placed_by_hand(pod(), None)
    spark = {"spark-app-name": "app", "spark-app-selector": "spark-1"}
    assert not placed_by_hand(pod(labels=spark, annotations={"pod-group-name": "spark-1"}), None)
    owned = pod(annotations={"pod-group-name": "mine"}, ownerReferences=[{"kind": "Job", "name": "j", "uid": "u"}])
    assert not placed_by_hand(owned, None)


class TestLaterApi:
    """Kubernetes 1.36: the pod names a PodGroup of Kubernetes' own."""

    def native(self, **spec: Any) -> NativePodGroup:
        meta = {"name": "pg", "namespace": "ns", "uid": "uid-pg", "labels": {QUEUE: "of-group"}}
        return msgspec.convert({"metadata": meta, "spec": spec}, NativePodGroup)

    def claimed(self) -> Claim:
        found = claim_v1alpha2(pod(spec={"schedulingGroup": {"podGroupName": "pg"}}))
        assert found is not None
        return found

    def test_each_group_becomes_one_of_the_same_name(self) -> None:
        native = self.native(
            schedulingPolicy={"gang": {"minCount": 3}},
            podGroupTemplateRef={"workload": {"workloadName": "w", "podGroupTemplateName": "t"}},
        )
        above = msgspec.convert(
            {"metadata": {"name": "w", "labels": {QUEUE: "of-workload", PRIORITY: "high"}}}, WorkloadTemplates
        )
        found = terms_v1alpha2(self.claimed(), native, above)
        assert isinstance(found, Terms)
        assert (found.name, found.minimum, found.owner.kind) == ("pg", 3, "PodGroup")
        assert found.labels == {QUEUE: "of-group", PRIORITY: "high"}

    def test_missing_group_waits(self) -> None:
        found = terms_v1alpha2(self.claimed(), None, None)
        assert isinstance(found, Why)
        assert found.reason is Reason.WORKLOAD_MISSING
