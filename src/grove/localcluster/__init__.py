"""A real Kubernetes on one machine, without containers: etcd, API server, controllers, kwok nodes, KAI.

`up` builds what is missing, starts it and hands back a RunningCluster; `down` ends every process and keeps the data;
`reset` wipes it. Nothing here knows Grove's own kinds.
"""

from grove.localcluster.cluster import (
    RunningCluster,
    cluster_folder,
    down,
    find,
    reset,
    restart,
    service_account_kubeconfig,
    up,
)
from grove.localcluster.errors import BuildError, ComponentError, LocalClusterError, NotRunningError
from grove.localcluster.spec import ClusterSpec, Scheduler

__all__ = [
    "BuildError",
    "ClusterSpec",
    "ComponentError",
    "LocalClusterError",
    "NotRunningError",
    "RunningCluster",
    "Scheduler",
    "cluster_folder",
    "down",
    "find",
    "reset",
    "restart",
    "service_account_kubeconfig",
    "up",
]
