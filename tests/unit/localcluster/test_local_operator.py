"""What the local cluster makes of deploy/ and of the operator's configuration."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from grove.config import parse
from grove.localcluster import manifests
from grove.localcluster.components import (
    OPERATOR_HEALTH,
    OPERATOR_METRICS,
    OPERATOR_WEBHOOKS,
    Component,
    Surroundings,
    Wave,
    components_for,
    port_names,
)
from grove.localcluster.errors import LocalClusterError
from grove.localcluster.operator import local_webhooks, operator_configuration, webhooks_for
from grove.localcluster.spec import ClusterFiles, ClusterSpec, Scheduler, stored_spec

PORTS = {OPERATOR_WEBHOOKS: 1001, OPERATOR_HEALTH: 1002, OPERATOR_METRICS: 1003}
SPEC = ClusterSpec(operator=True)


def components(spec: ClusterSpec) -> dict[str, Component]:
    ports = {name: 1000 + index for index, name in enumerate(port_names(spec))}
    return {one.name: one for one in components_for(Surroundings(spec, ClusterFiles(Path("/cluster")), ports))}


def test_everything_in_deploy_can_be_placed() -> None:
    found = [one for pattern in ("crds/*.yaml", "rbac/*.yaml", "webhooks.yaml") for one in manifests.documents(pattern)]
    paths = {manifests.rest_path(one) for one in found}
    assert "/api/v1/namespaces/grove-system" in paths
    assert "/api/v1/namespaces/grove-system/serviceaccounts/grove-operator" in paths
    assert "/api/v1/namespaces/grove-system/serviceaccounts/grove-pod-grouper" in paths
    assert "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/podcliquesets.grove.io" in paths


def test_unknown_kind_is_refused_by_name() -> None:
    with pytest.raises(LocalClusterError, match="a Deployment of apps/v1"):
        manifests.rest_path({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "x"}})


def test_webhooks_are_addressed_by_url_and_otherwise_as_in_deploy() -> None:
    for document in manifests.documents("webhooks.yaml"):
        local = local_webhooks(document, 1001)
        for one, original in zip(local["webhooks"], document["webhooks"], strict=True):
            path = original["clientConfig"]["service"]["path"]
            assert one == {**original, "clientConfig": {"url": f"https://127.0.0.1:1001{path}"}}


def test_webhooks_of_features_that_are_off_are_left_out() -> None:
    def names(configuration: dict[str, Any]) -> set[str]:
        return {document["metadata"]["name"] for document in webhooks_for(configuration)}

    every = {document["metadata"]["name"] for document in manifests.documents("webhooks.yaml")}
    assert names({"mnnvl": {"enabled": True}, "authorizer": {"enabled": True}}) == every
    assert names({"mnnvl": None}) == every - {"mnnvl-webhook", "authorizer-webhook"}
    assert names({"mnnvl": {"enabled": True}}) == every - {"authorizer-webhook"}


def test_default_configuration_is_one_the_operator_takes() -> None:
    configuration = parse(operator_configuration(SPEC, PORTS))
    assert [level.domain for level in configuration.topology.levels] == ["zone", "block", "rack", "host"]
    assert configuration.topology.enabled
    assert not configuration.leader_election.enabled
    assert configuration.log_format == "text"
    assert {profile.name for profile in configuration.scheduler.profiles} == {"default-scheduler", "kai-scheduler"}
    server = configuration.server
    assert (server.webhooks.port, server.health_probes.port, server.metrics.port) == (1001, 1002, 1003)
    assert {server.webhooks.bind_address, server.health_probes.bind_address, server.metrics.bind_address} == {
        "127.0.0.1"
    }


def test_scheduler_that_does_not_run_is_not_offered() -> None:
    configuration = parse(operator_configuration(replace(SPEC, scheduler=Scheduler.KUBE), PORTS))
    assert [profile.name for profile in configuration.scheduler.profiles] == ["default-scheduler"]


def test_users_configuration_counts_except_for_where_to_listen(tmp_path: Path) -> None:
    given: dict[str, Any] = {
        "logFormat": "json",
        "server": {"webhooks": {"port": 9, "secretName": "mine"}, "healthProbes": {"enable": False}},
        "topology": {"levels": [{"domain": "rack", "key": "example.com/rack"}]},
    }
    path = tmp_path / "operator.yaml"
    path.write_text(json.dumps(given))
    configuration = parse(operator_configuration(replace(SPEC, operator_config=path), PORTS))
    assert configuration.log_format == "json"
    assert [level.key for level in configuration.topology.levels] == ["example.com/rack"]
    assert configuration.topology.enabled
    assert (configuration.server.webhooks.port, configuration.server.webhooks.secret_name) == (1001, "mine")
    assert configuration.server.health_probes.enable


@pytest.mark.parametrize(
    ("content", "said"), [("a: [", "is not YAML"), ("- a", "holds no operator configuration"), (None, "cannot be read")]
)
def test_unusable_configuration_file_is_named(content: str | None, said: str, tmp_path: Path) -> None:
    path = tmp_path / "operator.yaml"
    if content is not None:
        path.write_text(content)
    with pytest.raises(LocalClusterError, match=said) as caught:
        operator_configuration(replace(SPEC, operator_config=path), PORTS)
    assert str(path) in str(caught.value)


def test_operator_and_pod_grouper_run_where_they_are_asked_for() -> None:
    plain, with_operator = components(ClusterSpec()), components(SPEC)
    assert with_operator.keys() - plain.keys() == {"operator", "pod-grouper"}
    assert with_operator.keys() - components(replace(SPEC, pod_grouper=False)).keys() == {"pod-grouper"}
    assert "pod-grouper" not in components(replace(SPEC, scheduler=Scheduler.KUBE))
    assert "init-runner" in plain


def test_grove_is_stopped_before_everything_it_needs() -> None:
    waves = {name: one.wave for name, one in components(SPEC).items()}
    own = {"operator", "pod-grouper", "init-runner"}
    assert {waves[name] for name in own} == {Wave.GROVE}
    assert max(wave for name, wave in waves.items() if name not in own) < Wave.GROVE


def test_operator_acts_as_its_own_service_account() -> None:
    operator = components(SPEC)["operator"]
    assert "--kubeconfig=/cluster/config/grove-system.grove-operator.kubeconfig" in operator.argv
    assert operator.environment["GROVE_OPERATOR_NAMESPACE"] == "grove-system"


def test_operator_choices_come_back_from_the_folder(tmp_path: Path) -> None:
    spec = replace(SPEC, operator_config=tmp_path / "o.yaml", pod_grouper=False, data_dir=tmp_path)
    ClusterFiles(tmp_path).spec.write_text(spec.to_json())
    assert stored_spec(tmp_path) == spec
