"""What a local cluster should look like, and where its files live.

The spec is what a person chooses; it is stored beside the cluster's data, so that a later start without options brings
the same cluster back.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields, replace
from enum import StrEnum
from pathlib import Path

from grove.localcluster.errors import LocalClusterError

DEFAULT_NAME = "grove"


class Scheduler(StrEnum):
    """Which scheduler handles gangs; the default scheduler of Kubernetes always runs beside it."""

    KAI = "kai"
    KUBE = "kube"


def default_data_dir(name: str, environ: Mapping[str, str] | None = None) -> Path:
    """The folder of a named cluster below the user's state home."""
    environ = os.environ if environ is None else environ
    base = environ.get("XDG_STATE_HOME") or str(Path.home() / ".local" / "state")
    return Path(base) / "grove" / "clusters" / name


@dataclass(frozen=True)
class ClusterSpec:
    """The choices of `grove local up`."""

    name: str = DEFAULT_NAME
    nodes: int = 16
    racks: int = 4
    blocks: int = 2
    zones: int = 1
    gpus: int = 8
    scheduler: Scheduler = Scheduler.KAI
    workload_api: bool = True
    operator: bool = False
    operator_config: Path | None = None
    pod_grouper: bool = True
    data_dir: Path | None = None

    def __post_init__(self) -> None:
        if not re.fullmatch(r"[a-z0-9]([a-z0-9-]{0,38}[a-z0-9])?", self.name):
            raise LocalClusterError(f"{self.name!r} is no cluster name: use up to 40 of a-z, 0-9 and -")
        if self.nodes < 0 or self.gpus < 0:
            raise LocalClusterError("the numbers of nodes and GPUs cannot be negative")
        if min(self.racks, self.blocks, self.zones) < 1:
            raise LocalClusterError("a cluster has at least one rack, one block and one zone")
        if not self.zones <= self.blocks <= self.racks:
            raise LocalClusterError(
                f"racks lie in blocks and blocks in zones: {self.racks} racks, {self.blocks} blocks "
                f"and {self.zones} zones leave some of them empty"
            )

    @property
    def runs_pod_grouper(self) -> bool:
        """It comes with the operator, and only KAI has a use for it."""
        return self.operator and self.pod_grouper and self.scheduler is Scheduler.KAI

    @property
    def folder(self) -> Path:
        """Where the cluster's data, certificates and logs are."""
        return (self.data_dir or default_data_dir(self.name)).absolute()

    def to_json(self) -> str:
        values = asdict(self)
        values.pop("data_dir")
        values["operator_config"] = str(self.operator_config) if self.operator_config else None
        return json.dumps(values, indent=2) + "\n"

    @classmethod
    def from_json(cls, text: str, data_dir: Path | None) -> ClusterSpec:
        known = {field.name for field in fields(cls)}
        values = {name: value for name, value in json.loads(text).items() if name in known}
        values["scheduler"] = Scheduler(values["scheduler"])
        values["operator_config"] = Path(values["operator_config"]) if values.get("operator_config") else None
        return replace(cls(), **values, data_dir=data_dir)


@dataclass(frozen=True)
class ClusterFiles:
    """The layout of a cluster's folder."""

    folder: Path

    @property
    def spec(self) -> Path:
        return self.folder / "cluster.json"

    @property
    def ports(self) -> Path:
        return self.folder / "ports.json"

    @property
    def pki(self) -> Path:
        return self.folder / "pki"

    @property
    def logs(self) -> Path:
        return self.folder / "logs"

    @property
    def etcd(self) -> Path:
        return self.folder / "etcd"

    @property
    def configuration(self) -> Path:
        """Configuration files written for components at each start."""
        return self.folder / "config"

    @property
    def admin_kubeconfig(self) -> Path:
        return self.folder / "kubeconfig"

    @property
    def socket(self) -> Path:
        return self.folder / "supervisor.sock"

    @property
    def state(self) -> Path:
        """What the supervisor last knew about its components."""
        return self.folder / "state.json"

    @property
    def lock(self) -> Path:
        """Beside the folder, not in it: `reset` removes the folder while it holds the lock."""
        return self.folder.with_name(self.folder.name + ".lock")

    @property
    def everything(self) -> tuple[Path, ...]:
        """All that a cluster keeps in its folder."""
        kept = (self.pki, self.logs, self.etcd, self.configuration, self.admin_kubeconfig)
        return (*kept, self.spec, self.ports, self.socket, self.state)

    def log(self, component: str) -> Path:
        return self.logs / f"{component}.log"

    def component_kubeconfig(self, identity: str) -> Path:
        return self.configuration / f"{identity}.kubeconfig"

    def account_kubeconfig(self, namespace: str, name: str) -> Path:
        """The kubeconfig that acts as a service account."""
        return self.configuration / f"{namespace}.{name}.kubeconfig"

    @property
    def operator_configuration(self) -> Path:
        return self.configuration / "operator.json"


def stored_spec(folder: Path) -> ClusterSpec | None:
    """The spec the cluster in this folder was last started with, or None for a new cluster."""
    path = ClusterFiles(folder).spec
    if not path.exists():
        return None
    try:
        return ClusterSpec.from_json(path.read_text(), folder)
    except (ValueError, TypeError, KeyError, AttributeError) as error:
        raise LocalClusterError(f"{path} is damaged ({error}); `grove local reset` clears the cluster away") from error
