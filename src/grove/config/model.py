"""OperatorConfiguration: everything an administrator can decide about the operator, with its defaults.

Field names follow the file. Types and bounds stand on the fields; what spans several of them is in `checks`.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

import msgspec

from grove.api.cluster_topology import DEFAULT_NAME, TopologyLevel
from grove.api.schema import DURATION, OBJECT_NAME, OBJECT_NAME_LENGTH, doc

API_VERSION = "operator.config.grove.io/v1alpha1"
KIND = "OperatorConfiguration"

SchedulerName = Literal["default-scheduler", "kai-scheduler"]
_PORT = {"minimum": 1, "maximum": 65535}
_NAME = {"minLength": 1, "maxLength": OBJECT_NAME_LENGTH, "pattern": OBJECT_NAME}


class Section(msgspec.Struct, kw_only=True, rename="camel"):
    """A part of the configuration."""


def _section(section: type[Section]) -> Any:
    return msgspec.field(default_factory=section)


class ClientConnection(Section):
    """Talking to the API server. Accepted so that existing files load, and without effect: the API server sets the
    pace, by saying when it is asked too much, and JSON is what is spoken."""

    qps: Annotated[float, doc("No effect: the API server sets the pace.", minimum=0)] = 0
    burst: Annotated[int, doc("No effect: the API server sets the pace.", minimum=0)] = 0
    content_type: Annotated[str, doc("No effect: JSON is what is spoken.")] = ""
    accept_content_types: Annotated[str, doc("No effect: JSON is what is spoken.")] = ""


class LeaderElection(Section):
    """Which of several replicas of the operator acts."""

    enabled: Annotated[bool, doc("Whether replicas of the operator elect a leader.")] = False
    lease_duration: Annotated[str, doc("How long a silent leader keeps its lease.", pattern=DURATION)] = "15s"
    renew_deadline: Annotated[str, doc("How long a leader tries to renew before it gives up.", pattern=DURATION)] = (
        "10s"
    )
    retry_period: Annotated[str, doc("How often it tries.", pattern=DURATION)] = "2s"
    resource_lock: Annotated[Literal["leases"], doc("What the lock is made of.")] = "leases"
    resource_name: Annotated[str, doc("The name of the lease.", **_NAME)] = "grove-operator-leader-election"
    resource_namespace: Annotated[str, doc("Where the lease is; empty means where the operator runs.")] = ""


class WebhookServer(Section):
    """Where admission is served and where its certificate comes from."""

    bind_address: Annotated[str, doc("The address to listen on; empty means all.")] = ""
    port: Annotated[int, doc("The port to listen on.", **_PORT)] = 2750
    server_cert_dir: Annotated[str, doc("Where tls.crt and tls.key are, in manual mode.")] = (
        "/etc/grove-operator/webhook-certs"
    )
    secret_name: Annotated[str, doc("The Secret that keeps the certificate, in auto mode.", **_NAME)] = (
        "grove-webhook-server-cert"
    )
    cert_provision_mode: Annotated[
        Literal["auto", "manual"], doc("Whether the operator makes its certificate or reads it from files.")
    ] = "auto"


class HealthServer(Section):
    """Where liveness and readiness are told."""

    enable: Annotated[bool, doc("Whether probes are served.")] = True
    bind_address: Annotated[str, doc("The address to listen on; empty means all.")] = ""
    port: Annotated[int, doc("The port to listen on.", **_PORT)] = 2751


class MetricsServer(Section):
    """Where metrics are told."""

    bind_address: Annotated[str, doc("The address to listen on; empty means all.")] = ""
    port: Annotated[int, doc("The port to listen on.", **_PORT)] = 2752


class Server(Section):
    """What the operator serves."""

    webhooks: Annotated[WebhookServer, doc("Admission.")] = _section(WebhookServer)
    health_probes: Annotated[HealthServer, doc("Liveness and readiness.")] = _section(HealthServer)
    metrics: Annotated[MetricsServer, doc("Metrics.")] = _section(MetricsServer)


class Debugging(Section):
    """Profiles of the Go runtime. Accepted so that existing files load, and without effect."""

    enable_profiling: Annotated[bool, doc("No effect.")] = False
    pprof_bind_host: Annotated[str, doc("No effect.")] = "127.0.0.1"
    pprof_bind_port: Annotated[int, doc("No effect.", **_PORT)] = 2753


class Controller(Section):
    """How one controller works."""

    concurrent_syncs: Annotated[int, doc("No effect: all replicas are worked on from one queue.", minimum=1)] = 10


class Controllers(Section):
    """How each controller works. Accepted so that existing files load, and without effect."""

    pod_clique_set: Annotated[Controller, doc("PodCliqueSets.")] = _section(Controller)
    pod_clique: Annotated[Controller, doc("PodCliques.")] = _section(Controller)
    pod_clique_scaling_group: Annotated[Controller, doc("PodCliqueScalingGroups.")] = msgspec.field(
        default_factory=lambda: Controller(concurrent_syncs=5)
    )
    pod_gang: Annotated[Controller, doc("PodGangs.")] = msgspec.field(
        default_factory=lambda: Controller(concurrent_syncs=5)
    )


class Authorizer(Section):
    """Protection of the objects the operator makes."""

    enabled: Annotated[bool, doc("Whether only the operator may change the objects it makes.")] = False
    exempt_service_account_user_names: Annotated[list[str], doc("User names that may change them too.")] = []


class Topology(Section):
    """The network levels of the cluster that workloads can be packed by."""

    enabled: Annotated[bool, doc("Whether workloads may ask for topology.")] = False
    name: Annotated[str, doc("The name of the ClusterTopology and of the scheduler's topology.", **_NAME)] = (
        DEFAULT_NAME
    )
    levels: Annotated[list[TopologyLevel], doc("The levels, widest first.", maxItems=8)] = []


class Mnnvl(Section):
    """Multi-node NVLink through ComputeDomains."""

    enabled: Annotated[bool, doc("Whether workloads may ask for it.")] = False
    claims: Annotated[Literal["shared", "perPod"], doc("One claim for all pods of a domain, or one for each pod.")] = (
        "shared"
    )


class SchedulerProfile(Section):
    """A scheduler workloads may name."""

    name: Annotated[SchedulerName, doc("The scheduler.")]
    config: Annotated[dict[str, Any], doc("Settings for it.")] = {}


def _profiles() -> list[SchedulerProfile]:
    return [SchedulerProfile(name="default-scheduler"), SchedulerProfile(name="kai-scheduler")]


class Scheduler(Section):
    """The schedulers of the cluster."""

    profiles: Annotated[list[SchedulerProfile], doc("The schedulers workloads may name.")] = msgspec.field(
        default_factory=_profiles
    )
    default_profile_name: Annotated[SchedulerName, doc("The one meant where a pod spec names none.")] = (
        "default-scheduler"
    )


class Updates(Section):
    """How updates are kept track of."""

    revision_history_limit: Annotated[int, doc("Old versions kept for each PodCliqueSet.", minimum=0)] = 10


class PodGrouper(Section):
    """The pod-grouper for KAI: which pods of other workloads belong together."""

    enabled: Annotated[bool, doc("Whether pods of other workloads are grouped too, not only those of PodGangs.")] = (
        False
    )
    embedded: Annotated[bool, doc("Whether it runs inside the operator rather than on its own.")] = True
    scheduler_name: Annotated[str, doc("The scheduler whose pods are grouped.", minLength=1)] = "kai-scheduler"
    concurrent_syncs: Annotated[int, doc("Pods worked on at the same time.", minimum=1)] = 10
    default_priorities_config_map_name: Annotated[
        str, doc("The ConfigMap with a default priority and preemptibility per kind of owner; empty means none.")
    ] = ""
    default_priorities_config_map_namespace: Annotated[str, doc("Where that ConfigMap is.")] = ""


class OperatorConfiguration(Section):
    """The configuration file of the operator."""

    api_version: Annotated[Literal["operator.config.grove.io/v1alpha1"], doc("The version of this file.")] = (
        "operator.config.grove.io/v1alpha1"
    )
    kind: Annotated[Literal["OperatorConfiguration"], doc("The kind of this file.")] = "OperatorConfiguration"
    runtime_client_connection: Annotated[ClientConnection, doc("Talking to the API server.")] = _section(
        ClientConnection
    )
    leader_election: Annotated[LeaderElection, doc("Which replica acts.")] = _section(LeaderElection)
    server: Annotated[Server, doc("What is served.")] = _section(Server)
    debugging: Annotated[Debugging, doc("Looking inside.")] = _section(Debugging)
    controllers: Annotated[Controllers, doc("How controllers work.")] = _section(Controllers)
    log_level: Annotated[Literal["debug", "info", "error"], doc("What is logged.")] = "info"
    log_format: Annotated[Literal["json", "text"], doc("How it is written.")] = "json"
    authorizer: Annotated[Authorizer, doc("Protection of made objects.")] = _section(Authorizer)
    topology: Annotated[Topology, doc("Network levels.")] = _section(Topology)
    mnnvl: Annotated[Mnnvl, doc("Multi-node NVLink.")] = _section(Mnnvl)
    scheduler: Annotated[Scheduler, doc("Schedulers.")] = _section(Scheduler)
    updates: Annotated[Updates, doc("Updates.")] = _section(Updates)
    pod_grouper: Annotated[PodGrouper, doc("The pod-grouper.")] = _section(PodGrouper)
