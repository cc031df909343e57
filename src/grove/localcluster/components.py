"""What a component is, and the table of everything a cluster runs.

A component is a value: a name, a command line, an environment and a probe that tells when it is up. Waves order the
start; within a wave everything starts at once, and stopping goes backwards.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field
from enum import IntEnum
from pathlib import Path
from typing import Any

from grove.localcluster.binaries import ETCD, KAI, KUBERNETES, KWOK, BuildGroup
from grove.localcluster.ports import LOOPBACK
from grove.localcluster.spec import ClusterFiles, ClusterSpec, Scheduler

# Who Grove's own programs are, as deploy/rbac says.
GROVE_NAMESPACE = "grove-system"
OPERATOR_ACCOUNT = "grove-operator"
POD_GROUPER_ACCOUNT = "grove-pod-grouper"

# Names of ports that more than the component itself asks for.
OPERATOR_WEBHOOKS, OPERATOR_HEALTH, OPERATOR_METRICS = "operator-webhooks", "operator-health", "operator-metrics"


class Wave(IntEnum):
    """When a component starts. Between API and CONTROLLERS the base objects (CRDs, queues) are created."""

    STORAGE = 0
    API = 1
    CONTROLLERS = 2
    GROVE = 3


@dataclass(frozen=True)
class Probe:
    """Up when this address answers 200; with `ca` over TLS checked against that certificate."""

    url: str
    ca: str | None = None


@dataclass(frozen=True)
class Component:
    """One supervised process."""

    name: str
    argv: tuple[str, ...]
    wave: Wave
    probe: Probe | None = None
    environment: Mapping[str, str] = field(default_factory=dict)

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Component:
        probe = values.get("probe")
        return cls(
            name=values["name"],
            argv=tuple(values["argv"]),
            wave=Wave(values["wave"]),
            probe=Probe(**probe) if probe else None,
            environment=dict(values["environment"]),
        )


@dataclass(frozen=True)
class Surroundings:
    """What a component's command line is made from."""

    spec: ClusterSpec
    files: ClusterFiles
    ports: Mapping[str, int]

    def address(self, port: str) -> str:
        return f"{LOOPBACK}:{self.ports[port]}"

    def pki(self, name: str) -> str:
        return str(self.files.pki / name)

    def kubeconfig(self, identity: str) -> str:
        return str(self.files.component_kubeconfig(identity))

    @property
    def ca(self) -> str:
        return self.pki("ca.crt")


def _binary(group: BuildGroup, command: str) -> str:
    return str(group.folder() / command)


def _workload_gates(spec: ClusterSpec) -> list[str]:
    return ["--feature-gates=GenericWorkload=true,GangScheduling=true"] if spec.workload_api else []


def _etcd(around: Surroundings) -> Component:
    client, peer = (f"https://{around.address(port)}" for port in ("etcd", "etcd-peer"))
    metrics = f"http://{around.address('etcd-metrics')}"
    argv = [
        _binary(ETCD, "etcd"),
        "--name=local",
        f"--data-dir={around.files.etcd}",
        f"--listen-client-urls={client}",
        f"--advertise-client-urls={client}",
        f"--listen-peer-urls={peer}",
        f"--initial-advertise-peer-urls={peer}",
        f"--initial-cluster=local={peer}",
        f"--listen-metrics-urls={metrics}",
        "--client-cert-auth",
        "--peer-client-cert-auth",
        *(f"--{prefix}trusted-ca-file={around.ca}" for prefix in ("", "peer-")),
        *(f"--{prefix}cert-file={around.pki('serving.crt')}" for prefix in ("", "peer-")),
        *(f"--{prefix}key-file={around.pki('serving.key')}" for prefix in ("", "peer-")),
        # One member elects itself; waiting the usual second for rivals only delays the start.
        "--heartbeat-interval=10",
        "--election-timeout=100",
        # Losing the last second in a power cut is a fair price for a development cluster that answers fast.
        "--unsafe-no-fsync",
        "--auto-compaction-mode=periodic",
        "--auto-compaction-retention=10m",
        "--quota-backend-bytes=4294967296",
        "--log-level=warn",
    ]
    return Component("etcd", tuple(argv), Wave.STORAGE, Probe(f"{metrics}/readyz"))


def _kube_apiserver(around: Surroundings) -> Component:
    address = around.address("apiserver")
    argv = [
        _binary(KUBERNETES, "kube-apiserver"),
        f"--etcd-servers=https://{around.address('etcd')}",
        f"--etcd-cafile={around.ca}",
        f"--etcd-certfile={around.pki('etcd-client.crt')}",
        f"--etcd-keyfile={around.pki('etcd-client.key')}",
        f"--bind-address={LOOPBACK}",
        f"--advertise-address={LOOPBACK}",
        f"--secure-port={around.ports['apiserver']}",
        f"--tls-cert-file={around.pki('serving.crt')}",
        f"--tls-private-key-file={around.pki('serving.key')}",
        f"--client-ca-file={around.ca}",
        "--authorization-mode=RBAC",
        "--service-cluster-ip-range=10.96.0.0/16",
        f"--service-account-issuer=https://{address}",
        f"--service-account-key-file={around.pki('service-account.pub')}",
        f"--service-account-signing-key-file={around.pki('service-account.key')}",
        # The reconciler would refuse to publish a loopback address as the endpoint of the kubernetes Service.
        "--endpoint-reconciler-type=none",
        "--max-requests-inflight=800",
        "--max-mutating-requests-inflight=400",
        "--profiling=false",
        *_workload_gates(around.spec),
    ]
    if around.spec.workload_api:
        argv.append("--runtime-config=scheduling.k8s.io/v1alpha1=true")
    return Component("kube-apiserver", tuple(argv), Wave.API, Probe(f"https://{address}/readyz", around.ca))


def _kube_controller_manager(around: Surroundings) -> Component:
    address = around.address("controller-manager")
    argv = [
        _binary(KUBERNETES, "kube-controller-manager"),
        f"--kubeconfig={around.kubeconfig('controller-manager')}",
        *_serving(around, "controller-manager"),
        f"--root-ca-file={around.ca}",
        f"--service-account-private-key-file={around.pki('service-account.key')}",
        "--use-service-account-credentials=true",
        "--leader-elect=false",
        "--kube-api-qps=500",
        "--kube-api-burst=1000",
        "--profiling=false",
    ]
    probe = Probe(f"https://{address}/healthz", around.ca)
    return Component("kube-controller-manager", tuple(argv), Wave.CONTROLLERS, probe)


def _kube_scheduler(around: Surroundings) -> Component:
    address = around.address("scheduler")
    argv = [
        _binary(KUBERNETES, "kube-scheduler"),
        f"--kubeconfig={around.kubeconfig('scheduler')}",
        *_serving(around, "scheduler"),
        "--leader-elect=false",
        "--kube-api-qps=500",
        "--kube-api-burst=1000",
        "--profiling=false",
        *_workload_gates(around.spec),
    ]
    return Component("kube-scheduler", tuple(argv), Wave.CONTROLLERS, Probe(f"https://{address}/healthz", around.ca))


def _serving(around: Surroundings, port: str) -> list[str]:
    return [
        f"--bind-address={LOOPBACK}",
        f"--secure-port={around.ports[port]}",
        f"--tls-cert-file={around.pki('serving.crt')}",
        f"--tls-private-key-file={around.pki('serving.key')}",
    ]


def _kwok(around: Surroundings) -> Component:
    address = around.address("kwok")
    argv = (
        _binary(KWOK, "kwok"),
        f"--kubeconfig={around.kubeconfig('kwok')}",
        f"--config={around.files.configuration / 'kwok.yaml'}",
        "--manage-all-nodes=true",
        # Without leases of its own a node counts as lost after 40 s of load, and its pods stop being Ready.
        "--node-lease-duration-seconds=40",
        f"--server-address={address}",
        f"--node-ip={LOOPBACK}",
        "--cidr=10.64.0.1/10",
    )
    # kwok also reads ~/.kwok/kwok.yaml; a private home keeps the user's own settings out.
    environment = {"HOME": str(around.files.configuration)}
    return Component("kwok", argv, Wave.CONTROLLERS, Probe(f"http://{address}/healthz"), environment)


def _kai_scheduler(around: Surroundings) -> Component:
    address = around.address("kai-scheduler")
    argv = (
        _binary(KAI, "scheduler"),
        f"--listen-address={address}",
        # The only listener that cannot be bound to loopback: it has no address option.
        f"--plugin-server-port={around.ports['kai-plugins']}",
        "--schedule-period=1s",
        "--qps=500",
        "--burst=1000",
        "--v=1",
    )
    environment = {"KUBECONFIG": around.kubeconfig("kai")}
    return Component("kai-scheduler", argv, Wave.CONTROLLERS, Probe(f"http://{address}/metrics"), environment)


def _kai_binder(around: Surroundings) -> Component:
    metrics = around.address("kai-binder")
    argv = (
        _binary(KAI, "binder"),
        f"--metrics-bind-address={metrics}",
        # Its health server knows no checks and answers 404 for ever.
        "--health-probe-bind-address=0",
        "--qps=500",
        "--burst=1000",
    )
    environment = {"KUBECONFIG": around.kubeconfig("kai")}
    return Component("kai-binder", argv, Wave.CONTROLLERS, Probe(f"http://{metrics}/metrics"), environment)


def _init_runner(around: Surroundings) -> Component:
    return Component("init-runner", _module("grove.localcluster.init_runner", str(around.files.folder)), Wave.GROVE)


def _operator(around: Surroundings) -> Component:
    kubeconfig = around.files.account_kubeconfig(GROVE_NAMESPACE, OPERATOR_ACCOUNT)
    options = (f"--config={around.files.operator_configuration}", f"--kubeconfig={kubeconfig}")
    environment = {
        "GROVE_OPERATOR_NAMESPACE": GROVE_NAMESPACE,
        "GROVE_OPERATOR_SERVICE_ACCOUNT_NAME": OPERATOR_ACCOUNT,
    }
    probe = Probe(f"http://{around.address(OPERATOR_HEALTH)}/readyz")
    return Component("operator", _module("grove.cli.main", "operator", *options), Wave.GROVE, probe, environment)


def _pod_grouper(around: Surroundings) -> Component:
    kubeconfig = around.files.account_kubeconfig(GROVE_NAMESPACE, POD_GROUPER_ACCOUNT)
    options = (
        f"--kubeconfig={kubeconfig}",
        f"--bind-address={LOOPBACK}",
        f"--metrics-port={around.ports['pod-grouper-metrics']}",
        f"--probe-port={around.ports['pod-grouper-health']}",
        "--log-format=text",
    )
    probe = Probe(f"http://{around.address('pod-grouper-health')}/readyz")
    return Component("pod-grouper", _module("grove.cli.main", "pod-grouper", *options), Wave.GROVE, probe)


def _module(name: str, *arguments: str) -> tuple[str, ...]:
    """A module of this package, run by the interpreter that runs us."""
    return (sys.executable, "-P", "-m", name, *arguments)


@dataclass(frozen=True)
class Row:
    """A line of the component table: when it applies, which ports it needs, how to make it."""

    make: Callable[[Surroundings], Component]
    ports: tuple[str, ...]
    group: BuildGroup | None = None
    applies: Callable[[ClusterSpec], bool] = lambda _: True


def _wants_kai(spec: ClusterSpec) -> bool:
    return spec.scheduler is Scheduler.KAI


TABLE: tuple[Row, ...] = (
    Row(_etcd, ("etcd", "etcd-peer", "etcd-metrics"), ETCD),
    Row(_kube_apiserver, ("apiserver",), KUBERNETES),
    Row(_kube_controller_manager, ("controller-manager",), KUBERNETES),
    Row(_kube_scheduler, ("scheduler",), KUBERNETES),
    Row(_kwok, ("kwok",), KWOK),
    Row(_kai_scheduler, ("kai-scheduler", "kai-plugins"), KAI, _wants_kai),
    Row(_kai_binder, ("kai-binder",), KAI, _wants_kai),
    Row(_init_runner, ()),
    Row(_operator, (OPERATOR_WEBHOOKS, OPERATOR_HEALTH, OPERATOR_METRICS), applies=lambda spec: spec.operator),
    Row(_pod_grouper, ("pod-grouper-health", "pod-grouper-metrics"), applies=lambda spec: spec.runs_pod_grouper),
)


def rows_for(spec: ClusterSpec) -> list[Row]:
    return [row for row in TABLE if row.applies(spec)]


def groups_for(spec: ClusterSpec) -> list[BuildGroup]:
    """The build groups this cluster needs, each once."""
    return list(dict.fromkeys(row.group for row in rows_for(spec) if row.group))


def port_names(spec: ClusterSpec) -> list[str]:
    return [port for row in rows_for(spec) for port in row.ports]


def components_for(around: Surroundings) -> list[Component]:
    return [row.make(around) for row in rows_for(around.spec)]


def kubectl_binary() -> Path:
    return KUBERNETES.folder() / "kubectl"
