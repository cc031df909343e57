"""The built-in kinds the server offers, as a table: enough of Kubernetes for controllers to live in.

Their objects are stored as they come: apart from pods and namespaces, built-in kinds are neither defaulted nor checked
field by field, and unknown fields stay. Custom resources are held to their schemas in full.
"""

from __future__ import annotations

from collections.abc import Iterator

from grove.testing import fieldtypes
from grove.testing.kinds import Resource, ScalePaths

_SELECTOR_SCALE = ScalePaths(selector=("spec", "selector"))

_NAMESPACED = {
    "v1": """pods=Pod/status,generation services=Service/status configmaps=ConfigMap secrets=Secret events=Event
        serviceaccounts=ServiceAccount endpoints=Endpoints persistentvolumeclaims=PersistentVolumeClaim/status
        podtemplates=PodTemplate/generation resourcequotas=ResourceQuota/status limitranges=LimitRange
        replicationcontrollers=ReplicationController/status,generation,scale""",
    "apps/v1": """deployments=Deployment/status,generation,scale replicasets=ReplicaSet/status,generation,scale
        statefulsets=StatefulSet/status,generation,scale daemonsets=DaemonSet/status,generation
        controllerrevisions=ControllerRevision""",
    "batch/v1": "jobs=Job/status,generation cronjobs=CronJob/status,generation",
    "autoscaling/v2": "horizontalpodautoscalers=HorizontalPodAutoscaler/status",
    "policy/v1": "poddisruptionbudgets=PodDisruptionBudget/status,generation",
    "coordination.k8s.io/v1": "leases=Lease",
    "events.k8s.io/v1": "events=Event",
    "discovery.k8s.io/v1": "endpointslices=EndpointSlice/generation",
    "networking.k8s.io/v1": "ingresses=Ingress/status,generation networkpolicies=NetworkPolicy/generation",
    "rbac.authorization.k8s.io/v1": "roles=Role rolebindings=RoleBinding",
    "scheduling.k8s.io/v1alpha1": "workloads=Workload",
    "resource.k8s.io/v1": "resourceclaims=ResourceClaim/status resourceclaimtemplates=ResourceClaimTemplate",
}
_CLUSTER_SCOPED = {
    "v1": "namespaces=Namespace/status nodes=Node/status persistentvolumes=PersistentVolume/status",
    "rbac.authorization.k8s.io/v1": "clusterroles=ClusterRole clusterrolebindings=ClusterRoleBinding",
    "scheduling.k8s.io/v1": "priorityclasses=PriorityClass/generation",
    "storage.k8s.io/v1": "storageclasses=StorageClass",
    "resource.k8s.io/v1": "deviceclasses=DeviceClass/generation resourceslices=ResourceSlice/generation",
    "admissionregistration.k8s.io/v1": """mutatingwebhookconfigurations=MutatingWebhookConfiguration/generation
        validatingwebhookconfigurations=ValidatingWebhookConfiguration/generation""",
    "apiregistration.k8s.io/v1": "apiservices=APIService/status",
    "apiextensions.k8s.io/v1": "customresourcedefinitions=CustomResourceDefinition/status,generation",
}
_SHORT_NAMES = {
    "pods": ("po",),
    "services": ("svc",),
    "configmaps": ("cm",),
    "serviceaccounts": ("sa",),
    "namespaces": ("ns",),
    "nodes": ("no",),
    "deployments": ("deploy",),
    "replicasets": ("rs",),
    "statefulsets": ("sts",),
    "daemonsets": ("ds",),
    "horizontalpodautoscalers": ("hpa",),
    "customresourcedefinitions": ("crd", "crds"),
    "events": ("ev",),
}
_MORE_SUBRESOURCES = {"Pod": ("binding", "eviction"), "Namespace": ("finalize",)}
_CHECKED_ON_UPDATE = ("CustomResourceDefinition", "MutatingWebhookConfiguration", "ValidatingWebhookConfiguration")


def core_resources() -> Iterator[Resource]:
    for table, namespaced in ((_NAMESPACED, True), (_CLUSTER_SCOPED, False)):
        for api_version, entries in table.items():
            for entry in entries.split():
                yield core_resource(api_version, entry, namespaced=namespaced)


def core_resource(api_version: str, entry: str, *, namespaced: bool) -> Resource:
    """One line of the table: `plural=Kind/feature,feature`, the features being status, generation and scale."""
    group, _, version = api_version.rpartition("/")
    names, _, features = entry.partition("/")
    plural, _, kind = names.partition("=")
    return Resource(
        group=group,
        version=version,
        kind=kind,
        plural=plural,
        namespaced=namespaced,
        has_status="status" in features,
        counts_generation="generation" in features,
        scale=_SELECTOR_SCALE if "scale" in features else None,
        short_names=_SHORT_NAMES.get(plural, ()),
        merge_type=fieldtypes.of_core_kind(kind),
        storage_version=version,
        subresources=_MORE_SUBRESOURCES.get(kind, ()),
        needs_version_on_update=kind in _CHECKED_ON_UPDATE,
    )
