"""The cluster's own certificate authority: one serving certificate for everything on loopback, one client certificate
per identity, one key pair that signs service-account tokens.

Made once per cluster and kept with its data, since tokens and kubeconfigs must survive a restart.
"""

from __future__ import annotations

import ipaddress
import os
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

_VALIDITY = timedelta(days=3650)
_CLOCK_SKEW = timedelta(minutes=5)


@dataclass(frozen=True)
class Identity:
    """A client of the API server: the file name of its certificate, its user and its groups."""

    file_name: str
    user: str
    groups: tuple[str, ...] = ()


ADMIN = Identity("admin", "grove-local-admin", ("system:masters",))
CONTROLLER_MANAGER = Identity("controller-manager", "system:kube-controller-manager")
SCHEDULER = Identity("scheduler", "system:kube-scheduler")
# Third-party programs whose upstream roles are part of their own installers; here they simply get all rights.
KWOK = Identity("kwok", "kwok", ("system:masters",))
KAI = Identity("kai", "kai-scheduler", ("system:masters",))
ETCD_CLIENT = Identity("etcd-client", "kube-apiserver")
API_CLIENTS = (ADMIN, CONTROLLER_MANAGER, SCHEDULER, KWOK, KAI)


def ensure_certificates(folder: Path) -> None:
    """Create whatever is missing; an existing authority is never replaced."""
    if (folder / "complete").exists():
        return
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    authority = _Authority.create()
    _write_public(folder / "ca.crt", authority.certificate_pem)
    _write_pair(folder, "serving", authority.serving_pair())
    for identity in (*API_CLIENTS, ETCD_CLIENT):
        _write_pair(folder, identity.file_name, authority.client_pair(identity))
    signer = ec.generate_private_key(ec.SECP256R1())
    _write_secret(folder / "service-account.key", _private_pem(signer))
    public = signer.public_key().public_bytes(
        serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo
    )
    _write_public(folder / "service-account.pub", public)
    (folder / "complete").touch()


@dataclass(frozen=True)
class _Authority:
    key: ec.EllipticCurvePrivateKey
    certificate: x509.Certificate

    @classmethod
    def create(cls) -> _Authority:
        key = ec.generate_private_key(ec.SECP256R1())
        name = _subject("grove-local-ca")
        certificate = (
            _builder(name, name, key)
            .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
            .add_extension(_key_usage(signs_certificates=True), critical=True)
            .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
            .sign(key, hashes.SHA256())
        )
        return cls(key, certificate)

    @property
    def certificate_pem(self) -> bytes:
        return self.certificate.public_bytes(serialization.Encoding.PEM)

    def serving_pair(self) -> tuple[bytes, bytes]:
        names: list[x509.GeneralName] = [
            x509.IPAddress(ipaddress.ip_address("127.0.0.1")),
            # The API server looks for its own address, the first of the service range, in its certificate.
            x509.IPAddress(ipaddress.ip_address("10.96.0.1")),
            *(x509.DNSName(name) for name in ("localhost", "kubernetes", "kubernetes.default.svc")),
        ]
        # etcd members and the API server's loopback client also present this certificate as clients.
        usages = [ExtendedKeyUsageOID.SERVER_AUTH, ExtendedKeyUsageOID.CLIENT_AUTH]
        return self._issue(_subject("grove-local-serving"), usages, names)

    def client_pair(self, identity: Identity) -> tuple[bytes, bytes]:
        return self._issue(_subject(identity.user, identity.groups), [ExtendedKeyUsageOID.CLIENT_AUTH], [])

    def _issue(
        self, subject: x509.Name, usages: Sequence[x509.ObjectIdentifier], names: Sequence[x509.GeneralName]
    ) -> tuple[bytes, bytes]:
        key = ec.generate_private_key(ec.SECP256R1())
        builder = (
            _builder(subject, self.certificate.subject, key)
            .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
            .add_extension(_key_usage(signs_certificates=False), critical=True)
            .add_extension(x509.ExtendedKeyUsage(usages), critical=False)
            .add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(self.key.public_key()), critical=False)
        )
        if names:
            builder = builder.add_extension(x509.SubjectAlternativeName(names), critical=False)
        certificate = builder.sign(self.key, hashes.SHA256())
        return certificate.public_bytes(serialization.Encoding.PEM), _private_pem(key)


def _subject(common_name: str, organizations: Sequence[str] = ()) -> x509.Name:
    groups = [x509.NameAttribute(NameOID.ORGANIZATION_NAME, group) for group in organizations]
    return x509.Name([*groups, x509.NameAttribute(NameOID.COMMON_NAME, common_name)])


def _builder(subject: x509.Name, issuer: x509.Name, key: ec.EllipticCurvePrivateKey) -> x509.CertificateBuilder:
    now = datetime.now(UTC)
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - _CLOCK_SKEW)
        .not_valid_after(now + _VALIDITY)
    )


def _key_usage(signs_certificates: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=True,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        key_cert_sign=signs_certificates,
        crl_sign=signs_certificates,
        encipher_only=False,
        decipher_only=False,
    )


def _private_pem(key: ec.EllipticCurvePrivateKey) -> bytes:
    return key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )


def _write_pair(folder: Path, name: str, pair: tuple[bytes, bytes]) -> None:
    certificate, key = pair
    _write_public(folder / f"{name}.crt", certificate)
    _write_secret(folder / f"{name}.key", key)


def _write_public(path: Path, content: bytes) -> None:
    path.write_bytes(content)


def _write_secret(path: Path, content: bytes) -> None:
    """Write a file that was never readable by others, not even for a moment."""
    path.unlink(missing_ok=True)
    with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as handle:
        handle.write(content)
