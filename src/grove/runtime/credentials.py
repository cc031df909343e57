"""Who we are to the API server: a fixed token, a token file that rotates, or a plugin that is run for credentials.

`identity()` is cheap while what is held is fresh. `renew()` forgets it, after a 401, so that the next call asks anew.
"""

from __future__ import annotations

import asyncio
import base64
import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any, Protocol

import msgspec

from grove.runtime.clock import Clock, SystemClock, parse_rfc3339
from grove.runtime.transport import TransportError

_REREAD = 60.0  # seconds after which a token file is read again; kubelets rotate it long before it expires
_EARLY = timedelta(seconds=30)  # credentials are renewed this long before they expire
_PLUGIN_TIMEOUT = 60.0


@dataclass(frozen=True, slots=True)
class Identity:
    """What a request carries: headers, and possibly a client certificate and key (PEM)."""

    headers: Mapping[str, str] = field(default_factory=dict)
    client_certificate: tuple[bytes, bytes] | None = None


class Credentials(Protocol):
    """Where identities come from."""

    @property
    def renewable(self) -> bool: ...

    async def identity(self) -> Identity: ...

    def renew(self) -> None: ...


class Fixed:
    """An identity that never changes."""

    renewable = False

    def __init__(self, identity: Identity) -> None:
        self._identity = identity

    async def identity(self) -> Identity:
        return self._identity

    def renew(self) -> None:
        """There is nothing newer."""


class Anonymous(Fixed):
    """No credentials at all."""

    def __init__(self) -> None:
        super().__init__(Identity())


class TokenFile:
    """A bearer token in a file that is replaced from time to time."""

    renewable = True

    def __init__(self, path: Path, base: Identity | None = None, clock: Clock | None = None) -> None:
        self._path = path
        self._base = base or Identity()
        self._clock = clock or SystemClock()
        self._identity: Identity | None = None
        self._read_at = 0.0

    async def identity(self) -> Identity:
        now = self._clock.monotonic()
        if self._identity is None or now - self._read_at >= _REREAD:
            self._identity = with_token(self._base, self._read())
            self._read_at = now
        return self._identity

    def renew(self) -> None:
        self._identity = None

    def _read(self) -> str:
        try:
            return self._path.read_text().strip()
        except OSError as error:
            raise TransportError(f"cannot read the token file {self._path}: {error.strerror}") from error


@dataclass(frozen=True, slots=True)
class Plugin:
    """How to run an exec credential plugin."""

    command: str
    args: tuple[str, ...] = ()
    env: Mapping[str, str] = field(default_factory=dict)
    api_version: str = "client.authentication.k8s.io/v1"
    cluster: Mapping[str, Any] | None = None
    source: str = ""  # the file and field it was named in


class _PluginStatus(msgspec.Struct, rename="camel"):
    token: str = ""
    expiration_timestamp: str | None = None
    client_certificate_data: str = ""
    client_key_data: str = ""


class _ExecCredential(msgspec.Struct, rename="camel"):
    status: _PluginStatus = msgspec.field(default_factory=_PluginStatus)


class ExecPlugin:
    """Credentials from a program, kept until they expire or are refused."""

    renewable = True

    def __init__(self, plugin: Plugin, base: Identity | None = None, clock: Clock | None = None) -> None:
        self._plugin = plugin
        self._base = base or Identity()
        self._clock = clock or SystemClock()
        self._identity: Identity | None = None
        self._expires: datetime | None = None
        self._lock = asyncio.Lock()

    async def identity(self) -> Identity:
        if (held := self._fresh()) is not None:
            return held
        async with self._lock:
            if (held := self._fresh()) is not None:
                return held
            status = await self._ask()
            self._expires = parse_rfc3339(status.expiration_timestamp) if status.expiration_timestamp else None
            self._identity = identity = self._identity_from(status)
            return identity

    def renew(self) -> None:
        self._identity = None

    def _fresh(self) -> Identity | None:
        expired = self._expires is not None and self._clock.now() >= self._expires - _EARLY
        return None if expired else self._identity

    def _identity_from(self, status: _PluginStatus) -> Identity:
        identity = self._base
        if status.client_certificate_data and status.client_key_data:
            pair = (status.client_certificate_data.encode(), status.client_key_data.encode())
            identity = Identity(identity.headers, pair)
        return with_token(identity, status.token) if status.token else identity

    async def _ask(self) -> _PluginStatus:
        plugin = self._plugin
        spec: dict[str, Any] = {"interactive": False}
        if plugin.cluster is not None:
            spec["cluster"] = plugin.cluster
        info = {"apiVersion": plugin.api_version, "kind": "ExecCredential", "spec": spec}
        environment = {**os.environ, **plugin.env, "KUBERNETES_EXEC_INFO": msgspec.json.encode(info).decode()}
        output = await self._run(environment)
        try:
            status = msgspec.json.decode(output, type=_ExecCredential).status
        except msgspec.MsgspecError as error:
            raise TransportError(f"{plugin.source}: {plugin.command} printed no ExecCredential: {error}") from error
        if not status.token and not status.client_certificate_data:
            raise TransportError(f"{plugin.source}: {plugin.command} gave no credentials")
        return status

    async def _run(self, environment: Mapping[str, str]) -> bytes:
        plugin = self._plugin
        try:
            process = await asyncio.create_subprocess_exec(
                plugin.command,
                *plugin.args,
                env=environment,
                stdin=asyncio.subprocess.DEVNULL,
                stdout=asyncio.subprocess.PIPE,
                stderr=asyncio.subprocess.PIPE,
            )
        except OSError as error:
            raise TransportError(f"{plugin.source}: cannot run {plugin.command}: {error.strerror}") from error
        try:
            async with asyncio.timeout(_PLUGIN_TIMEOUT):
                output, complaint = await process.communicate()
        except TimeoutError as error:
            process.kill()
            await process.wait()
            raise TransportError(
                f"{plugin.source}: {plugin.command} gave no credentials within {_PLUGIN_TIMEOUT:g} s"
            ) from error
        if process.returncode:
            reason = complaint.decode(errors="replace").strip()[:200]
            raise TransportError(f"{plugin.source}: {plugin.command} ended with {process.returncode}: {reason}")
        return output


def with_token(identity: Identity, token: str) -> Identity:
    headers = {**identity.headers, "Authorization": f"Bearer {token}"}
    return Identity(headers, identity.client_certificate)


def basic(username: str, password: str) -> Mapping[str, str]:
    return {"Authorization": "Basic " + base64.b64encode(f"{username}:{password}".encode()).decode()}
