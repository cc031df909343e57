"""TLS towards the API server, as a value, and the context made from it."""

from __future__ import annotations

import os
import ssl
import tempfile
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Tls:
    """Whom to trust (`ca` in PEM; None means the system's) and under which name. `insecure` trusts anybody."""

    ca: bytes | None = None
    insecure: bool = False
    server_name: str = ""


def client_context(tls: Tls, pair: tuple[bytes, bytes] | None = None) -> ssl.SSLContext:
    """A context that shows `pair` (certificate and key, PEM) when it is given. Raises ssl.SSLError on bad PEM."""
    context = ssl.create_default_context(cadata=tls.ca.decode("ascii") if tls.ca else None)
    # Cluster certificate authorities are often minimal; newer Pythons would refuse them for missing extensions.
    context.verify_flags &= ~ssl.VERIFY_X509_STRICT
    if tls.insecure:
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    if pair is not None:
        load_pair(context, *pair)
    return context


def load_pair(context: ssl.SSLContext, certificate: bytes, key: bytes) -> None:
    """Loads a certificate and key held in memory; OpenSSL only reads files, so they exist as one for a moment."""
    descriptor, path = tempfile.mkstemp(suffix=".pem")
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(certificate + b"\n" + key)
        context.load_cert_chain(path)
    finally:
        os.unlink(path)
