"""Our own web servers: plain HTTP for health and metrics, TLS for webhooks with certificates that change while it runs.

A new certificate is loaded into the living TLS context: open connections go on, new ones see the new certificate. One
that does not load is reported and the old one stays.
"""

from __future__ import annotations

import ssl
from collections.abc import Callable, Iterable
from typing import Protocol

import structlog
from aiohttp import web

from grove.runtime.metrics import CONTENT_TYPE, Metrics
from grove.runtime.tls import load_pair

MAX_BODY = 16 * 1024 * 1024  # an AdmissionReview carries the old and the new object
_GRACE = 5.0
_log = structlog.get_logger(__name__)


class CertificateSource(Protocol):
    """Where a serving certificate comes from."""

    def pair(self) -> tuple[bytes, bytes]:
        """The certificate chain and the key, PEM."""
        ...

    def subscribe(self, changed: Callable[[], None]) -> None:
        """Calls `changed` whenever `pair` gives something new."""
        ...


class HttpServer:
    """Serves routes until stopped. Port 0 takes a free one; `port` tells which."""

    def __init__(self, routes: Iterable[web.AbstractRouteDef], *, host: str = "0.0.0.0", port: int = 0) -> None:
        self._app = web.Application(client_max_size=MAX_BODY)
        self._app.add_routes(routes)
        self._host = host
        self._port = port
        self._runner: web.AppRunner | None = None

    @property
    def port(self) -> int:
        if self._runner is None or not self._runner.addresses:
            raise RuntimeError("the server is not running")
        return int(self._runner.addresses[0][1])

    @property
    def running(self) -> bool:
        return self._runner is not None

    async def start(self) -> None:
        runner = web.AppRunner(self._app, access_log=None, handle_signals=False, shutdown_timeout=_GRACE)
        await runner.setup()
        try:
            await web.TCPSite(runner, self._host, self._port, ssl_context=self._tls()).start()
        except OSError:
            await runner.cleanup()
            raise
        self._runner = runner

    async def stop(self) -> None:
        """Finishes the requests under way and closes."""
        runner, self._runner = self._runner, None
        if runner is not None:
            await runner.cleanup()

    def _tls(self) -> ssl.SSLContext | None:
        return None


class TlsServer(HttpServer):
    """Serves routes over TLS."""

    def __init__(
        self,
        routes: Iterable[web.AbstractRouteDef],
        certificates: CertificateSource,
        *,
        host: str = "0.0.0.0",
        port: int = 0,
    ) -> None:
        super().__init__(routes, host=host, port=port)
        self._certificates = certificates
        self._context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self._context.minimum_version = ssl.TLSVersion.TLSv1_2
        certificates.subscribe(self._reload)

    def _tls(self) -> ssl.SSLContext:
        load_pair(self._context, *self._certificates.pair())
        return self._context

    def _reload(self) -> None:
        if not self.running:
            return
        try:
            load_pair(self._context, *self._certificates.pair())
        except ssl.SSLError as error:
            _log.error("the new certificate does not load, keeping the old one", error=str(error))
        else:
            _log.info("serving with a new certificate")


def metrics_route(metrics: Metrics) -> web.RouteDef:
    """The page Prometheus scrapes."""

    async def scrape(_: web.Request) -> web.Response:
        return web.Response(body=metrics.render(), headers={"Content-Type": CONTENT_TYPE})

    return web.get("/metrics", scrape)
