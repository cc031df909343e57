"""PodCliqueSet: a system of cooperating pods (say, disaggregated inference) and how many copies of it there are."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from grove.api.cluster_topology import NATURAL_ORDER
from grove.api.meta import Condition, IntOrPercent, LastError, Model, ObjectMeta
from grove.api.pod_clique import AutoScaling, ComponentUpdateStrategy, PodCliqueSpec
from grove.api.schema import DNS_LABEL, DURATION, MAX_CLIQUES, MAX_SCALING_GROUPS, atomic, distinct, doc, keyed_by

StartupType = Literal["CliqueStartupTypeAnyOrder", "CliqueStartupTypeInOrder", "CliqueStartupTypeExplicit"]
StrategyType = Literal["RollingRecreate", "RollingUpdate", "ReplicaRecreate", "OnDelete"]
TerminationPolicy = Literal["AfterDelay", "Never"]


class Pack(Model):
    """Topology domains to pack into: `required` must hold, `preferred` is tried first."""

    required: Annotated[str | None, doc("The level that must hold.", enum=list(NATURAL_ORDER))] = None
    preferred: Annotated[str | None, doc("The level tried first.", enum=list(NATURAL_ORDER))] = None


class TopologyConstraint(Model):
    """Keep each replica of the thing this is written on inside one topology domain."""

    pack_domain: Annotated[
        str | None, doc("The topology level that must hold for each replica on its own.", enum=list(NATURAL_ORDER))
    ] = None
    pack: Annotated[
        Pack | None, doc("The same, with a preference; `pack.required` is another word for packDomain.")
    ] = None
    topology_name: Annotated[str | None, doc("The ClusterTopology meant. May be left out.", maxLength=253)] = None

    @property
    def required_domain(self) -> str | None:
        """The domain that must hold, under either of its two spellings."""
        return self.pack_domain or (self.pack.required if self.pack else None)

    @property
    def preferred_domain(self) -> str | None:
        return self.pack.preferred if self.pack else None


class CliqueTemplate(Model):
    """One clique of the system."""

    name: Annotated[
        str,
        doc("The clique's name; part of the names of its pods. Fixed.", minLength=1, maxLength=63, pattern=DNS_LABEL),
    ]
    spec: Annotated[PodCliqueSpec, doc("The pods of the clique.")]
    labels: Annotated[dict[str, str], doc("Labels for the PodClique and its pods.")] = {}
    annotations: Annotated[dict[str, str], doc("Annotations for the PodClique and its pods.")] = {}
    topology_constraint: Annotated[TopologyConstraint | None, doc("Keeps the pods of the clique together.")] = None
    update_strategy: Annotated[
        ComponentUpdateStrategy | None,
        doc("How many pods an update may miss or add. Not for members of a scaling group."),
    ] = None
    resource_sharing: Annotated[
        list[dict[str, Any]], doc("Resource claims the pods of the clique share. Fixed.", **atomic())
    ] = []


class ScalingGroupConfig(Model):
    """Cliques that scale together, as one super-pod."""

    name: Annotated[
        str,
        doc("The group's name; part of the names of its pods. Fixed.", minLength=1, maxLength=63, pattern=DNS_LABEL),
    ]
    clique_names: Annotated[
        list[str],
        doc(
            "The cliques that make up one replica of the group. A clique belongs to one group at most. Fixed.",
            required=True,
            minItems=1,
            maxItems=MAX_CLIQUES,
            items={"type": "string", "maxLength": 63},
            **distinct(),
        ),
    ] = []
    annotations: Annotated[dict[str, str], doc("Annotations for the PodCliqueScalingGroup and its PodCliques.")] = {}
    replicas: Annotated[
        int | None, doc("How many replicas of the group a new PodCliqueSet replica starts with.", default=1, minimum=1)
    ] = None
    min_available: Annotated[
        int | None,
        doc(
            "Replicas that belong to the base gang; each further one is a gang of its own. Fixed.", default=1, minimum=1
        ),
    ] = None
    scale_config: Annotated[AutoScaling | None, doc("Lets an autoscaler change the replicas.")] = None
    topology_constraint: Annotated[TopologyConstraint | None, doc("Keeps each replica of the group together.")] = None
    update_strategy: Annotated[
        ComponentUpdateStrategy | None, doc("How many replicas of the group an update may miss or add.")
    ] = None
    resource_sharing: Annotated[
        list[dict[str, Any]], doc("Resource claims the cliques of the group share. Fixed.", **atomic())
    ] = []

    @property
    def initial_replicas(self) -> int:
        return 1 if self.replicas is None else self.replicas

    @property
    def minimum(self) -> int:
        return 1 if self.min_available is None else self.min_available


class HeadlessServiceConfig(Model):
    """The Service that gives the pods of a replica their DNS names."""

    publish_not_ready_addresses: Annotated[
        bool, doc("Whether pods have a DNS name before they are ready.", default=True)
    ] = True


class PodCliqueSetTemplate(Model):
    """What one replica of the system consists of."""

    cliques: Annotated[
        list[CliqueTemplate],
        doc(
            "The cliques of the system. Their names are fixed.",
            required=True,
            minItems=1,
            maxItems=MAX_CLIQUES,
            **keyed_by("name"),
        ),
    ] = []
    clique_startup_type: Annotated[
        StartupType | None,
        doc(
            "In which order cliques start: any, as listed, or as each clique's startsAfter says. Fixed.",
            default="CliqueStartupTypeAnyOrder",
        ),
    ] = None
    priority_class_name: Annotated[str, doc("The priority class of the gangs.")] = ""
    headless_service_config: Annotated[
        HeadlessServiceConfig | None, doc("The Service that gives the pods of a replica their DNS names.")
    ] = None
    topology_constraint: Annotated[TopologyConstraint | None, doc("Keeps each replica of the system together.")] = None
    termination_delay: Annotated[
        str | None,
        doc(
            "How long a replica may miss its minimum before it is recreated. Defaults to 4h.",
            maxLength=32,
            pattern=DURATION,
        ),
    ] = None
    termination_policy: Annotated[
        TerminationPolicy | None,
        doc("AfterDelay (default) recreates a replica that misses its minimum; Never leaves it."),
    ] = None
    resource_claim_templates: Annotated[
        list[dict[str, Any]], doc("Named resource claim templates for resourceSharing. Fixed.", **atomic())
    ] = []
    resource_sharing: Annotated[
        list[dict[str, Any]], doc("Resource claims the whole system shares. Fixed.", **atomic())
    ] = []
    pod_clique_scaling_groups: Annotated[
        list[ScalingGroupConfig],
        doc("Cliques that scale together. Their names are fixed.", maxItems=MAX_SCALING_GROUPS, **keyed_by("name")),
    ] = []

    def clique(self, name: str) -> CliqueTemplate | None:
        """The clique of exactly this name."""
        return next((c for c in self.cliques if c.name == name), None)

    def group_of(self, clique: str) -> ScalingGroupConfig | None:
        """The scaling group this clique is a member of; None for a standalone clique."""
        return next((g for g in self.pod_clique_scaling_groups if clique in g.clique_names), None)

    def standalone(self) -> list[CliqueTemplate]:
        """The cliques in no scaling group, in template order."""
        return [c for c in self.cliques if self.group_of(c.name) is None]

    def members(self, group: ScalingGroupConfig) -> list[CliqueTemplate]:
        """The group's cliques, in template order."""
        return [c for c in self.cliques if c.name in group.clique_names]


class RollingUpdate(Model):
    """How many PodCliqueSet replicas an update may miss or add at a time."""

    max_unavailable: Annotated[
        IntOrPercent | None, doc("Replicas that may be missing: a number or a percentage. Defaults to 1.")
    ] = None
    max_surge: Annotated[
        IntOrPercent | None, doc("Replicas that may exist beyond the wanted: a number or a percentage. Defaults to 0.")
    ] = None


class UpdateStrategy(Model):
    """How a changed template reaches the replicas."""

    type: Annotated[
        StrategyType | None,
        doc(
            "RollingRecreate (also called RollingUpdate) replaces pods and group replicas inside one replica after "
            "the other; ReplicaRecreate replaces whole replicas, so that versions never mix; OnDelete waits for you "
            "to delete.",
            default="RollingRecreate",
        ),
    ] = None
    rolling_update: Annotated[RollingUpdate | None, doc("The pace of ReplicaRecreate.")] = None
    paused: Annotated[bool, doc("Stops an update where it is.")] = False
    partition: Annotated[int | None, doc("Replicas with an index below this keep the old version.", minimum=0)] = None
    progress_deadline_seconds: Annotated[
        int | None, doc("Seconds without progress after which an update counts as stuck.", minimum=1)
    ] = None


class PodCliqueSetSpec(Model):
    """What the system is and how many copies of it there should be."""

    template: Annotated[PodCliqueSetTemplate, doc("What one replica of the system consists of.")]
    replicas: Annotated[int, doc("How many copies of the system there should be.", default=0, minimum=0)] = 0
    update_strategy: Annotated[UpdateStrategy | None, doc("How a changed template reaches the replicas.")] = None

    @property
    def strategy(self) -> UpdateStrategy:
        return self.update_strategy or UpdateStrategy()


class UpdatingReplica(Model):
    """A PodCliqueSet replica an update is working on."""

    replica_index: Annotated[int, doc("The index of the replica.")]
    update_started_at: Annotated[str | None, doc("When its update began.", format="date-time")] = None


class PodCliqueSetUpdateProgress(Model):
    """How far the latest template has reached."""

    update_started_at: Annotated[str | None, doc("When the update began.", format="date-time")] = None
    update_ended_at: Annotated[str | None, doc("When the update was complete.", format="date-time")] = None
    updated_pod_cliques_count: Annotated[int, doc("Standalone PodCliques at the new version.", default=0)] = 0
    total_pod_cliques_count: Annotated[int, doc("Standalone PodCliques in all.", default=0)] = 0
    updated_pod_clique_scaling_groups_count: Annotated[int, doc("Scaling groups at the new version.", default=0)] = 0
    total_pod_clique_scaling_groups_count: Annotated[int, doc("Scaling groups in all.", default=0)] = 0
    updating_replicas: Annotated[list[UpdatingReplica], doc("The replicas the update is working on.", **atomic())] = []
    updated_pods: Annotated[int, doc("Ready pods made from the new template.", default=0)] = 0
    total_pods: Annotated[int, doc("Pods asked for, those of surge replicas included.", default=0)] = 0
    most_updated_pods: Annotated[
        int, doc("The most updatedPods has been since the update took up these replicas.", default=0)
    ] = 0
    last_progress_at: Annotated[str | None, doc("When the update last moved.", format="date-time")] = None


class PodGangSummary(Model):
    """The state of one PodGang, repeated on its PodCliqueSet."""

    name: Annotated[str, doc("The PodGang.")]
    phase: Annotated[str, doc("Where it is in its life.", default="Pending")] = "Pending"
    conditions: Annotated[list[Condition], doc("Facts about it.", **atomic())] = []


class PodCliqueSetStatus(Model, omit_defaults=False):
    """What is true of the replicas now."""

    observed_generation: Annotated[int | None, doc("The generation this status speaks of.", format="int64")] = None
    conditions: Annotated[list[Condition], doc("Facts about this set.", **keyed_by("type"))] = []
    last_errors: Annotated[
        list[LastError], doc("What went wrong in the last pass; empty after a clean one.", **atomic())
    ] = []
    replicas: Annotated[int, doc("Replicas that exist.", default=0)] = 0
    updated_replicas: Annotated[int, doc("Available replicas made from the current template.", default=0)] = 0
    available_replicas: Annotated[int, doc("Replicas of which each part has its minimum.", default=0)] = 0
    hpa_pod_selector: Annotated[str | None, doc("The label selector autoscalers count pods by.")] = None
    pod_gang_statuses: Annotated[list[PodGangSummary], doc("The gangs of this set.", **atomic())] = []
    current_generation_hash: Annotated[str | None, doc("The version of the templates being rolled out.")] = None
    update_progress: Annotated[PodCliqueSetUpdateProgress | None, doc("The update under way, or the last one.")] = None


class PodCliqueSet(Model):
    """A set of identical copies of a system of cliques."""

    metadata: ObjectMeta
    spec: PodCliqueSetSpec
    status: PodCliqueSetStatus | None = None
