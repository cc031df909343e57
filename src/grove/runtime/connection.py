"""Where the API server is and how to prove who we are, as a value: from a kubeconfig or from inside a pod.

`load` chooses as kubectl does: an explicit file, then $KUBECONFIG, then the pod's service account, then ~/.kube/config.
Whatever is wrong raises ConnectionConfigError with the file and the field. Certificates are not verified only when the
kubeconfig says so.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import urlsplit
from urllib.request import getproxies, proxy_bypass

from grove.runtime.clock import Clock
from grove.runtime.config_error import ConnectionConfigError
from grove.runtime.credentials import Credentials, ExecPlugin, Fixed, Identity, Plugin, TokenFile
from grove.runtime.tls import Tls
from grove.runtime.transport import Transport

__all__ = ["Connection", "ConnectionConfigError", "connect", "in_cluster", "load"]

SERVICE_ACCOUNT = Path("/var/run/secrets/kubernetes.io/serviceaccount")


@dataclass(frozen=True, slots=True)
class Connection:
    """Everything needed to reach one API server. At most one of `token_file` and `plugin` is set."""

    server: str
    tls: Tls = field(default_factory=Tls)
    identity: Identity = field(default_factory=Identity)
    token_file: Path | None = None
    plugin: Plugin | None = None
    proxy: str | None = None
    namespace: str = "default"
    source: str = ""


def connect(connection: Connection, *, clock: Clock | None = None) -> Transport:
    """A transport over this connection; nothing is sent yet."""
    credentials = _credentials(connection, clock)
    proxy = connection.proxy or proxy_from_environment(connection.server)
    if proxy is None:
        from grove.runtime.http_transport import HttpTransport  # late: a wrong file need not cost it

        return HttpTransport(connection.server, tls=connection.tls, credentials=credentials)
    from grove.runtime.aiohttp_transport import AiohttpTransport  # a third of a second

    return AiohttpTransport(connection.server, tls=connection.tls, credentials=credentials, proxy=proxy)


def load(
    kubeconfig: str | Path | None = None,
    context: str | None = None,
    *,
    environ: Mapping[str, str] = os.environ,
    service_account: Path = SERVICE_ACCOUNT,
) -> Connection:
    """The connection a person would expect here."""
    from grove.runtime.kubeconfig import from_kubeconfig

    if kubeconfig is not None:
        return from_kubeconfig([Path(kubeconfig)], context)
    if named := environ.get("KUBECONFIG"):
        return from_kubeconfig([Path(part) for part in named.split(os.pathsep) if part], context)
    if context is None and "KUBERNETES_SERVICE_HOST" in environ:
        return in_cluster(environ=environ, service_account=service_account)
    return from_kubeconfig([Path(environ.get("HOME", "~")).expanduser() / ".kube" / "config"], context)


def in_cluster(*, environ: Mapping[str, str] = os.environ, service_account: Path = SERVICE_ACCOUNT) -> Connection:
    """The connection of a pod: its service account, with the token read again as it rotates."""
    host = environ.get("KUBERNETES_SERVICE_HOST", "")
    port = environ.get("KUBERNETES_SERVICE_PORT", "443")
    if not host:
        raise ConnectionConfigError("environment", "KUBERNETES_SERVICE_HOST", "is not set; this is not a pod")
    token_file = service_account / "token"
    _read(token_file, "the service account token")
    namespace = service_account / "namespace"
    return Connection(
        server=f"https://{f'[{host}]' if ':' in host else host}:{port}",
        tls=Tls(ca=_read(service_account / "ca.crt", "the cluster's certificate authority")),
        token_file=token_file,
        namespace=namespace.read_text().strip() if namespace.exists() else "default",
        source=str(service_account),
    )


def proxy_from_environment(server: str) -> str | None:
    """The proxy that HTTPS_PROXY, HTTP_PROXY and NO_PROXY name for this server."""
    parts = urlsplit(server)
    return None if proxy_bypass(parts.netloc) else getproxies().get(parts.scheme)


def _credentials(connection: Connection, clock: Clock | None) -> Credentials:
    if connection.plugin is not None:
        return ExecPlugin(connection.plugin, connection.identity, clock)
    if connection.token_file is not None:
        return TokenFile(connection.token_file, connection.identity, clock)
    return Fixed(connection.identity)


def _read(path: Path, what: str) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise ConnectionConfigError(str(path), "", f"cannot read {what}: {error.strerror}") from error
