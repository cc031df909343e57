"""An operator that cannot begin ends with one line that says why."""

from __future__ import annotations

import json
import socket
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from grove.cli.main import main
from grove.runtime import certs

KUBECONFIG = """
apiVersion: v1
kind: Config
current-context: c
contexts: [{name: c, context: {cluster: c, user: u}}]
clusters: [{name: c, cluster: {server: "http://127.0.0.1:9"}}]
users: [{name: u, user: {}}]
"""


@pytest.fixture
def ports() -> dict[str, Any]:
    """Places to listen on that are free."""
    held = [socket.socket() for _ in range(3)]
    for one in held:
        one.bind(("127.0.0.1", 0))
    numbers = [one.getsockname()[1] for one in held]
    for one in held:
        one.close()
    names = ("webhooks", "healthProbes", "metrics")
    return {name: {"bindAddress": "127.0.0.1", "port": port} for name, port in zip(names, numbers, strict=True)}


def started(folder: Path, server: dict[str, Any]) -> str:
    """What is said when the operator is started with this configuration; it must fail."""
    (folder / "kubeconfig").write_text(KUBECONFIG)
    (folder / "operator.yaml").write_text(json.dumps({"server": server}))
    where = ["--config", str(folder / "operator.yaml"), "--kubeconfig", str(folder / "kubeconfig")]
    result = CliRunner().invoke(main, ["operator", *where])
    assert result.exit_code == 1, result.output
    (line,) = [line for line in result.stderr.splitlines() if line.startswith("error: ")]
    return line


def manual(ports: dict[str, Any], folder: Path) -> dict[str, Any]:
    webhooks = {**ports["webhooks"], "certProvisionMode": "manual", "serverCertDir": str(folder)}
    return {**ports, "webhooks": webhooks}


def test_certificate_files_that_are_not_there_are_named(tmp_path: Path, ports: dict[str, Any]) -> None:
    line = started(tmp_path, manual(ports, tmp_path / "certs"))
    assert f"server.webhooks.serverCertDir: {tmp_path / 'certs'} holds no usable certificate" in line
    assert "tls.crt" in line


def test_certificate_files_that_do_not_fit_are_named(tmp_path: Path, ports: dict[str, Any]) -> None:
    one, other = (certs.renewed(None, ["a"], datetime.now(UTC)).serving for _ in range(2))
    (tmp_path / "tls.crt").write_bytes(one.certificate)
    (tmp_path / "tls.key").write_bytes(other.key)
    assert "holds no usable certificate" in started(tmp_path, manual(ports, tmp_path))


def test_a_port_that_is_taken_is_named(tmp_path: Path, ports: dict[str, Any]) -> None:
    pair = certs.renewed(None, ["a"], datetime.now(UTC)).serving
    (tmp_path / "tls.crt").write_bytes(pair.certificate)
    (tmp_path / "tls.key").write_bytes(pair.key)
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", ports["metrics"]["port"]))
        taken.listen()
        line = started(tmp_path, manual(ports, tmp_path))
    assert "server: a port cannot be listened on" in line
    assert str(ports["metrics"]["port"]) in line


def test_an_api_server_that_is_away_is_named(
    tmp_path: Path, ports: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("grove.runtime.client.FIRST_PAUSE", 0.0)
    assert "the certificate in Secret default/grove-webhook-server-cert is out of reach" in started(tmp_path, ports)
