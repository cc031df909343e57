"""PodCliqueScalingGroup: cliques of a PodCliqueSet replica that scale together, a whole set of them at a time."""

from __future__ import annotations

from typing import Annotated

from grove.api.meta import Condition, LastError, Model, ObjectMeta
from grove.api.schema import MAX_CLIQUES, atomic, distinct, doc, keyed_by


class ScalingGroupSpec(Model):
    """Which cliques scale together and how often."""

    clique_names: Annotated[
        list[str],
        doc(
            "The cliques of the PodCliqueSet that make up one replica. Fixed.",
            required=True,
            minItems=1,
            maxItems=MAX_CLIQUES,
            items={"type": "string", "maxLength": 63},
            **distinct(),
        ),
    ] = []
    replicas: Annotated[int, doc("How many sets of these cliques there should be.", default=1, minimum=1)] = 1
    min_available: Annotated[
        int | None,
        doc("Replicas that belong to the base gang and must run together with it. Fixed.", default=1, minimum=1),
    ] = None

    @property
    def minimum(self) -> int:
        return 1 if self.min_available is None else self.min_available


class SelectedReplicaIndices(Model):
    """Group replicas an update has chosen to replace, and those it has replaced (bounded)."""

    current: Annotated[list[int], doc("Replicas being replaced now.", **atomic())] = []
    completed: Annotated[list[int], doc("Replicas replaced lately.", **atomic())] = []


class ScalingGroupUpdateProgress(Model):
    """How far the latest templates have reached into this group."""

    update_started_at: Annotated[str | None, doc("When the update began.", format="date-time")] = None
    update_ended_at: Annotated[str | None, doc("When the update was complete.", format="date-time")] = None
    pod_clique_set_generation_hash: Annotated[str, doc("The version of the PodCliqueSet being rolled out.")] = ""
    updated_pod_cliques_count: Annotated[int, doc("Member cliques at that version.", default=0)] = 0
    total_pod_cliques_count: Annotated[int, doc("Member cliques in all.", default=0)] = 0
    ready_replica_indices_selected_to_update: Annotated[
        SelectedReplicaIndices | None, doc("Replicas the update has chosen. Empty under OnDelete.")
    ] = None


class ScalingGroupStatus(Model, omit_defaults=False):
    """What is true of the group's replicas now."""

    observed_generation: Annotated[int | None, doc("The generation this status speaks of.", format="int64")] = None
    conditions: Annotated[list[Condition], doc("Facts about this group.", **keyed_by("type"))] = []
    last_errors: Annotated[
        list[LastError], doc("What went wrong in the last pass; empty after a clean one.", **atomic())
    ] = []
    replicas: Annotated[int, doc("Replicas that exist.", default=0)] = 0
    scheduled_replicas: Annotated[int, doc("Replicas of which each clique has its minimum on nodes.", default=0)] = 0
    available_replicas: Annotated[int, doc("Replicas of which each clique has its minimum ready.", default=0)] = 0
    updated_replicas: Annotated[
        int, doc("Available replicas made from the templates the set asks for now.", default=0)
    ] = 0
    selector: Annotated[str | None, doc("The label selector autoscalers count pods by.")] = None
    current_pod_clique_set_generation_hash: Annotated[
        str | None, doc("The version of the PodCliqueSet fully reached.")
    ] = None
    update_progress: Annotated[ScalingGroupUpdateProgress | None, doc("The update under way, or the last one.")] = None


class ScalingGroup(Model):
    """Cliques that scale together as one super-pod, made by the operator from a scaling group of a PodCliqueSet."""

    metadata: ObjectMeta
    spec: ScalingGroupSpec
    status: ScalingGroupStatus | None = None
