"""Every reason this product gives, with what it means and what to do about it.

A reason is one word in a condition, an event, a log line, a metric label and a CLI answer, and it is the same word in
all of them. Whoever reads it anywhere can look it up here.
"""

from __future__ import annotations

from enum import StrEnum


class Reason(StrEnum):
    """A reason; `meaning` and `remedy` explain it to a person."""

    meaning: str
    remedy: str

    def __new__(cls, word: str, meaning: str, remedy: str = "Nothing to do.") -> Reason:
        member = str.__new__(cls, word)
        member._value_ = word
        member.meaning = meaning
        member.remedy = remedy
        return member

    # Children and pods.
    CHILD_MISSING = "ChildMissing", "An object this workload needs does not exist yet and is being created."
    CHILD_CHANGED = "ChildChanged", "An object of this workload differs from what its PodCliqueSet asks for."
    CHILD_UNWANTED = "ChildUnwanted", "An object of this workload is no longer asked for."
    POD_MISSING = "PodMissing", "A pod of the clique does not exist and is being created."
    SCALED_IN = "ScaledIn", "Fewer replicas are asked for than exist."
    GANG_COMPLETE = "GangComplete", "All pods of the gang exist, so the scheduler may see them."
    POD_TERMINATING = (
        "PodTerminating",
        "The pod that holds this index is still shutting down; its index is given out again when it is gone.",
        "If it stays for longer than its grace period, look at the node it runs on.",
    )
    FOREIGN_OBJECT = (
        "ForeignObject",
        "An object of this name exists that does not belong to this workload.",
        "Delete or rename that object; if it is left from a deleted workload of the same name, it goes by itself.",
    )
    WRITE_REFUSED = (
        "WriteRefused",
        "The API server refused a write.",
        "Read the message: quota, an admission webhook, or an invalid field is named there.",
    )
    REVISION_UNRECORDED = (
        "RevisionUnrecorded",
        "The template is being recorded as a revision before anything is made from it.",
    )

    # Gangs.
    GANG_INCOMPLETE = "GangIncomplete", "Pods of this gang do not exist yet."
    BASE_GANG_UNSCHEDULED = (
        "BaseGangUnscheduled",
        "This gang starts only after the base gang of its replica has been scheduled.",
        "See why the base gang is pending: grove explain NAME.",
    )
    PODS_CREATED = "PodGangPodsCreated", "Every pod of the gang exists."
    PODS_PENDING_CREATION = "PodGangPodsCreationPending", "Pods of the gang have not been created yet."
    GANG_SCHEDULED = "GangScheduled", "Every pod group has its minimum of pods on nodes."
    GANG_UNSCHEDULED = (
        "GangUnscheduled",
        "A pod group has fewer pods on nodes than its minimum.",
        "See which resources or domain are short: grove explain NAME.",
    )
    UNSCHEDULABLE = (
        "Unschedulable",
        "The scheduler refuses pods of a gang; the message repeats its words.",
        "Make room, or change what the message names: resources, node selectors, the topology domain.",
    )
    GANG_READY = "GangReady", "Every pod group has its minimum of ready pods."
    GANG_NOT_READY = "GangNotReady", "A pod group has fewer ready pods than its minimum."
    SCHEDULED_ONCE = "ScheduledOnce", "The gang has been scheduled at least once since it was made."
    NEVER_SCHEDULED = "NeverScheduled", "The gang has not been scheduled yet."

    # Cliques and scaling groups.
    SCHEDULED_ENOUGH = "SufficientScheduledPods", "At least minAvailable pods are on nodes."
    SCHEDULED_TOO_FEW = "InsufficientScheduledPods", "Fewer than minAvailable pods are on nodes."
    READY_ENOUGH = "SufficientReadyPods", "At least minAvailable pods are ready."
    READY_TOO_FEW = (
        "InsufficientReadyPods",
        "Fewer than minAvailable pods are ready, after they once were.",
        "The gang is recreated when terminationDelay has passed, unless it recovers before.",
    )
    NEVER_READY = "NeverReady", "The clique has not had minAvailable ready pods yet, so there is nothing to breach."
    HAS_RUN = "MinAvailableReached", "At least minAvailable pods have been ready at the same time."
    NOT_RUN = "MinAvailableNotReached", "minAvailable pods have not been ready at the same time yet."
    GROUP_ENOUGH = "SufficientAvailablePodCliqueScalingGroupReplicas", "At least minAvailable group replicas are whole."
    GROUP_TOO_FEW = (
        "InsufficientAvailablePodCliqueScalingGroupReplicas",
        "Fewer than minAvailable group replicas are whole.",
        "The replica is recreated when terminationDelay has passed, unless it recovers before.",
    )
    GANG_TERMINATED = (
        "GangTerminated",
        "A gang stayed below its minimum for longer than terminationDelay and is recreated.",
        "Look at the node or the container that failed first; set terminationPolicy: Never to switch this off.",
    )

    # Updates.
    UPDATE_IN_PROGRESS = "UpdateInProgress", "A new template is being rolled out to this unit."
    TEMPLATE_CHANGED = "TemplateChanged", "The unit runs an older template and is being replaced."
    SURGE = "Surge", "An extra unit runs while older ones are replaced."
    SURGE_DONE = "SurgeDone", "All units run the new template; the extra ones go."
    WAIT_AVAILABLE = (
        "WaitingForAvailability",
        "Taking down one more unit now would leave fewer available than maxUnavailable allows.",
        "See why the new units are not ready: grove explain NAME. A corrected template may be applied at any time.",
    )
    WAIT_SURGE = (
        "WaitingForSurge",
        "The extra unit is not available yet, and maxUnavailable allows no unit to be down.",
        "If the cluster has no room for it, lower maxSurge and allow maxUnavailable 1; that is picked up at once.",
    )
    WAIT_GONE = "WaitingForTermination", "A replaced unit is still shutting down."
    WAIT_REPLICA = "WaitingForReplica", "Another replica of the PodCliqueSet is being updated."
    PAUSED = "UpdatePaused", "updateStrategy.paused holds the update.", "grove rollout resume NAME."
    PARTITIONED = "UpdatePartitioned", "updateStrategy.partition keeps this replica on its revision."
    DEADLINE = (
        "ProgressDeadlineExceeded",
        "The update made no progress for progressDeadlineSeconds.",
        "grove explain NAME tells what it waits for; apply a corrected template or undo.",
    )
    NEW_REVISION = "NewRevision", "The pod templates changed."
    UPDATE_DONE = "UpdateComplete", "Every replica runs the latest templates."

    # PodCliqueSet conditions.
    ALL_AVAILABLE = "AllReplicasAvailable", "Every replica has its minimum running."
    NOT_AVAILABLE = "ReplicasUnavailable", "Some replicas do not have their minimum running."
    SCALED_TO_ZERO = "ScaledToZero", "No replica is asked for."
    IN_STEP = "InStep", "Everything asked for exists and is up to date."
    CONVERGING = "Converging", "Objects are still being brought to what is asked for."
    NOT_STALLED = "NotStalled", "Nothing blocks progress."

    # Topology.
    TOPOLOGY_READY = "TopologyReady", "The topology is configured and known to the scheduler."
    KAI_TOPOLOGY_FAILED = (
        "KAITopologyCreationOrUpdateFailed",
        "The scheduler's topology object could not be written.",
        "Read the message; it is retried, and at once when the KAI API appears.",
    )
    TOPOLOGY_LEVELS_AVAILABLE = "TopologyLevelsAvailable", "All required topology levels exist."
    TOPOLOGY_LEVEL_NOT_FOUND = (
        "TopologyLevelNotFound",
        "A required topology level does not exist.",
        "Remove the constraint or add the level to the operator's configuration.",
    )
    TOPOLOGY_LEVELS_REMOVED = (
        "TopologyLevelsRemoved",
        "Several required topology levels do not exist.",
        "Change the constraints or add the levels to the operator's configuration.",
    )
    TOPOLOGY_DISABLED = (
        "TopologyDisabled",
        "Topology support is switched off in the operator's configuration.",
        "Enable topology, or remove the constraints.",
    )

    # Grouping pods for KAI.
    GROUP_MISSING = "PodGroupMissing", "The PodGroup of these pods does not exist yet and is being created."
    GROUP_CHANGED = "PodGroupChanged", "The PodGroup differs from what its pods' owner or Workload says."
    GROUP_UNUSED = "PodGroupUnused", "No pod belongs to this PodGroup any more, so it is removed."
    POD_UNGROUPED = "PodUngrouped", "The pod does not point at its PodGroup yet."
    TOPOLOGY_UNNAMED = (
        "TopologyUnnamed",
        "A packing constraint names no topology, so the scheduler could only ignore it.",
        "Set the annotation grove.io/topology-name on the PodGang.",
    )
    GANG_MISSING = (
        "PodGangMissing",
        "The pod names a PodGang that does not exist.",
        "Wait for the operator to create it; if the workload is gone, delete the pod.",
    )
    OWNER_GONE = (
        "OwnerGone",
        "An owner of the pod does not exist, or another object has its name now.",
        "The garbage collector removes such pods; delete it if it stays.",
    )
    OWNERS_SEVERAL = (
        "SeveralOwners",
        "An owner of the pod has several owners itself, so none of them can speak for the pod.",
        "Leave one owner reference on that object.",
    )
    OWNER_UNREADABLE = (
        "OwnerUnreadable",
        "The owner's spec does not say how many pods belong together.",
        "Correct the field that the message names.",
    )
    WORKLOAD_MISSING = (
        "WorkloadMissing",
        "The pod refers to a Workload that does not exist.",
        "Create the Workload; the pod is scheduled at once when it appears.",
    )
    WORKLOAD_GROUP_MISSING = (
        "WorkloadPodGroupMissing",
        "The Workload the pod refers to has no pod group of that name.",
        "Correct the pod's workloadRef, or create the Workload again with that pod group.",
    )
    GROUP_NAME_TAKEN = (
        "PodGroupNameTaken",
        "A PodGroup of the name this pod needs exists and belongs to something else.",
        "Rename the Workload or its pod group; the names of both are joined with dashes and can coincide.",
    )
    GROUP_NAME_SHARED = (
        "PodGroupNameShared",
        "Another namespace has a PodGroup of the same name; KAI before version 0.14 confuses the two.",
        "Upgrade KAI, give the Workloads different names, or run the pod-grouper with --unique-names.",
    )
    GANG_INEXPRESSIBLE = (
        "GangInexpressible",
        "The scheduler of this gang cannot be told all that the gang asks for.",
        "Use the KAI scheduler for it, or remove the part that the message names.",
    )
