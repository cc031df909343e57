"""PodClique: identical pods, standing alone in a PodCliqueSet replica or being a member of a scaling group."""

from __future__ import annotations

from typing import Annotated, Any

from grove.api.meta import Condition, IntOrPercent, LastError, Model, ObjectMeta
from grove.api.schema import MAX_CLIQUES, atomic, distinct, doc, keyed_by
from grove.api.sharing import shared


class AutoScaling(Model):
    """Bounds and metrics of the HorizontalPodAutoscaler made for a clique or a scaling group."""

    min_replicas: Annotated[
        int | None, doc("The autoscaler never goes below this. Defaults to the replicas.", minimum=1)
    ] = None
    max_replicas: Annotated[int, doc("The autoscaler never goes above this.", required=True, minimum=1)] = 0
    metrics: Annotated[
        list[dict[str, Any]],
        doc(
            "What the autoscaler looks at, as in an autoscaling/v2 HorizontalPodAutoscaler.",
            **atomic(),
            **{"x-grove-items": "MetricSpec"},
        ),
    ] = []


class ComponentUpdateStrategy(Model):
    """How many units of a clique (pods) or scaling group (replicas) an update may miss or add at a time."""

    max_unavailable: Annotated[
        IntOrPercent | None, doc("Units that may be missing during an update: a number or a percentage. Defaults to 1.")
    ] = None
    max_surge: Annotated[
        IntOrPercent | None, doc("Units that may exist beyond the replicas: a number or a percentage. Defaults to 0.")
    ] = None


class PodCliqueSpec(Model):
    """What the pods of a clique are and how many there should be."""

    role_name: Annotated[
        str,
        doc(
            "What these pods do in the system, such as leader or worker. Unique and fixed.",
            required=True,
            maxLength=253,
        ),
    ] = ""
    pod_spec: Annotated[
        dict[str, Any],
        doc("The pods to run. Any change of it is an update.", required=True, **{"x-grove-schema": "PodSpec"}),
    ] = {}
    replicas: Annotated[int, doc("How many pods this clique has.", default=1, minimum=1)] = 0
    min_available: Annotated[
        int | None,
        doc(
            "How many of the pods must run together for the gang to be of use. Defaults to replicas. Fixed.", minimum=1
        ),
    ] = None
    starts_after: Annotated[
        list[str],
        doc(
            "Cliques that must be ready before these pods start. Used with CliqueStartupTypeExplicit. Fixed.",
            maxItems=MAX_CLIQUES,
            items={"type": "string", "maxLength": 63},
            **distinct(),
        ),
    ] = []
    auto_scaling_config: Annotated[
        AutoScaling | None, doc("Lets an autoscaler change the replicas. Not for members of a scaling group.")
    ] = None

    def __post_init__(self) -> None:
        # Hundreds of cliques carry the same pod spec: hold it once.
        self.pod_spec = shared(self.pod_spec)

    @property
    def minimum(self) -> int:
        """The gang minimum; admission always sets it, an object that bypassed admission means all of its replicas."""
        return self.replicas if self.min_available is None else self.min_available


class SelectedPods(Model):
    """Ready pods an update has chosen to replace, and those it has replaced (bounded)."""

    current: Annotated[list[str], doc("Pods being replaced now.", **atomic())] = []
    completed: Annotated[list[str], doc("Pods replaced lately.", **atomic())] = []


class PodCliqueUpdateProgress(Model):
    """How far the latest template has reached into this clique."""

    update_started_at: Annotated[str | None, doc("When the update began.", format="date-time")] = None
    update_ended_at: Annotated[str | None, doc("When the update was complete.", format="date-time")] = None
    pod_clique_set_generation_hash: Annotated[str, doc("The version of the PodCliqueSet being rolled out.")] = ""
    pod_template_hash: Annotated[str, doc("The version of the pod template being rolled out.")] = ""
    ready_pods_selected_to_update: Annotated[
        SelectedPods | None, doc("Ready pods the update has chosen. Empty under OnDelete.")
    ] = None


class PodCliqueStatus(Model, omit_defaults=False):
    """What is true of the pods now. Terminating pods count nowhere."""

    observed_generation: Annotated[int | None, doc("The generation this status speaks of.", format="int64")] = None
    conditions: Annotated[list[Condition], doc("Facts about this clique.", **keyed_by("type"))] = []
    last_errors: Annotated[
        list[LastError], doc("What went wrong in the last pass; empty after a clean one.", **atomic())
    ] = []
    replicas: Annotated[int, doc("Pods that exist.", default=0)] = 0
    ready_replicas: Annotated[int, doc("Pods that are ready.", default=0)] = 0
    scheduled_replicas: Annotated[int, doc("Pods that have a node.", default=0)] = 0
    schedule_gated_replicas: Annotated[int, doc("Pods that wait for their gang to be complete.", default=0)] = 0
    updated_replicas: Annotated[int, doc("Pods made from the template the set asks for now.", default=0)] = 0
    hpa_pod_selector: Annotated[str | None, doc("The label selector autoscalers count pods by.")] = None
    current_pod_clique_set_generation_hash: Annotated[
        str | None, doc("The version of the PodCliqueSet fully reached.")
    ] = None
    current_pod_template_hash: Annotated[str | None, doc("The version of the pod template fully reached.")] = None
    update_progress: Annotated[PodCliqueUpdateProgress | None, doc("The update under way, or the last one.")] = None


class PodClique(Model):
    """A group of identical pods of one role, made by the operator from a clique of a PodCliqueSet."""

    metadata: ObjectMeta
    spec: PodCliqueSpec
    status: PodCliqueStatus | None = None
