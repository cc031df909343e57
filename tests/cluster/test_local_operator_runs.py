"""`grove local up --operator`: the operator as a supervised component, with what deploy/ gives it and nothing more."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from click.testing import CliRunner

from grove.cli.main import main
from grove.localcluster import ClusterSpec, LocalClusterError, RunningCluster, down, reset, up
from grove.localcluster.processes import marker_for, processes_of
from grove.localcluster.states import ComponentState

NAME = "pytest-operator"


@pytest.fixture(scope="module")
def spec(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ClusterSpec]:
    folder = tmp_path_factory.mktemp("operator") / "cluster"
    yield ClusterSpec(name=NAME, nodes=2, racks=2, operator=True, data_dir=folder)
    reset(NAME, folder)


@pytest.fixture
def running(spec: ClusterSpec) -> RunningCluster:
    return up(spec)


def local(running: RunningCluster, *arguments: str) -> str:
    answer = CliRunner().invoke(main, ["local", arguments[0], "--data-dir", str(running.spec.folder), *arguments[1:]])
    assert answer.exit_code == 0, answer.output
    return answer.output


def test_operator_serves_with_the_rights_of_deploy(running: RunningCluster) -> None:
    for name in ("operator", "pod-grouper"):
        assert running.components()[name].state is ComponentState.READY
    account = "--as=system:serviceaccount:grove-system:grove-operator"
    assert running.kubectl("auth", "can-i", "create", "pods", account).strip() == "yes"
    with pytest.raises(LocalClusterError):
        running.kubectl("auth", "can-i", "get", "secrets", "-n", "kube-system", account)


def test_admission_answers_at_the_operators_address(running: RunningCluster) -> None:
    """What no schema can tell is refused by the operator itself, so address and authority are right."""
    template = {"cliqueStartupType": "CliqueStartupTypeExplicit", "cliques": [clique("a", startsAfter=["nobody"])]}
    dangling = {
        "apiVersion": "grove.io/v1alpha1",
        "kind": "PodCliqueSet",
        "metadata": {"name": "dangling"},
        "spec": {"replicas": 1, "template": template},
    }
    with pytest.raises(LocalClusterError, match="no clique has this name"):
        running.kubectl("create", "-f", "-", stdin=json.dumps(dangling))


def clique(name: str, **more: object) -> dict[str, object]:
    container = {"name": "main", "image": "example/main:1"}
    spec = {"roleName": name, "replicas": 1, "minAvailable": 1, "podSpec": {"containers": [container]}, **more}
    return {"name": name, "spec": spec}


def test_operator_is_restarted_and_logs_like_any_component(running: RunningCluster) -> None:
    before = running.components()["operator"].pid
    assert local(running, "restart", "operator").startswith("operator restarted")
    assert running.components()["operator"].pid != before
    assert local(running, "logs", "operator").strip()


def test_configuration_file_is_laid_over_and_read_again_at_a_restart(spec: ClusterSpec, tmp_path: Path) -> None:
    path = tmp_path / "operator.yaml"
    path.write_text("logFormat: json\n")
    down(NAME, spec.data_dir)
    running = up(replace(spec, operator_config=path))
    assert json.loads(running.files.operator_configuration.read_text())["logFormat"] == "json"
    path.write_text("logLevel: debug\n")
    local(running, "restart", "operator")
    configuration = json.loads(running.files.operator_configuration.read_text())
    assert (configuration["logFormat"], configuration["logLevel"]) == ("text", "debug")
    down(NAME, spec.data_dir)


def test_without_the_operator_nothing_of_it_stands_in_the_way(spec: ClusterSpec) -> None:
    up(spec)
    down(NAME, spec.data_dir)
    assert processes_of(marker_for(spec.folder)) == []
    bare = up(replace(spec, operator=False))
    kinds = "mutatingwebhookconfigurations,validatingwebhookconfigurations"
    assert bare.kubectl("get", kinds, "-o", "name") == ""
    down(NAME, spec.data_dir)
