"""The operator's process on the shared cluster: killing it, and starting it anew with another configuration."""

from __future__ import annotations

import os
import signal
from typing import Any

import yaml
from workbench import eventually

from grove.localcluster import RunningCluster, restart
from grove.localcluster.states import ComponentState


class OperatorProcess:
    """What an administrator, or an accident, does to the operator."""

    def __init__(self, cluster: RunningCluster) -> None:
        self._cluster = cluster
        self._changed = False

    def kill(self) -> None:
        """End it without a chance to finish anything."""
        status = self._cluster.components()["operator"]
        assert status.pid
        self._changed = True
        os.kill(status.pid, signal.SIGKILL)
        eventually("the operator to be seen dead", lambda: not self._is_ready())

    def start(self, **configuration: Any) -> None:
        """Start it anew; `configuration` is laid over what fits the cluster. Raises when it does not come up."""
        path = self._cluster.spec.operator_config
        assert path is not None
        self._changed = True
        path.write_text(yaml.safe_dump(configuration) if configuration else "")
        restart(self._cluster, "operator")
        self._changed = bool(configuration)

    def log(self) -> str:
        return self._cluster.files.log("operator").read_text()

    def restore(self) -> None:
        """As it was at first."""
        if self._changed:
            self.start()

    def _is_ready(self) -> bool:
        return self._cluster.components()["operator"].state is ComponentState.READY
