from __future__ import annotations

import asyncio
import ssl
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from aiohttp import web
from cryptography import x509
from runtime_fakes import TinyApi

from grove.runtime import certs
from grove.runtime.certificate_store import (
    CertificateStore,
    FileCertificates,
    SecretCertificates,
    from_secret,
    to_secret,
)
from grove.runtime.client import Client
from grove.runtime.server import TlsServer
from grove.testing.simloop import SimClock, simulate

NOW = datetime(2026, 1, 1, tzinfo=UTC)
NAMES = ("hook.ns.svc", "127.0.0.1")


class FastClock(SimClock):
    """A calendar that runs a thousand times faster than the loop, so that years take few turns."""

    def now(self) -> datetime:
        return NOW + timedelta(seconds=1000 * self.monotonic())


def days(count: float) -> timedelta:
    return timedelta(days=count)


def test_fresh_material_covers_its_names_and_chains_to_its_authority() -> None:
    material = certs.renewed(None, NAMES, NOW)
    assert certs.covers(material.serving.certificate, NAMES)
    serving = x509.load_pem_x509_certificate(material.serving.certificate)
    authority = x509.load_pem_x509_certificate(material.trusted)
    serving.verify_directly_issued_by(authority)
    assert serving.not_valid_before_utc < NOW < serving.not_valid_after_utc


def test_nothing_is_renewed_before_it_is_due() -> None:
    material = certs.renewed(None, NAMES, NOW)
    assert certs.renewed(material, NAMES, NOW + days(200)) is material


def test_the_serving_certificate_is_renewed_in_time_under_the_same_authority() -> None:
    material = certs.renewed(None, NAMES, NOW)
    later = certs.renewed(material, NAMES, NOW + days(260))
    assert later.serving != material.serving
    assert later.authority == material.authority
    assert later.trusted == material.trusted


def test_a_new_name_means_a_new_certificate() -> None:
    material = certs.renewed(None, NAMES, NOW)
    assert certs.covers(certs.renewed(material, (*NAMES, "more"), NOW).serving.certificate, ("more",))


def test_the_old_authority_stays_trusted_until_it_expires() -> None:
    material = certs.renewed(None, NAMES, NOW)
    second = certs.renewed(material, NAMES, NOW + days(2600))
    assert second.authority != material.authority
    assert material.authority.certificate in second.trusted
    third = certs.renewed(second, NAMES, NOW + days(2600 + 2600))
    assert material.authority.certificate not in third.trusted
    assert second.authority.certificate in third.trusted


def issued_by(material: certs.Material, authority: certs.KeyPair) -> None:
    serving = x509.load_pem_x509_certificate(material.serving.certificate)
    serving.verify_directly_issued_by(x509.load_pem_x509_certificate(authority.certificate))


def test_clients_know_a_new_authority_before_anything_is_signed_by_it() -> None:
    """Bundles reach clients after the server has changed, so at no change may the server show what is not yet known."""
    material = certs.renewed(None, NAMES, NOW)
    kept = certs.Material(
        material.authority, certs.issue(material.authority, NAMES, NOW + days(2400)), material.trusted
    )
    # The serving certificate stays, or is due on the same day.
    for before, at in ((kept, 2450), (material, 2450)):
        after = certs.renewed(before, NAMES, NOW + days(at))
        assert after.authority != before.authority
        assert after.trusted == after.authority.certificate + before.trusted
        issued_by(after, before.authority)
        later = certs.renewed(after, NAMES, NOW + days(at + 300))
        issued_by(later, after.authority)
        assert later.trusted == after.trusted


def test_an_authority_that_is_over_signs_nothing_more() -> None:
    material = certs.renewed(None, NAMES, NOW)
    later = certs.renewed(material, NAMES, NOW + days(4000))
    issued_by(later, later.authority)
    assert later.trusted == later.authority.certificate


def test_material_survives_a_secret_and_rubbish_does_not() -> None:
    material = certs.renewed(None, NAMES, NOW)
    assert from_secret(to_secret(material)) == material
    assert from_secret({}) is None
    assert from_secret({**to_secret(material), "tls.key": ""}) is None


def test_unreadable_material_is_made_anew() -> None:
    broken = certs.KeyPair(b"rubbish", b"rubbish")
    good = certs.renewed(None, NAMES, NOW)
    for spoilt in (
        certs.Material(broken, broken, b""),
        certs.Material(certs.KeyPair(good.authority.certificate, b"rubbish"), good.serving, good.trusted),
        certs.Material(good.authority, certs.KeyPair(good.serving.certificate, b"rubbish"), good.trusted),
    ):
        material = certs.renewed(spoilt, NAMES, NOW)
        assert certs.covers(material.serving.certificate, NAMES)
        assert material.serving.key.startswith(b"-----BEGIN PRIVATE KEY")


def test_replicas_share_what_the_first_one_made() -> None:
    async def scenario() -> tuple[bool, bool]:
        api = TinyApi()
        stores = [SecretCertificates(Client(api), "ns", "certs", NAMES, clock=SimClock()) for _ in range(3)]
        await asyncio.gather(*(store.ensure() for store in stores))
        return all(store.material == stores[0].material for store in stores), len(api.objects) == 1

    assert simulate(scenario()) == (True, True)


def test_certificates_are_renewed_while_running_and_subscribers_told() -> None:
    async def scenario() -> tuple[int, bool]:
        api = TinyApi()
        store = SecretCertificates(Client(api), "ns", "certs", NAMES, clock=FastClock())
        told: list[bytes] = []
        store.subscribe(lambda: told.append(store.pair()[0]))
        running = asyncio.create_task(store.run())
        await asyncio.sleep(600 * 86.4)
        running.cancel()
        return len(told), certs.due(store.pair()[0], FastClock().now())

    told, due = simulate(scenario())
    assert told == 3
    assert not due


async def serial_seen(port: int) -> int:
    context = ssl.create_default_context()
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    _, writer = await asyncio.open_connection("127.0.0.1", port, ssl=context)
    encoded = writer.get_extra_info("ssl_object").getpeercert(binary_form=True)
    writer.close()
    await writer.wait_closed()
    return x509.load_der_x509_certificate(encoded).serial_number


def serial(pair: tuple[bytes, bytes]) -> int:
    return x509.load_pem_x509_certificate(pair[0]).serial_number


async def test_a_server_shows_the_new_certificate_without_restart_and_keeps_the_old_one_if_it_must() -> None:
    async def hello(_: web.Request) -> web.Response:
        return web.Response(text="hello")

    now = datetime.now(UTC)
    store = CertificateStore()
    store.hold(certs.renewed(None, NAMES, now))
    server = TlsServer([web.get("/", hello)], store, host="127.0.0.1")
    await server.start()
    try:
        first = serial(store.pair())
        assert await serial_seen(server.port) == first
        store.hold(certs.renewed(None, NAMES, now))
        second = serial(store.pair())
        assert second != first
        assert await serial_seen(server.port) == second
        store.hold(certs.Material(store.material.authority, certs.KeyPair(b"bad", b"bad"), b""))
        assert await serial_seen(server.port) == second
    finally:
        await server.stop()


def test_mounted_files_are_followed(tmp_path: Path) -> None:
    certificate, key = tmp_path / "tls.crt", tmp_path / "tls.key"
    certificate.write_bytes(b"one")
    key.write_bytes(b"key")
    files = FileCertificates(certificate, key)
    told: list[tuple[bytes, bytes]] = []
    files.subscribe(lambda: told.append(files.pair()))
    assert files.pair() == (b"one", b"key")
    files.look()
    certificate.write_bytes(b"two")
    files.look()
    certificate.unlink()
    files.look()
    assert told == [(b"two", b"key")]


def test_a_store_without_material_says_so() -> None:
    store = CertificateStore()
    assert not store.ready
    with pytest.raises(RuntimeError, match="no certificate"):
        store.pair()
