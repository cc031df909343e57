"""The operator as a process: controllers while it leads, admission, metrics and probes all the time.

It ends with a reason: 0 when told to stop, 1 when something failed for good. A lost lease ends the process too, because
starting over with warm caches elsewhere is simpler than being half a leader.
"""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import ssl
from collections.abc import Callable, Iterable, Mapping
from importlib.metadata import version
from pathlib import Path

import structlog
from aiohttp import web

from grove.admission import Context
from grove.admission.authorization import Identities
from grove.admission.neighbours import related
from grove.api.duration import parse
from grove.api.kinds import POD_CLIQUE_SETS, POD_CLIQUES, SCALING_GROUPS
from grove.api.pod_clique_set import PodCliqueSet
from grove.apps.engine import Engine
from grove.apps.leading import LeaseLost, lead
from grove.config import OperatorConfiguration, order_warning, without_effect
from grove.controllers.cluster_topology import TopologyRefused
from grove.podgrouper.kinds import FIELD_MANAGER
from grove.runtime import errors
from grove.runtime.certificate_store import FileCertificates, SecretCertificates
from grove.runtime.client import Client
from grove.runtime.clock import SystemClock
from grove.runtime.connection import Connection, connect
from grove.runtime.health import Health
from grove.runtime.leader import LeaderElector, LeaseSettings
from grove.runtime.metrics import Metrics
from grove.runtime.recorder import Recorder
from grove.runtime.server import HttpServer, TlsServer, metrics_route
from grove.webhooks.handlers import Surroundings
from grove.webhooks.mnnvl import MnnvlWebhooks
from grove.webhooks.router import Router
from grove.webhooks.routes import routes

__all__ = ["LeaseLost", "Operator", "StartFailed", "TopologyRefused", "reason", "run"]

_log = structlog.get_logger(__name__)


def init_image(environment: Mapping[str, str]) -> str:
    """The image of the waiting program, which is the operator's own; without a tag it has the operator's version."""
    named = environment.get("GROVE_INIT_CONTAINER_IMAGE") or "grove"
    tagged = "@" in named or ":" in named.rpartition("/")[2]
    return named if tagged else f"{named}:{version('grove')}"


class StartFailed(Exception):
    """Something is missing without which the operator cannot begin; the text says what."""


class Operator:
    """One operator process over one connection."""

    def __init__(self, configuration: OperatorConfiguration, connection: Connection) -> None:
        self._configuration = configuration
        self._namespace = os.environ.get("GROVE_OPERATOR_NAMESPACE") or connection.namespace
        account = os.environ.get("GROVE_OPERATOR_SERVICE_ACCOUNT_NAME", "grove-operator")
        self._identities = Identities(
            operator=f"system:serviceaccount:{self._namespace}:{account}",
            exempt=frozenset(configuration.authorizer.exempt_service_account_user_names),
        )
        self._metrics = Metrics()
        self._transport = connect(connection)
        self._client = Client(self._transport, on_request=self._metrics.api_request)
        self._grouper = Client(self._transport, field_manager=FIELD_MANAGER, on_request=self._metrics.api_request)
        self._health = Health()
        self._certificates = self._certificate_source()
        own = self._certificates if isinstance(self._certificates, SecretCertificates) else None
        self._recorder = Recorder(self._client, controller="grove.io/operator", instance=socket.gethostname())
        self._engine = Engine(
            self._client,
            configuration,
            SystemClock(),
            recorder=self._recorder,
            metrics=self._metrics,
            authority=own,
            grouper=self._grouper,
            init_image=init_image(os.environ),
        )

    async def run(self) -> None:
        """Serves and reconciles until cancelled."""
        warning = order_warning(self._configuration.topology.levels)
        if warning and self._configuration.topology.enabled:
            _log.warning(warning)
        for section in without_effect(self._configuration):
            _log.warning("this section of the configuration has no effect", section=section)
        servers = self._servers()
        try:
            await self._serve(servers)
            async with asyncio.TaskGroup() as group:
                group.create_task(self._certificates.run())
                group.create_task(self._engine.watch())
                group.create_task(self._recorder.run())
                group.create_task(self._lead())
        finally:
            for server in servers:
                await server.stop()
            await self._transport.close()

    async def _serve(self, servers: Iterable[HttpServer]) -> None:
        """Everything without which admission could not answer; a failure is told with where to look."""
        try:
            if isinstance(self._certificates, SecretCertificates):
                await self._certificates.ensure()
        except errors.ApiError as error:
            secret = self._configuration.server.webhooks.secret_name
            raise StartFailed(
                f"the certificate in Secret {self._namespace}/{secret} is out of reach: {error}"
            ) from error
        try:
            for server in servers:
                await server.start()
        except (ssl.SSLError, FileNotFoundError, PermissionError) as error:
            folder = self._configuration.server.webhooks.server_cert_dir
            raise StartFailed(
                f"server.webhooks.serverCertDir: {folder} holds no usable certificate: {error}"
            ) from error
        except OSError as error:
            raise StartFailed(f"server: a port cannot be listened on: {error}") from error

    async def _lead(self) -> None:
        election = self._configuration.leader_election
        if not election.enabled:
            await self._work()
            return
        # The lease itself is written without a fence: it is what the fence rests on.
        elector = LeaderElector(
            Client(self._transport, on_request=self._metrics.api_request),
            LeaseSettings(
                namespace=election.resource_namespace or self._namespace,
                name=election.resource_name,
                identity=f"{socket.gethostname()}-{os.getpid()}",
                duration=parse(election.lease_duration).total_seconds(),
                deadline=parse(election.renew_deadline).total_seconds(),
                retry=parse(election.retry_period).total_seconds(),
            ),
        )
        await lead(elector, lambda: self._work(elector.fence), self._transport)

    async def _work(self, fence: Callable[[], bool] | None = None) -> None:
        self._client.fence = self._grouper.fence = fence
        self._metrics.leading(True)
        await self._engine.control()

    # What is served.

    def _servers(self) -> list[HttpServer]:
        server = self._configuration.server
        self._health.ready_when("caches", lambda: all(store.synced for store in self._engine.stores))
        if self._engine.bundles:
            self._health.ready_when("webhooks", self._engine.bundles.in_place)
        if mnnvl := self._engine.mnnvl:
            self._health.ready_when("device APIs", lambda: mnnvl.apis.known)
        found: list[HttpServer] = [
            TlsServer(
                self._webhook_routes(),
                self._certificates,
                host=server.webhooks.bind_address or "0.0.0.0",
                port=server.webhooks.port,
            ),
            HttpServer(
                [metrics_route(self._metrics)], host=server.metrics.bind_address or "0.0.0.0", port=server.metrics.port
            ),
        ]
        if server.health_probes.enable:
            found.append(
                HttpServer(
                    self._health.routes(),
                    host=server.health_probes.bind_address or "0.0.0.0",
                    port=server.health_probes.port,
                )
            )
        return found

    def _webhook_routes(self) -> Iterable[web.RouteDef]:
        router = Router(
            Surroundings(self._context, self._identities, self._minimum, self._owner, self._neighbours),
            self._mnnvl_webhooks(),
        )
        return routes(router)

    def _context(self) -> Context:
        mnnvl = self._engine.mnnvl
        return Context.of(
            self._configuration, compute_domains_served=bool(mnnvl and mnnvl.apis.current.compute_domains)
        )

    def _mnnvl_webhooks(self) -> MnnvlWebhooks | None:
        mnnvl = self._engine.mnnvl
        if mnnvl is None:
            return None
        # Whoever leads, every replica answers: this client has no fence.
        client = Client(self._transport, on_request=self._metrics.api_request)
        return MnnvlWebhooks(client, lambda: mnnvl.apis.current, self._configuration.mnnvl.claims == "perPod")

    async def _minimum(self, resource: str, namespace: str, name: str) -> int | None:
        if resource == POD_CLIQUES.plural:
            clique = self._engine.stores[POD_CLIQUES].get(f"{namespace}/{name}")
            return clique.spec.minimum if clique else None
        group = self._engine.stores[SCALING_GROUPS].get(f"{namespace}/{name}")
        return group.spec.minimum if group else None

    async def _owner(self, namespace: str, name: str) -> PodCliqueSet | None:
        return self._engine.stores[POD_CLIQUE_SETS].get(f"{namespace}/{name}")

    def _neighbours(self, namespace: str, name: str) -> Iterable[PodCliqueSet]:
        stored = self._engine.stores[POD_CLIQUE_SETS].all()
        return (s for s in stored if s.metadata.namespace == namespace and related(name, s.metadata.name))

    def _certificate_source(self) -> SecretCertificates | FileCertificates:
        webhooks = self._configuration.server.webhooks
        if webhooks.cert_provision_mode == "manual":
            folder = Path(webhooks.server_cert_dir)
            return FileCertificates(folder / "tls.crt", folder / "tls.key")
        service = "grove-operator"
        names = [
            service,
            f"{service}.{self._namespace}",
            f"{service}.{self._namespace}.svc",
            f"{service}.{self._namespace}.svc.cluster.local",
            "localhost",
            "127.0.0.1",
        ]
        return SecretCertificates(self._client, self._namespace, webhooks.secret_name, names)


def reason(ended: BaseExceptionGroup[Exception]) -> str:
    """What the first of these says: tasks end together, for one reason."""
    first: BaseException = ended
    while isinstance(first, BaseExceptionGroup):
        first = first.exceptions[0]
    return str(first)


async def run(configuration: OperatorConfiguration, connection: Connection) -> None:
    """Runs an operator until SIGTERM or SIGINT."""
    loop = asyncio.get_running_loop()
    task = asyncio.create_task(Operator(configuration, connection).run())
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, task.cancel)
    try:
        await task
    except asyncio.CancelledError:
        _log.info("stopped")
