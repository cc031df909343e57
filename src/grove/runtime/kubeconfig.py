"""Reads kubeconfig files: finds the context, its cluster and its user, and resolves every field into a Connection.

Several files merge as kubectl merges them: the first to name a cluster, user, context or current-context wins. Relative
paths are relative to the file that names them. Every complaint names the file and the field.
"""

from __future__ import annotations

import base64
import binascii
import shutil
import ssl
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Generic, TypeVar
from urllib.parse import urlsplit

import msgspec
import yaml

from grove.runtime.config_error import ConnectionConfigError
from grove.runtime.connection import Connection
from grove.runtime.credentials import Identity, Plugin, basic, with_token
from grove.runtime.tls import Tls, client_context


class _Cluster(msgspec.Struct, rename="kebab"):
    server: str = ""
    certificate_authority: str = ""
    certificate_authority_data: str = ""
    insecure_skip_tls_verify: bool = False
    tls_server_name: str = ""
    proxy_url: str = ""


class _EnvironmentVariable(msgspec.Struct):
    name: str
    value: str


class _Exec(msgspec.Struct, rename="camel"):
    command: str
    args: list[str] | None = None
    env: list[_EnvironmentVariable] | None = None
    api_version: str = "client.authentication.k8s.io/v1"
    install_hint: str = ""
    provide_cluster_info: bool = False


class _User(msgspec.Struct, rename="kebab"):
    client_certificate: str = ""
    client_certificate_data: str = ""
    client_key: str = ""
    client_key_data: str = ""
    token: str = ""
    token_file: str = msgspec.field(default="", name="tokenFile")
    username: str = ""
    password: str = ""
    exec: _Exec | None = None
    auth_provider: dict[str, Any] | None = None
    as_: str = msgspec.field(default="", name="as")
    as_groups: list[str] = msgspec.field(default_factory=list)


class _Context(msgspec.Struct):
    cluster: str = ""
    user: str = ""
    namespace: str = "default"


class _NamedCluster(msgspec.Struct):
    name: str
    cluster: _Cluster


class _NamedUser(msgspec.Struct):
    name: str
    user: _User | None = None


class _NamedContext(msgspec.Struct):
    name: str
    context: _Context


class _File(msgspec.Struct, rename="kebab"):
    current_context: str = ""
    clusters: list[_NamedCluster] | None = None
    users: list[_NamedUser] | None = None
    contexts: list[_NamedContext] | None = None


V = TypeVar("V")


@dataclass(frozen=True, slots=True)
class _Entry(Generic[V]):
    """A named part of a kubeconfig, and where it stands."""

    value: V
    file: Path
    field: str

    def fault(self, field: str, problem: str) -> ConnectionConfigError:
        return ConnectionConfigError(str(self.file), f"{self.field}.{field}", problem)

    def content(self, data: str, path: str, field: str) -> bytes | None:
        """What `<field>-data` holds, or else the file that `<field>` names."""
        if data:
            try:
                return base64.b64decode(data, validate=True)
            except binascii.Error as error:
                raise self.fault(f"{field}-data", f"is not base64: {error}") from error
        if not path:
            return None
        try:
            return (self.file.parent / path).read_bytes()
        except OSError as error:
            raise self.fault(field, f"cannot read {self.file.parent / path}: {error.strerror}") from error


def from_kubeconfig(paths: Sequence[Path], context: str | None = None) -> Connection:
    """The connection of a context (the current one unless named) of these files."""
    present = [path for path in paths if path.exists()] if len(paths) > 1 else list(paths)
    files = [(path, _parse(path)) for path in present]
    if not files:
        raise ConnectionConfigError(":".join(map(str, paths)), "", "no such file")
    chosen = context or next((file.current_context for _, file in files if file.current_context), "")
    if not chosen:
        raise ConnectionConfigError(str(files[0][0]), "current-context", "is not set and no context was named")
    asked_in = (str(files[0][0]), "contexts" if context else "current-context")
    named = _find("contexts", chosen, ((path, file.contexts or ()) for path, file in files), asked_in)
    where = named.value.context
    in_context = (str(named.file), f"{named.field}.context")
    cluster = _find("clusters", where.cluster, ((path, file.clusters or ()) for path, file in files), in_context)
    user_entry: _Entry[Any] | None = None
    if where.user:
        user_entry = _find("users", where.user, ((path, file.users or ()) for path, file in files), in_context)
    return _connection(
        _Entry(cluster.value.cluster, cluster.file, f"{cluster.field}.cluster"),
        _Entry(user_entry.value.user or _User(), user_entry.file, f"{user_entry.field}.user")
        if user_entry
        else _Entry(_User(), named.file, "users"),
        where.namespace,
    )


def _parse(path: Path) -> _File:
    try:
        content = path.read_bytes()
    except FileNotFoundError as error:
        raise ConnectionConfigError(str(path), "", "no such file") from error
    except OSError as error:
        raise ConnectionConfigError(str(path), "", f"cannot be read: {error.strerror}") from error
    try:
        document = yaml.load(content, getattr(yaml, "CSafeLoader", yaml.SafeLoader))
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise ConnectionConfigError(str(path), "", f"is not YAML: {' '.join(str(error).split())}") from error
    if not isinstance(document, dict):
        raise ConnectionConfigError(str(path), "", "is not a kubeconfig: it must be a mapping")
    try:
        return msgspec.convert(document, _File)
    except msgspec.ValidationError as error:
        problem, _, field = str(error).partition(" - at `")
        raise ConnectionConfigError(str(path), field.strip("`$."), problem) from error


def _find(kind: str, name: str, files: Iterable[tuple[Path, Iterable[Any]]], asked_in: tuple[str, str]) -> _Entry[Any]:
    for path, entries in files:
        for entry in entries:
            if entry.name == name:
                return _Entry(entry, path, f"{kind}[{name}]")
    raise ConnectionConfigError(*asked_in, f"names {name!r}, which is not among {kind}")


def _connection(cluster: _Entry[_Cluster], user: _Entry[_User], namespace: str) -> Connection:
    server = cluster.value.server
    if urlsplit(server).scheme not in ("http", "https"):
        raise cluster.fault("server", f"must be an http or https address, not {server!r}")
    proxy = cluster.value.proxy_url
    if proxy and urlsplit(proxy).scheme not in ("http", "https"):
        raise cluster.fault("proxy-url", f"must be an http or https address, not {proxy!r}")
    tls = _tls(cluster)
    return Connection(
        server=server,
        tls=tls,
        identity=_identity(user, tls),
        token_file=_token_file(user),
        plugin=_plugin(user, cluster, tls),
        proxy=proxy or None,
        namespace=namespace,
        source=str(cluster.file),
    )


def _tls(cluster: _Entry[_Cluster]) -> Tls:
    value = cluster.value
    authority = cluster.content(value.certificate_authority_data, value.certificate_authority, "certificate-authority")
    if authority is not None and value.insecure_skip_tls_verify:
        raise cluster.fault("insecure-skip-tls-verify", "must not be set together with a certificate authority")
    tls = Tls(authority, value.insecure_skip_tls_verify, value.tls_server_name)
    try:
        client_context(tls)
    except (ssl.SSLError, ValueError) as error:
        raise cluster.fault("certificate-authority", f"is not a PEM certificate: {error}") from error
    return tls


def _identity(user: _Entry[_User], tls: Tls) -> Identity:
    value = user.value
    if value.auth_provider is not None:
        raise user.fault("auth-provider", "is no longer supported by Kubernetes; use an exec plugin")
    certificate = user.content(value.client_certificate_data, value.client_certificate, "client-certificate")
    key = user.content(value.client_key_data, value.client_key, "client-key")
    if (certificate is None) != (key is None):
        missing = "client-key" if key is None else "client-certificate"
        raise user.fault(missing, "is missing: a client certificate and its key belong together")
    pair = (certificate, key) if certificate is not None and key is not None else None
    try:
        client_context(tls, pair)
    except (ssl.SSLError, ValueError) as error:
        raise user.fault("client-certificate", f"does not load with its key: {error}") from error
    headers: dict[str, str] = {}
    if value.as_:
        headers["Impersonate-User"] = value.as_
    if value.as_groups:
        if len(value.as_groups) > 1:
            raise user.fault("as-groups", "more than one group cannot be impersonated")
        headers["Impersonate-Group"] = value.as_groups[0]
    if value.username:
        headers.update(basic(value.username, value.password))
    identity = Identity(headers, pair)
    return with_token(identity, value.token) if value.token and not value.token_file else identity


def _token_file(user: _Entry[_User]) -> Path | None:
    if not user.value.token_file:
        return None
    path = user.file.parent / user.value.token_file
    user.content("", user.value.token_file, "tokenFile")
    return path


def _plugin(user: _Entry[_User], cluster: _Entry[_Cluster], tls: Tls) -> Plugin | None:
    spec = user.value.exec
    if spec is None:
        return None
    command = spec.command
    if "/" in command and not command.startswith("/"):
        command = str(user.file.parent / command)
    if shutil.which(command) is None:
        hint = f" ({spec.install_hint})" if spec.install_hint else ""
        raise user.fault("exec.command", f"there is no program {command!r}{hint}")
    described: dict[str, Any] | None = None
    if spec.provide_cluster_info:
        described = {"server": cluster.value.server, "insecure-skip-tls-verify": tls.insecure}
        if tls.ca:
            described["certificate-authority-data"] = base64.b64encode(tls.ca).decode()
    return Plugin(
        command,
        tuple(spec.args or ()),
        {variable.name: variable.value for variable in spec.env or ()},
        spec.api_version,
        described,
        f"{user.file}: {user.field}",
    )
