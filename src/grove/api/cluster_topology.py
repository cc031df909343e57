"""ClusterTopology: the names workloads use for the levels of a cluster's network, and the node labels behind them."""

from __future__ import annotations

from typing import Annotated, Literal

import msgspec

from grove.api.meta import Condition, LastError, Model, ObjectMeta
from grove.api.schema import QUALIFIED_NAME, QUALIFIED_NAME_LENGTH, atomic, doc, keyed_by

TopologyDomain = Literal["region", "zone", "datacenter", "block", "rack", "host", "numa"]
NATURAL_ORDER: tuple[TopologyDomain, ...] = ("region", "zone", "datacenter", "block", "rack", "host", "numa")
DEFAULT_NAME = "grove-topology"


class TopologyLevel(msgspec.Struct, kw_only=True, frozen=True, rename="camel"):
    """One level: what workloads call it and which node label tells its domains apart."""

    domain: Annotated[TopologyDomain, doc("The name workloads use.")]
    key: Annotated[
        str,
        doc(
            "The node label whose value tells which domain a node is in.",
            minLength=1,
            maxLength=QUALIFIED_NAME_LENGTH,
            pattern=QUALIFIED_NAME,
        ),
    ]


class ClusterTopologySpec(Model):
    """The levels of the cluster's network."""

    levels: Annotated[
        list[TopologyLevel],
        doc(
            "The levels in order; later ones are stricter.", required=True, minItems=1, maxItems=8, **keyed_by("domain")
        ),
    ] = []


class ClusterTopologyStatus(Model):
    """Whether the scheduler knows these levels."""

    observed_generation: Annotated[int | None, doc("The generation this status speaks of.", format="int64")] = None
    conditions: Annotated[list[Condition], doc("Facts about this topology.", **keyed_by("type"))] = []
    last_errors: Annotated[
        list[LastError], doc("What went wrong in the last pass; empty after a clean one.", **atomic())
    ] = []


class ClusterTopology(Model):
    """The topology levels of this cluster, widest first. Written by the operator alone."""

    metadata: ObjectMeta
    spec: ClusterTopologySpec
    status: ClusterTopologyStatus | None = None
