"""A configuration is understood wholly, or refused in one message that names the field and what is allowed."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from grove.api.cluster_topology import TopologyLevel
from grove.config import ConfigurationError, order_warning, parse, without_effect
from grove.config.load import load
from manifests import tables


def level(domain: str, key: str) -> dict[str, str]:
    return {"domain": domain, "key": key}


REFUSED: list[tuple[Any, str]] = [
    ({"topolgy": {}}, "topolgy: unknown field; known here: apiVersion, kind, "),
    ({"server": {"webhooks": {"prot": 1}}}, "server.webhooks.prot: unknown field; known here: bindAddress, port, "),
    ({"logLevel": "trace"}, "logLevel: must be one of debug, error, info (got 'trace')"),
    ({"logFormat": 1}, "logFormat: must be of type string, not integer (got 1)"),
    (
        {"server": {"webhooks": {"certProvisionMode": "none"}}},
        "server.webhooks.certProvisionMode: must be one of auto, manual",
    ),
    ({"server": {"metrics": {"port": 0}}}, "server.metrics.port: must be at least 1 (got 0)"),
    ({"server": {"metrics": {"port": 70000}}}, "server.metrics.port: must be at most 65535"),
    (
        {"controllers": {"podClique": {"concurrentSyncs": 0}}},
        "controllers.podClique.concurrentSyncs: must be at least 1",
    ),
    ({"runtimeClientConnection": {"burst": -1}}, "runtimeClientConnection.burst: must be at least 0"),
    ({"leaderElection": {"leaseDuration": "15"}}, "leaderElection.leaseDuration: must be a duration such as 30s"),
    ({"leaderElection": {"retryPeriod": "0s"}}, "leaderElection.retryPeriod: must be greater than 0"),
    (
        {"leaderElection": {"leaseDuration": "10s"}},
        "leaderElection.leaseDuration: must be greater than renewDeadline 10s",
    ),
    (
        {"leaderElection": {"renewDeadline": "2s"}},
        "leaderElection.renewDeadline: must be greater than retryPeriod 2s (got '2s')",
    ),
    (
        {"server": {"webhooks": {"port": 9000}, "metrics": {"port": 9000}}},
        "server.metrics.port: must differ from server.webhooks.port (got 9000)",
    ),
    ({"leaderElection": {"resourceLock": "configmaps"}}, "leaderElection.resourceLock: must be one of leases"),
    (
        {"scheduler": {"profiles": [{"name": "volcano"}]}},
        "scheduler.profiles[0].name: must be one of default-scheduler",
    ),
    (
        {"scheduler": {"profiles": [{"name": "kai-scheduler"}, {"name": "kai-scheduler"}]}},
        "scheduler.profiles[1].name: must not be repeated",
    ),
    (
        {"scheduler": {"profiles": [], "defaultProfileName": "kai-scheduler"}},
        "scheduler.defaultProfileName: must be one of the profiles",
    ),
    ({"topology": {"enabled": True}}, "topology.levels: must have at least one level"),
    (
        {"topology": {"enabled": True, "levels": [level("rack", "a"), level("rack", "b")]}},
        "duplicate topology domain 'rack' in configuration",
    ),
    (
        {"topology": {"enabled": True, "levels": [level("rack", "a"), level("host", "a")]}},
        "duplicate topology key 'a' in configuration",
    ),
    (
        {"topology": {"levels": [level("rak", "a")]}},
        "topology.levels[0].domain: must be one of block, datacenter, host",
    ),
    ({"topology": {"levels": [level("rack", "a b")]}}, "topology.levels[0].key: must be a label key"),
    ({"topology": {"levels": [{"domain": "rack"}]}}, "topology.levels[0].key: must be set"),
    (
        {"topology": {"enabled": True, "name": "Our Topology", "levels": [level("rack", "a")]}},
        "topology.name: must be the name of an object: lower case letters, digits, '-' and '.' (got 'Our Topology')",
    ),
    ({"server": {"webhooks": {"secretName": ""}}}, "server.webhooks.secretName: "),
    ({"mnnvl": {"claims": "each"}}, "mnnvl.claims: must be one of perPod, shared (got 'each')"),
    ({"updates": {"revisionHistoryLimit": -1}}, "updates.revisionHistoryLimit: must be at least 0"),
    (
        {"topologyAwareScheduling": {"enabled": True}},
        "topologyAwareScheduling: not a field of this configuration; say topology:",
    ),
    ({"kind": "Configuration"}, "kind: must be one of OperatorConfiguration"),
    ([], "configuration: must be of type object, not array"),
]


@pytest.mark.parametrize(("document", "message"), REFUSED, ids=[message[:40] for _, message in REFUSED])
def test_what_cannot_be_used_is_named(document: Any, message: str) -> None:
    with pytest.raises(ConfigurationError) as refused:
        parse(document)
    assert message in str(refused.value)
    assert "\n" not in str(refused.value)


def test_nothing_written_means_the_defaults() -> None:
    configuration = parse(None)
    assert configuration.server.webhooks.port == 2750
    assert configuration.server.webhooks.cert_provision_mode == "auto"
    assert configuration.controllers.pod_clique_set.concurrent_syncs == 10
    assert configuration.controllers.pod_gang.concurrent_syncs == 5
    assert configuration.leader_election.lease_duration == "15s"
    assert configuration.updates.revision_history_limit == 10
    assert configuration.topology.name == "grove-topology"
    assert not configuration.topology.enabled
    assert configuration.mnnvl.claims == "shared"
    assert not configuration.authorizer.enabled


def test_a_key_with_nothing_behind_it_means_the_default() -> None:
    assert parse({"topology": None, "server": {"webhooks": None}}) == parse({})


def test_the_default_scheduler_is_always_there() -> None:
    configuration = parse({"scheduler": {"profiles": [{"name": "kai-scheduler"}]}})
    assert [profile.name for profile in configuration.scheduler.profiles] == ["kai-scheduler", "default-scheduler"]


def test_levels_keep_the_order_written() -> None:
    levels = [level("host", "kubernetes.io/hostname"), level("rack", "topology.kubernetes.io/rack")]
    configuration = parse({"topology": {"enabled": True, "levels": levels}})
    assert [written.domain for written in configuration.topology.levels] == ["host", "rack"]


def test_an_order_that_contradicts_the_names_is_told() -> None:
    rack, host = TopologyLevel(domain="rack", key="a"), TopologyLevel(domain="host", key="b")
    assert order_warning([rack, host]) is None
    assert order_warning([]) is None
    warning = order_warning([host, rack])
    assert warning is not None
    assert "host > rack" in warning
    assert "rack > host" in warning


def test_what_is_only_accepted_is_named() -> None:
    assert without_effect(parse({})) == []
    written = {"runtimeClientConnection": {"qps": 100, "burst": 150}, "debugging": {"enableProfiling": True}}
    assert without_effect(parse(written)) == ["runtimeClientConnection", "debugging"]
    assert without_effect(parse({"controllers": {"podClique": {"concurrentSyncs": 3}}})) == ["controllers"]


def test_the_example_can_be_loaded() -> None:
    configuration = load(tables.EXAMPLES / "operator-configuration.yaml")
    assert [written.domain for written in configuration.topology.levels] == ["zone", "block", "rack", "host"]


@pytest.mark.parametrize(
    ("content", "message"),
    [(b"a: [", "is not YAML"), (b"\xff\xfe\xfa", "is not YAML"), (b"logLevel: loud", "logLevel: must be one of")],
)
def test_a_file_that_cannot_be_used_is_named(tmp_path: Path, content: bytes, message: str) -> None:
    path = tmp_path / "config.yaml"
    path.write_bytes(content)
    with pytest.raises(ConfigurationError) as refused:
        load(path)
    assert str(refused.value).startswith(f"{path}: ")
    assert message in str(refused.value)


def test_a_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match="cannot be read"):
        load(tmp_path / "missing.yaml")
