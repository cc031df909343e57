"""Our own certificates for webhooks: an authority, a serving certificate signed by it, and when to renew which.

Pure functions of the time given to them. Both are renewed when a third of their life is left. A new authority is
trusted long before anything is signed by it: the serving certificate stays, or is signed by the old authority once
more, so that clients that have not received the new bundle yet go on working. The old authority stays in `trusted`
until it expires.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from cryptography import x509
    from cryptography.hazmat.primitives.asymmetric.ec import EllipticCurvePrivateKey

AUTHORITY_LIFE = timedelta(days=3650)
SERVING_LIFE = timedelta(days=365)
_BACKDATE = timedelta(minutes=5)  # clocks of other machines may be a little behind
_RENEW_AT = 2 / 3


@dataclass(frozen=True, slots=True)
class KeyPair:
    """A certificate and its private key, PEM."""

    certificate: bytes
    key: bytes


@dataclass(frozen=True, slots=True)
class Material:
    """Everything a webhook server needs: `trusted` is the bundle for its clients."""

    authority: KeyPair
    serving: KeyPair
    trusted: bytes


def renewed(material: Material | None, names: Sequence[str], now: datetime) -> Material:
    """The material to use from now on: the same object when nothing is due."""
    if material is None or not _readable(material.authority.key) or _expired(material.authority.certificate, now):
        authority = new_authority(now)
        trusted = authority.certificate + (_still_valid(material.trusted, now) if material is not None else b"")
        return Material(authority, issue(authority, names, now), trusted)
    serving = material.serving
    if due(serving.certificate, now) or not covers(serving.certificate, names) or not _readable(serving.key):
        serving = issue(material.authority, names, now)
    if due(material.authority.certificate, now):
        authority = new_authority(now)
        return Material(authority, serving, authority.certificate + _still_valid(material.trusted, now))
    return material if serving is material.serving else Material(material.authority, serving, material.trusted)


def due(certificate: bytes, now: datetime) -> bool:
    """Whether two thirds of a certificate's life are over, or it cannot be read."""
    return now >= renewal_time(certificate)


def renewal_time(certificate: bytes) -> datetime:
    """When a certificate should be renewed; in the distant past when it cannot be read."""
    from cryptography import x509

    try:
        parsed = x509.load_pem_x509_certificate(certificate)
    except ValueError:
        return datetime.min.replace(tzinfo=UTC)
    begin, end = parsed.not_valid_before_utc, parsed.not_valid_after_utc
    return begin + (end - begin) * _RENEW_AT


def _expired(certificate: bytes, now: datetime) -> bool:
    """Whether a certificate is over, or cannot be read."""
    from cryptography import x509

    try:
        return x509.load_pem_x509_certificate(certificate).not_valid_after_utc <= now
    except ValueError:
        return True


def covers(certificate: bytes, names: Sequence[str]) -> bool:
    """Whether a certificate is valid for all these DNS names and addresses."""
    from cryptography import x509

    parsed = x509.load_pem_x509_certificate(certificate)
    extension = parsed.extensions.get_extension_for_class(x509.SubjectAlternativeName)
    held = {str(name.value) for name in extension.value}
    return held.issuperset(names)


def new_authority(now: datetime, life: timedelta = AUTHORITY_LIFE, name: str = "grove webhook authority") -> KeyPair:
    """A self-signed certificate authority."""
    from cryptography import x509
    from cryptography.hazmat.primitives.asymmetric import ec

    key = ec.generate_private_key(ec.SECP256R1())
    subject = _name(name)
    builder = (
        _builder(subject, subject, key, (now, life))
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(_usage(signs_certificates=True), critical=True)
    )
    return _signed(builder, key, key)


def issue(authority: KeyPair, names: Sequence[str], now: datetime, life: timedelta = SERVING_LIFE) -> KeyPair:
    """A serving certificate for DNS names and addresses, with the authority's certificate behind it."""
    from cryptography import x509
    from cryptography.hazmat.primitives.asymmetric import ec
    from cryptography.hazmat.primitives.serialization import load_pem_private_key
    from cryptography.x509.oid import ExtendedKeyUsageOID

    issuer = x509.load_pem_x509_certificate(authority.certificate)
    issuer_key = load_pem_private_key(authority.key, None)
    if not isinstance(issuer_key, ec.EllipticCurvePrivateKey):
        raise ValueError("the authority's key is not an elliptic-curve key")
    key = ec.generate_private_key(ec.SECP256R1())
    builder = (
        _builder(_name(names[0]), issuer.subject, key, (now, life))
        .add_extension(x509.SubjectAlternativeName([_general_name(name) for name in names]), critical=False)
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(_usage(signs_certificates=False), critical=True)
        .add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]), critical=False)
        .add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(issuer_key.public_key()), critical=False)
    )
    return _signed(builder, key, issuer_key)


def _builder(
    subject: x509.Name, issuer: x509.Name, key: EllipticCurvePrivateKey, validity: tuple[datetime, timedelta]
) -> x509.CertificateBuilder:
    from cryptography import x509

    now, life = validity
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - _BACKDATE)
        .not_valid_after(now + life)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
    )


def _signed(builder: x509.CertificateBuilder, key: EllipticCurvePrivateKey, signer: EllipticCurvePrivateKey) -> KeyPair:
    from cryptography.hazmat.primitives import hashes, serialization

    certificate = builder.sign(signer, hashes.SHA256())
    return KeyPair(
        certificate.public_bytes(serialization.Encoding.PEM),
        key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()),
    )


def _usage(*, signs_certificates: bool) -> x509.KeyUsage:
    from cryptography import x509

    return x509.KeyUsage(
        digital_signature=True,
        key_cert_sign=signs_certificates,
        crl_sign=signs_certificates,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        encipher_only=False,
        decipher_only=False,
    )


def _name(text: str) -> x509.Name:
    from cryptography import x509

    return x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, text[:64])])


def _general_name(name: str) -> x509.GeneralName:
    from cryptography import x509

    try:
        return x509.IPAddress(ipaddress.ip_address(name))
    except ValueError:
        return x509.DNSName(name)


def _readable(key: bytes) -> bool:
    from cryptography.hazmat.primitives.serialization import load_pem_private_key

    try:
        load_pem_private_key(key, None)
    except (ValueError, TypeError):
        return False
    return True


def _still_valid(bundle: bytes, now: datetime) -> bytes:
    from cryptography import x509
    from cryptography.hazmat.primitives.serialization import Encoding

    try:
        parsed = x509.load_pem_x509_certificates(bundle)
    except ValueError:
        return b""
    return b"".join(each.public_bytes(Encoding.PEM) for each in parsed if each.not_valid_after_utc > now)
