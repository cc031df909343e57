"""The resources this product talks about: where each is served and which struct it decodes into."""

from __future__ import annotations

from grove.api.cluster_topology import ClusterTopology
from grove.api.core import (
    Autoscaler,
    ControllerRevision,
    Node,
    Pod,
    Role,
    RoleBinding,
    Service,
    ServiceAccount,
)
from grove.api.pod_clique import PodClique
from grove.api.pod_clique_set import PodCliqueSet
from grove.api.pod_gang import PodGang
from grove.api.scaling_group import ScalingGroup
from grove.runtime.resource import Resource

GROVE_GROUP = "grove.io"
SCHEDULER_GROUP = "scheduler.grove.io"

POD_CLIQUE_SETS = Resource(GROVE_GROUP, "v1alpha1", "podcliquesets", "PodCliqueSet", PodCliqueSet)
POD_CLIQUES = Resource(GROVE_GROUP, "v1alpha1", "podcliques", "PodClique", PodClique)
SCALING_GROUPS = Resource(GROVE_GROUP, "v1alpha1", "podcliquescalinggroups", "PodCliqueScalingGroup", ScalingGroup)
CLUSTER_TOPOLOGIES = Resource(
    GROVE_GROUP, "v1alpha1", "clustertopologies", "ClusterTopology", ClusterTopology, namespaced=False
)
POD_GANGS = Resource(SCHEDULER_GROUP, "v1alpha1", "podgangs", "PodGang", PodGang)

PODS = Resource("", "v1", "pods", "Pod", Pod)
SERVICES = Resource("", "v1", "services", "Service", Service)
SERVICE_ACCOUNTS = Resource("", "v1", "serviceaccounts", "ServiceAccount", ServiceAccount)
NODES = Resource("", "v1", "nodes", "Node", Node, namespaced=False)
ROLES = Resource("rbac.authorization.k8s.io", "v1", "roles", "Role", Role)
ROLE_BINDINGS = Resource("rbac.authorization.k8s.io", "v1", "rolebindings", "RoleBinding", RoleBinding)
AUTOSCALERS = Resource("autoscaling", "v2", "horizontalpodautoscalers", "HorizontalPodAutoscaler", Autoscaler)
CONTROLLER_REVISIONS = Resource("apps", "v1", "controllerrevisions", "ControllerRevision", ControllerRevision)
