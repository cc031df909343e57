from __future__ import annotations

import base64
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
import yaml

from grove.runtime import certs
from grove.runtime.connection import (
    Connection,
    ConnectionConfigError,
    connect,
    in_cluster,
    load,
    proxy_from_environment,
)
from grove.runtime.credentials import ExecPlugin, Plugin, TokenFile
from grove.runtime.transport import TransportError

NOW = datetime(2026, 1, 1, tzinfo=UTC)
AUTHORITY = certs.new_authority(NOW)
CLIENT = certs.issue(AUTHORITY, ["client"], NOW)


class StillClock:
    def __init__(self) -> None:
        self.moment = NOW

    def now(self) -> datetime:
        return self.moment

    def monotonic(self) -> float:
        return (self.moment - NOW).total_seconds()


def b64(data: bytes) -> str:
    return base64.b64encode(data).decode()


def config(cluster: dict[str, Any] | None = None, user: dict[str, Any] | None = None) -> dict[str, Any]:
    return {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "main",
        "contexts": [{"name": "main", "context": {"cluster": "c", "user": "u", "namespace": "team"}}],
        "clusters": [{"name": "c", "cluster": {"server": "https://api:6443", **(cluster or {})}}],
        "users": [{"name": "u", "user": user or {}}],
    }


def written(tmp_path: Path, content: dict[str, Any] | str, name: str = "config") -> Path:
    path = tmp_path / name
    path.write_text(content if isinstance(content, str) else yaml.safe_dump(content))
    return path


def test_inline_data_is_used(tmp_path: Path) -> None:
    path = written(
        tmp_path,
        config(
            {
                "certificate-authority-data": b64(AUTHORITY.certificate),
                "tls-server-name": "api",
                "proxy-url": "http://p:1",
            },
            {"client-certificate-data": b64(CLIENT.certificate), "client-key-data": b64(CLIENT.key), "token": "t"},
        ),
    )
    connection = load(path)
    assert connection.server == "https://api:6443"
    assert connection.namespace == "team"
    assert connection.tls.ca == AUTHORITY.certificate
    assert connection.tls.server_name == "api"
    assert not connection.tls.insecure
    assert connection.identity.client_certificate == (CLIENT.certificate, CLIENT.key)
    assert connection.identity.headers["Authorization"] == "Bearer t"
    assert connection.proxy == "http://p:1"


def test_files_are_found_beside_the_kubeconfig(tmp_path: Path) -> None:
    (tmp_path / "ca.crt").write_bytes(AUTHORITY.certificate)
    (tmp_path / "c.crt").write_bytes(CLIENT.certificate)
    (tmp_path / "c.key").write_bytes(CLIENT.key)
    (tmp_path / "token").write_text("t")
    user = {"client-certificate": "c.crt", "client-key": "c.key", "tokenFile": "token"}
    connection = load(written(tmp_path, config({"certificate-authority": "ca.crt"}, user)))
    assert connection.tls.ca == AUTHORITY.certificate
    assert connection.identity.client_certificate == (CLIENT.certificate, CLIENT.key)
    assert connection.token_file == tmp_path / "token"


def test_verification_is_off_only_when_the_file_says_so(tmp_path: Path) -> None:
    assert not load(written(tmp_path, config())).tls.insecure
    assert load(written(tmp_path, config({"insecure-skip-tls-verify": True}))).tls.insecure


def test_another_context_may_be_named(tmp_path: Path) -> None:
    content = config()
    content["contexts"].append({"name": "other", "context": {"cluster": "d"}})
    content["clusters"].append({"name": "d", "cluster": {"server": "http://other"}})
    path = written(tmp_path, content)
    assert load(path, "other").server == "http://other"


def test_several_files_merge_and_the_first_wins(tmp_path: Path) -> None:
    first = written(tmp_path, {"current-context": "main", "users": [{"name": "u", "user": {"token": "first"}}]}, "1")
    second = written(tmp_path, config(user={"token": "second"}), "2")
    connection = load(environ={"KUBECONFIG": f"{first}:{tmp_path / 'missing'}:{second}"})
    assert connection.server == "https://api:6443"
    assert connection.identity.headers["Authorization"] == "Bearer first"


GARBAGE = b64(b"not a certificate")


@pytest.mark.parametrize(
    ("content", "field", "problem"),
    [
        ("a: [", "", "is not YAML"),
        ("just text", "", "must be a mapping"),
        ({"current-context": "x", "clusters": "no"}, "clusters", "Expected `array"),
        ({"clusters": []}, "current-context", "is not set"),
        ({**config(), "current-context": "absent"}, "current-context", "'absent'"),
        ({**config(), "clusters": []}, "contexts[main].context", "'c', which is not among clusters"),
        ({**config(), "users": []}, "contexts[main].context", "'u', which is not among users"),
        (config({"server": "api:6443"}), "clusters[c].cluster.server", "http or https"),
        (config({"proxy-url": "socks5://x"}), "clusters[c].cluster.proxy-url", "http or https"),
        (config({"certificate-authority": "absent.crt"}), "clusters[c].cluster.certificate-authority", "absent.crt"),
        (config({"certificate-authority-data": "%%"}), "clusters[c].cluster.certificate-authority-data", "base64"),
        (config({"certificate-authority-data": GARBAGE}), "clusters[c].cluster.certificate-authority", "PEM"),
        (
            config({"certificate-authority-data": b64(AUTHORITY.certificate), "insecure-skip-tls-verify": True}),
            "clusters[c].cluster.insecure-skip-tls-verify",
            "together",
        ),
        (config(user={"client-certificate": "absent"}), "users[u].user.client-certificate", "cannot read"),
        (
            config(user={"client-certificate-data": b64(CLIENT.certificate)}),
            "users[u].user.client-key",
            "belong together",
        ),
        (
            config(user={"client-certificate-data": GARBAGE, "client-key-data": GARBAGE}),
            "users[u].user.client-certificate",
            "does not load",
        ),
        (config(user={"tokenFile": "absent"}), "users[u].user.tokenFile", "cannot read"),
        (config(user={"exec": {"command": "no-such-program-here"}}), "users[u].user.exec.command", "no program"),
        (config(user={"auth-provider": {"name": "gcp"}}), "users[u].user.auth-provider", "no longer supported"),
        (config(user={"token": 7}), "users[0].user.token", "Expected `str"),
    ],
)
def test_what_is_wrong_is_named_with_file_and_field(
    tmp_path: Path, content: dict[str, Any] | str, field: str, problem: str
) -> None:
    path = written(tmp_path, content)
    with pytest.raises(ConnectionConfigError) as caught:
        load(path)
    assert caught.value.file == str(path)
    assert caught.value.field == field
    assert problem in caught.value.problem
    assert str(path) in str(caught.value)


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(ConnectionConfigError, match="absent: no such file"):
        load(tmp_path / "absent")


def test_a_directory_is_not_a_kubeconfig(tmp_path: Path) -> None:
    with pytest.raises(ConnectionConfigError, match="cannot be read"):
        load(tmp_path)


def pod(tmp_path: Path) -> Path:
    (tmp_path / "token").write_text("t")
    (tmp_path / "ca.crt").write_bytes(AUTHORITY.certificate)
    (tmp_path / "namespace").write_text("grove-system\n")
    return tmp_path


def test_a_pod_uses_its_service_account(tmp_path: Path) -> None:
    environ = {"KUBERNETES_SERVICE_HOST": "fd00::1", "KUBERNETES_SERVICE_PORT": "6443", "HOME": str(tmp_path)}
    connection = load(environ=environ, service_account=pod(tmp_path))
    assert connection.server == "https://[fd00::1]:6443"
    assert connection.namespace == "grove-system"
    assert connection.token_file == tmp_path / "token"
    assert connection.tls.ca == AUTHORITY.certificate


def test_a_pod_without_a_token_says_which_file_is_missing(tmp_path: Path) -> None:
    with pytest.raises(ConnectionConfigError, match="token"):
        in_cluster(environ={"KUBERNETES_SERVICE_HOST": "10.0.0.1"}, service_account=tmp_path)
    with pytest.raises(ConnectionConfigError, match="KUBERNETES_SERVICE_HOST"):
        in_cluster(environ={}, service_account=tmp_path)


async def test_a_token_file_is_read_again_as_time_passes(tmp_path: Path) -> None:
    clock = StillClock()
    path = tmp_path / "token"
    path.write_text("one\n")
    credentials = TokenFile(path, clock=clock)
    assert (await credentials.identity()).headers == {"Authorization": "Bearer one"}
    path.write_text("two")
    assert (await credentials.identity()).headers == {"Authorization": "Bearer one"}
    clock.moment += timedelta(minutes=2)
    assert (await credentials.identity()).headers == {"Authorization": "Bearer two"}
    path.unlink()
    credentials.renew()
    with pytest.raises(TransportError, match="token"):
        await credentials.identity()


def plugin(tmp_path: Path, script: str) -> Plugin:
    path = tmp_path / "plugin.py"
    path.write_text(script)
    return Plugin(sys.executable, (str(path),), {"EXTRA": "x"}, source="kubeconfig: users[u].user")


COUNTING = """
import json, os, pathlib
info = json.loads(os.environ["KUBERNETES_EXEC_INFO"])
assert info["kind"] == "ExecCredential" and os.environ["EXTRA"] == "x"
count = pathlib.Path(__file__).with_suffix(".count")
number = int(count.read_text()) + 1 if count.exists() else 1
count.write_text(str(number))
print(json.dumps({"apiVersion": info["apiVersion"], "kind": "ExecCredential",
    "status": {"token": f"token-{number}", "expirationTimestamp": "2026-01-01T01:00:00Z"}}))
"""


async def test_plugin_credentials_are_kept_until_they_expire_or_are_refused(tmp_path: Path) -> None:
    clock = StillClock()
    credentials = ExecPlugin(plugin(tmp_path, COUNTING), clock=clock)
    tokens = [(await credentials.identity()).headers["Authorization"] for _ in range(2)]
    clock.moment += timedelta(minutes=59, seconds=45)
    tokens.append((await credentials.identity()).headers["Authorization"])
    clock.moment = NOW
    credentials.renew()
    tokens.append((await credentials.identity()).headers["Authorization"])
    assert tokens == ["Bearer token-1", "Bearer token-1", "Bearer token-2", "Bearer token-3"]


@pytest.mark.parametrize(
    ("script", "problem"),
    [
        ("print('hello')", "printed no ExecCredential"),
        ("print('{\"status\":{}}')", "gave no credentials"),
        ("import sys; sys.exit('log in first')", "log in first"),
    ],
)
async def test_a_plugin_that_fails_is_named(tmp_path: Path, script: str, problem: str) -> None:
    with pytest.raises(TransportError, match=problem) as caught:
        await ExecPlugin(plugin(tmp_path, script)).identity()
    assert "users[u].user" in str(caught.value)


def test_proxies_come_from_the_environment_unless_excepted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HTTPS_PROXY", "http://proxy:3128")
    monkeypatch.setenv("NO_PROXY", "10.0.0.1,.svc")
    assert proxy_from_environment("https://api.example.com:6443") == "http://proxy:3128"
    assert proxy_from_environment("https://10.0.0.1:6443") is None
    assert proxy_from_environment("https://kubernetes.default.svc") is None


async def test_a_connection_becomes_a_transport(tmp_path: Path) -> None:
    transport = connect(Connection("https://127.0.0.1:1", identity=load(written(tmp_path, config())).identity))
    await transport.close()
