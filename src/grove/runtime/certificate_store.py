"""Where serving certificates live: made by ourselves and shared through a Secret, or mounted as files.

`SecretCertificates` keeps the material in one Secret: whichever replica comes first makes it, the others use it, and
whoever finds it due renews it under a version precondition. `FileCertificates` follows what cert-manager, or a
kubelet, puts into a directory.
"""

from __future__ import annotations

import asyncio
import base64
from collections.abc import Callable, Sequence
from pathlib import Path

import msgspec
import structlog

from grove.runtime import errors, requests
from grove.runtime.certs import KeyPair, Material, renewal_time, renewed
from grove.runtime.client import Client
from grove.runtime.clock import Clock, SystemClock
from grove.runtime.objects import ObjectMeta
from grove.runtime.resource import Resource

_LOOK_AGAIN = 3600.0
_RETRY = 5.0
_log = structlog.get_logger(__name__)


class Secret(msgspec.Struct, kw_only=True, frozen=True):
    metadata: ObjectMeta
    data: dict[str, str] = msgspec.field(default_factory=dict)


SECRETS = Resource("", "v1", "secrets", "Secret", Secret)


class CertificateStore:
    """Material in memory, with whom to tell when it changes."""

    def __init__(self) -> None:
        self._material: Material | None = None
        self._subscribers: list[Callable[[], None]] = []

    @property
    def ready(self) -> bool:
        return self._material is not None

    @property
    def material(self) -> Material:
        if self._material is None:
            raise RuntimeError("there is no certificate yet")
        return self._material

    def pair(self) -> tuple[bytes, bytes]:
        serving = self.material.serving
        return serving.certificate, serving.key

    @property
    def trusted(self) -> bytes:
        """The bundle for the webhook configurations."""
        return self.material.trusted

    def subscribe(self, changed: Callable[[], None]) -> None:
        self._subscribers.append(changed)

    def hold(self, material: Material) -> None:
        if material != self._material:
            self._material = material
            for changed in self._subscribers:
                changed()


class SecretCertificates(CertificateStore):
    """Our own certificates, shared by all replicas through a Secret."""

    def __init__(
        self, client: Client, namespace: str, name: str, names: Sequence[str], *, clock: Clock | None = None
    ) -> None:
        super().__init__()
        self._client = client
        self._where = (namespace, name)
        self._names = tuple(names)
        self._clock = clock or SystemClock()

    async def ensure(self) -> None:
        """Reads the Secret, makes or renews what is due, and holds the result."""
        while True:
            secret = await self._read()
            present = from_secret(secret.data) if secret is not None else None
            material = renewed(present, self._names, self._clock.now())
            if material is present:
                break
            try:
                await self._write(secret, material)
                break
            except (errors.Conflict, errors.AlreadyExists):
                continue  # another replica was faster: use its material
        self.hold(material)

    async def run(self) -> None:
        """Renews in time, and picks up what other replicas renewed, until cancelled."""
        while True:
            try:
                await self.ensure()
                pause = self._until_due()
            except errors.ApiError as error:
                _log.warning("the webhook certificate could not be checked", error=str(error))
                pause = _RETRY
            await asyncio.sleep(pause)

    def _until_due(self) -> float:
        material = self.material
        first = min(renewal_time(material.serving.certificate), renewal_time(material.authority.certificate))
        return min(max((first - self._clock.now()).total_seconds(), _RETRY), _LOOK_AGAIN)

    async def _read(self) -> Secret | None:
        try:
            return await self._client.send(requests.get(SECRETS, *self._where))
        except errors.NotFound:
            return None

    async def _write(self, secret: Secret | None, material: Material) -> None:
        namespace, name = self._where
        data = to_secret(material)
        if secret is None:
            body = {"metadata": {"name": name, "namespace": namespace}, "type": "Opaque", "data": data}
            await self._client.send(requests.create(SECRETS, body))
            return
        patch = {"metadata": {"resourceVersion": secret.metadata.resource_version}, "data": data}
        await self._client.send(requests.merge_patch(SECRETS, namespace, name, patch))


class FileCertificates:
    """A certificate and key in files that somebody else renews."""

    def __init__(self, certificate: Path, key: Path, *, every: float = 10.0) -> None:
        self._paths = (certificate, key)
        self._every = every
        self._held: tuple[bytes, bytes] | None = None
        self._subscribers: list[Callable[[], None]] = []

    def pair(self) -> tuple[bytes, bytes]:
        if self._held is None:
            self._held = self._read()
        return self._held

    def subscribe(self, changed: Callable[[], None]) -> None:
        self._subscribers.append(changed)

    def look(self) -> None:
        """Reads the files again and tells of a change."""
        try:
            found = self._read()
        except OSError as error:
            _log.warning("the certificate files cannot be read, keeping what is held", error=str(error))
            return
        if found != self._held:
            self._held = found
            for changed in self._subscribers:
                changed()

    async def run(self) -> None:
        while True:
            await asyncio.sleep(self._every)
            self.look()

    def _read(self) -> tuple[bytes, bytes]:
        certificate, key = self._paths
        return certificate.read_bytes(), key.read_bytes()


def to_secret(material: Material) -> dict[str, str]:
    """Material as the data of a Secret."""
    parts = {
        "ca.crt": material.trusted,
        "ca-issuer.crt": material.authority.certificate,
        "ca-issuer.key": material.authority.key,
        "tls.crt": material.serving.certificate,
        "tls.key": material.serving.key,
    }
    return {name: base64.b64encode(content).decode() for name, content in parts.items()}


def from_secret(data: dict[str, str]) -> Material | None:
    """The material in the data of a Secret; None when it is not complete, so that it is made anew."""
    try:
        parts = {name: base64.b64decode(data[name]) for name in _PARTS}
    except (KeyError, ValueError):
        return None
    if not all(parts.values()):
        return None
    return Material(
        authority=KeyPair(parts["ca-issuer.crt"], parts["ca-issuer.key"]),
        serving=KeyPair(parts["tls.crt"], parts["tls.key"]),
        trusted=parts["ca.crt"],
    )


_PARTS = ("ca.crt", "ca-issuer.crt", "ca-issuer.key", "tls.crt", "tls.key")
