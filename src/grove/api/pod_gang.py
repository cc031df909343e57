"""PodGang: the contract with a gang scheduler. It lists pod groups, how many of each must run together, and where."""

from __future__ import annotations

from typing import Annotated, Literal

from grove.api.meta import Condition, Model, ObjectMeta
from grove.api.schema import atomic, doc, keyed_by

PodGangPhase = Literal["Pending", "Starting", "Running"]


class PackConstraint(Model):
    """Node label keys, not domain names: the translation has already happened."""

    required: Annotated[str | None, doc("All pods must share one value of this node label.")] = None
    preferred: Annotated[
        str | None, doc("The scheduler first tries to let all pods share one value of this label.")
    ] = None


class GangTopologyConstraint(Model):
    """Where the pods of a gang, or of a part of it, must be together."""

    pack_constraint: Annotated[PackConstraint | None, doc("The node labels to pack by.")] = None


class NamespacedName(Model):
    """An object by namespace and name."""

    namespace: Annotated[str, doc("The object's namespace.")]
    name: Annotated[str, doc("The object's name.")]


class PodGroup(Model):
    """The pods of one PodClique inside a gang."""

    name: Annotated[str, doc("The name of the PodClique.")]
    pod_references: Annotated[list[NamespacedName], doc("The pods of this group.", **atomic())] = []
    min_replicas: Annotated[int, doc("How many of them must be scheduled together.", default=0, minimum=0)] = 0
    topology_constraint: Annotated[GangTopologyConstraint | None, doc("Where this group's pods must be together.")] = (
        None
    )


class TopologyGroup(Model):
    """Pod groups to be packed together (one scaling-group replica)."""

    name: Annotated[str, doc("A name that no pod group of this gang has.", required=True)] = ""
    pod_group_names: Annotated[list[str], doc("The pod groups to pack together.", required=True, **atomic())] = []
    topology_constraint: Annotated[GangTopologyConstraint | None, doc("Where these groups must be together.")] = None


class PodGangSpec(Model):
    """The pods that start together or not at all."""

    # The wire name is all lower case in every released version of this contract.
    podgroups: Annotated[
        list[PodGroup], doc("The groups of pods in this gang.", required=True, **keyed_by("name"))
    ] = []
    topology_constraint: Annotated[GangTopologyConstraint | None, doc("Where the whole gang must be together.")] = None
    topology_constraint_group_configs: Annotated[
        list[TopologyGroup], doc("Parts of the gang that must be together more closely.", **keyed_by("name"))
    ] = []
    priority_class_name: Annotated[str, doc("The priority of the gang.")] = ""
    reuse_reservation_ref: Annotated[
        NamespacedName | None, doc("A former gang whose capacity the scheduler may use again for this one.")
    ] = None


class PodGangStatus(Model, omit_defaults=False):
    """How far the gang is. Schedulers write here too."""

    phase: Annotated[PodGangPhase, doc("Where the gang is in its life.", default="Pending")] = "Pending"
    conditions: Annotated[list[Condition], doc("Facts about this gang.", **keyed_by("type"))] = []
    placement_score: Annotated[float | None, doc("How well the placement serves the gang; written by schedulers.")] = (
        None
    )


class PodGang(Model):
    """A set of pod groups that start together or not at all, made by the operator for a gang scheduler."""

    metadata: ObjectMeta
    spec: PodGangSpec
    status: PodGangStatus | None = None
