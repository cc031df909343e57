"""The KAI scheduler. A pod belongs to KAI when its `pod-group-name` annotation names a PodGroup; the group's minimums
hold an incomplete gang back, so pods need no gate of ours for that. The PodGroup itself is written by the pod-grouper.
"""

from __future__ import annotations

NAME = "kai-scheduler"

POD_GROUP_ANNOTATION = "pod-group-name"
RECEIVED_RESOURCES_ANNOTATION = "received-resource-type"  # written by KAI's binder
SUBGROUP_LABEL = "kai.scheduler/subgroup-name"
QUEUE_LABEL = "kai.scheduler/queue"


def pod_group_name(gang_name: str, gang_uid: str) -> str:
    """The PodGroup of a PodGang. The UID in it keeps two namespaces' gangs of one name apart."""
    return f"pg-{gang_name}-{gang_uid}"
