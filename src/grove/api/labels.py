"""Label, annotation, environment and gate keys: the vocabulary objects use to point at each other.

Two families of labels describe the same position. The `grove.io/podcliqueset-replica-index` family carries full object
names and is what this operator selects by; the `grove.io/pcs-*` family carries short names and is what the MNNVL
resources are labelled and found by.
"""

MANAGED_BY = "app.kubernetes.io/managed-by"
MANAGER = "grove-operator"
PART_OF = "app.kubernetes.io/part-of"
NAME = "app.kubernetes.io/name"
COMPONENT = "app.kubernetes.io/component"

REPLICA_INDEX = "grove.io/podcliqueset-replica-index"
POD_CLIQUE = "grove.io/podclique"
POD_GANG = "grove.io/podgang"
BASE_POD_GANG = "grove.io/base-podgang"
SCALING_GROUP = "grove.io/podcliquescalinggroup"
SCALING_GROUP_REPLICA_INDEX = "grove.io/podcliquescalinggroup-replica-index"
POD_INDEX = "grove.io/podclique-pod-index"
POD_TEMPLATE_HASH = "grove.io/pod-template-hash"
GENERATION_HASH = "grove.io/podcliqueset-generation-hash"
SCHEDULER_NAME = "grove.io/scheduler-name"

SHORT_SET = "grove.io/pcs-name"
SHORT_REPLICA = "grove.io/pcs-replica-index"
SHORT_GROUP = "grove.io/pcsg-name"
SHORT_GROUP_REPLICA = "grove.io/pcsg-replica-index"
SHORT_CLIQUE = "grove.io/clique-name"

COMPONENT_SERVICE = "pcs-headless-service"
COMPONENT_ROLE = "pod-role"
COMPONENT_ROLE_BINDING = "pod-role-binding"
COMPONENT_SERVICE_ACCOUNT = "pod-service-account"
COMPONENT_SCALING_GROUP = "pcs-podcliquescalinggroup"
COMPONENT_AUTOSCALER = "pcs-hpa"
COMPONENT_POD_GANG = "podgang"
COMPONENT_STANDALONE_CLIQUE = "pcs-podclique"
COMPONENT_MEMBER_CLIQUE = "pcsg-podclique"

# Annotations.
TOPOLOGY_NAME = "grove.io/topology-name"
MIRRORED = "grove.io/mirrored-keys"
DISABLE_PROTECTION = "grove.io/disable-managed-resource-protection"
RECONCILE_TRIGGER = "grove.io/reconcile-trigger"
MNNVL_ENABLED = "grove.io/mnnvl-enabled"
MNNVL_SCOPE = "grove.io/mnnvl-scope"
MNNVL_DEVICE_CLASS = "grove.io/mnnvl-device-class"
MNNVL_ADOPTED = "grove.io/mnnvl-resources-adopted"
MNNVL_MANAGED = "grove.io/mnnvl-managed"
MNNVL_ANNOTATIONS = (MNNVL_ENABLED, MNNVL_SCOPE, MNNVL_DEVICE_CLASS)

GATE = "grove.io/podgang-pending-creation"
FIELD_MANAGER = "grove-operator"
INIT_CONTAINER = "grove-initc"

ENV_SET_NAME = "GROVE_PCS_NAME"
ENV_SET_INDEX = "GROVE_PCS_INDEX"
ENV_CLIQUE_NAME = "GROVE_PCLQ_NAME"
ENV_HEADLESS_SERVICE = "GROVE_HEADLESS_SERVICE"
ENV_POD_INDEX = "GROVE_PCLQ_POD_INDEX"
ENV_GROUP_NAME = "GROVE_PCSG_NAME"
ENV_GROUP_INDEX = "GROVE_PCSG_INDEX"
ENV_GROUP_PODS = "GROVE_PCSG_TEMPLATE_NUM_PODS"

GROVE_PREFIX = "grove.io/"


def managed(set_name: str) -> dict[str, str]:
    """The two labels every object of a PodCliqueSet carries."""
    return {MANAGED_BY: MANAGER, PART_OF: set_name}


def selector(labels: dict[str, str]) -> str:
    """The labels as a selector string, in their order."""
    return ",".join(f"{key}={value}" for key, value in labels.items())
