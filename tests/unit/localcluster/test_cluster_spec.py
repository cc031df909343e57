"""What may be asked for, where it is kept, and how nodes are laid out."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from grove.localcluster.components import Component, Surroundings, components_for, groups_for, port_names
from grove.localcluster.errors import LocalClusterError
from grove.localcluster.nodes import (
    BLOCK_LABEL,
    HOST_LABEL,
    RACK_LABEL,
    ZONE_LABEL,
    is_schedulable,
    node_capacity,
    node_document,
    node_labels,
)
from grove.localcluster.spec import ClusterFiles, ClusterSpec, Scheduler, default_data_dir, stored_spec


@pytest.mark.parametrize("name", ["", "Upper", "-dash", "dash-", "a/b", "..", "x" * 41])
def test_names_that_make_bad_folders_are_refused(name: str) -> None:
    with pytest.raises(LocalClusterError, match="no cluster name"):
        ClusterSpec(name=name)


def test_empty_levels_are_refused() -> None:
    with pytest.raises(LocalClusterError, match="leave some of them empty"):
        ClusterSpec(racks=2, blocks=3)


def test_spec_comes_back_from_its_folder(tmp_path: Path) -> None:
    spec = ClusterSpec(name="one", nodes=3, racks=3, blocks=3, zones=3, scheduler=Scheduler.KUBE, data_dir=tmp_path)
    ClusterFiles(tmp_path).spec.write_text(spec.to_json())
    assert stored_spec(tmp_path) == spec


def test_folder_without_a_cluster_has_no_spec(tmp_path: Path) -> None:
    assert stored_spec(tmp_path) is None


def test_state_home_of_the_user_is_respected(tmp_path: Path) -> None:
    folder = default_data_dir("one", {"XDG_STATE_HOME": str(tmp_path)})
    assert folder == tmp_path / "grove" / "clusters" / "one"


def test_lock_is_outside_the_folder_that_reset_removes(tmp_path: Path) -> None:
    files = ClusterFiles(tmp_path / "one")
    assert files.folder not in files.lock.parents


def test_hundred_nodes_fill_ten_racks_evenly() -> None:
    spec = ClusterSpec(nodes=100, racks=10, blocks=5, zones=2)
    labels = [node_labels(spec, index) for index in range(100)]
    assert set(Counter(one[RACK_LABEL] for one in labels).values()) == {10}
    assert labels[0][RACK_LABEL] == labels[9][RACK_LABEL] == "rack-0"
    assert labels[99] == {**labels[99], HOST_LABEL: "node-99", RACK_LABEL: "rack-9", BLOCK_LABEL: "block-4"}
    assert {one[ZONE_LABEL] for one in labels} == {"zone-0", "zone-1"}


levels = st.lists(st.integers(1, 12), min_size=4, max_size=4).map(lambda sizes: sorted(sizes, reverse=True))


@given(levels)
def test_every_domain_lies_in_exactly_one_larger_domain_and_sizes_differ_by_one_at_most(sizes: list[int]) -> None:
    nodes, racks, blocks, zones = sizes
    spec = ClusterSpec(nodes=nodes, racks=racks, blocks=blocks, zones=zones)
    labels = [node_labels(spec, index) for index in range(nodes)]
    for inner, outer in ((HOST_LABEL, RACK_LABEL), (RACK_LABEL, BLOCK_LABEL), (BLOCK_LABEL, ZONE_LABEL)):
        parents = {(one[inner], one[outer]) for one in labels}
        assert len(parents) == len({one[inner] for one in labels})
        members = Counter(parent for _, parent in parents)
        assert max(members.values()) - min(members.values()) <= 1
    assert len({one[RACK_LABEL] for one in labels}) == racks
    assert len({one[ZONE_LABEL] for one in labels}) == zones


def test_node_without_gpus_names_no_gpu_resource() -> None:
    assert "nvidia.com/gpu" not in node_capacity(ClusterSpec(gpus=0))
    assert node_document(ClusterSpec(gpus=4), 0)["status"]["allocatable"]["nvidia.com/gpu"] == "4"


@pytest.mark.parametrize(
    ("ready", "taints", "expected"),
    [
        ("True", [], True),
        ("False", [], False),
        ("True", ["node.kubernetes.io/not-ready"], False),
        ("True", ["node.kubernetes.io/unschedulable"], True),
    ],
)
def test_node_takes_pods_when_ready_and_no_longer_tainted_as_new(ready: str, taints: list[str], expected: bool) -> None:
    node = {
        "spec": {"taints": [{"key": key} for key in taints]},
        "status": {"conditions": [{"type": "Ready", "status": ready}]},
    }
    assert is_schedulable(node) is expected


def surroundings(spec: ClusterSpec) -> Surroundings:
    ports = {name: 1000 + index for index, name in enumerate(port_names(spec))}
    return Surroundings(spec, ClusterFiles(Path("/cluster")), ports)


def test_kai_runs_only_where_it_is_asked_for() -> None:
    with_kai = {one.name for one in components_for(surroundings(ClusterSpec()))}
    without = {one.name for one in components_for(surroundings(ClusterSpec(scheduler=Scheduler.KUBE)))}
    assert with_kai - without == {"kai-scheduler", "kai-binder"}
    assert "kai" not in {group.name for group in groups_for(ClusterSpec(scheduler=Scheduler.KUBE))}


def test_workload_api_can_be_left_out() -> None:
    spec = ClusterSpec()
    for workload_api in (True, False):
        components = components_for(surroundings(replace(spec, workload_api=workload_api)))
        server = next(one for one in components if one.name == "kube-apiserver")
        assert any("scheduling.k8s.io/v1alpha1" in argument for argument in server.argv) is workload_api


def test_components_keep_their_meaning_on_the_way_to_the_supervisor() -> None:
    for component in components_for(surroundings(ClusterSpec())):
        assert Component.from_dict(component.to_dict()) == component
