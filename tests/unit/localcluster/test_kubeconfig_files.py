"""Kubeconfigs and certificates: self-contained, private, lasting."""

from __future__ import annotations

import base64
import json
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.x509.oid import NameOID

from grove.localcluster.certificates import ADMIN, API_CLIENTS, ensure_certificates
from grove.localcluster.kubeconfig import Server, certificate_user, render_kubeconfig, token_user, write_kubeconfig


@pytest.fixture(scope="module")
def pki(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("cluster") / "pki"
    ensure_certificates(folder)
    return folder


def test_kubeconfig_holds_all_it_needs(pki: Path) -> None:
    server = Server("grove-local-one", "https://127.0.0.1:6443", pki / "ca.crt")
    document = json.loads(render_kubeconfig(server, "admin", certificate_user(pki, "admin")))
    (cluster,) = document["clusters"]
    assert cluster["cluster"]["server"] == "https://127.0.0.1:6443"
    assert base64.b64decode(cluster["cluster"]["certificate-authority-data"]) == (pki / "ca.crt").read_bytes()
    (user,) = document["users"]
    assert base64.b64decode(user["user"]["client-key-data"]) == (pki / "admin.key").read_bytes()
    (context,) = document["contexts"]
    assert document["current-context"] == context["name"]
    assert context["context"] == {"cluster": "grove-local-one", "user": "admin"}


def test_token_is_the_only_credential_of_a_token_user(pki: Path) -> None:
    server = Server("one", "https://127.0.0.1:6443", pki / "ca.crt")
    document = json.loads(render_kubeconfig(server, "robot", token_user("secret")))
    assert document["users"] == [{"name": "robot", "user": {"token": "secret"}}]


def test_kubeconfig_is_readable_by_its_owner_alone(tmp_path: Path) -> None:
    path = tmp_path / "config" / "admin.kubeconfig"
    write_kubeconfig(path, "first")
    write_kubeconfig(path, "second")
    assert path.read_text() == "second"
    assert path.stat().st_mode & 0o077 == 0


def test_private_keys_are_readable_by_their_owner_alone(pki: Path) -> None:
    keys = list(pki.glob("*.key"))
    assert len(keys) == len(API_CLIENTS) + 3
    assert all(key.stat().st_mode & 0o077 == 0 for key in keys)


def test_certificate_names_user_and_groups(pki: Path) -> None:
    certificate = x509.load_pem_x509_certificate((pki / "admin.crt").read_bytes())
    names = certificate.subject.get_attributes_for_oid
    assert [one.value for one in names(NameOID.COMMON_NAME)] == [ADMIN.user]
    assert [one.value for one in names(NameOID.ORGANIZATION_NAME)] == ["system:masters"]


def test_certificates_are_signed_by_the_authority(pki: Path) -> None:
    authority = x509.load_pem_x509_certificate((pki / "ca.crt").read_bytes())
    for path in pki.glob("*.crt"):
        x509.load_pem_x509_certificate(path.read_bytes()).verify_directly_issued_by(authority)


def test_existing_authority_is_kept(pki: Path) -> None:
    before = {path.name: path.read_bytes() for path in pki.iterdir()}
    ensure_certificates(pki)
    assert {path.name: path.read_bytes() for path in pki.iterdir()} == before
