"""The five CustomResourceDefinitions: names, columns and subresources around the schemas of the structs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from grove.api import kinds
from grove.api.crd.structural import schema_of
from grove.runtime.resource import Resource


@dataclass(frozen=True, slots=True)
class Column:
    """One column of `kubectl get`; a wide one shows with `-o wide` alone."""

    name: str
    path: str
    kind: str = "integer"
    wide: bool = False

    def rendered(self) -> dict[str, Any]:
        rendered: dict[str, Any] = {"name": self.name, "type": self.kind, "jsonPath": self.path}
        if self.wide:
            rendered["priority"] = 1
        return rendered


@dataclass(frozen=True, slots=True)
class Definition:
    """What a CRD says beyond the schema."""

    resource: Resource[Any]
    short_name: str
    columns: tuple[Column, ...]
    selector: str | None = None
    """Where status publishes the pod selector; a kind without one has no scale subresource."""

    @property
    def file_name(self) -> str:
        return f"{self.resource.group}_{self.resource.plural}.yaml"

    def rendered(self) -> dict[str, Any]:
        resource = self.resource
        return {
            "apiVersion": "apiextensions.k8s.io/v1",
            "kind": "CustomResourceDefinition",
            "metadata": {"name": f"{resource.plural}.{resource.group}"},
            "spec": {
                "group": resource.group,
                "names": {
                    "kind": resource.kind,
                    "listKind": f"{resource.kind}List",
                    "plural": resource.plural,
                    "singular": resource.kind.lower(),
                    "shortNames": [self.short_name],
                    "categories": ["grove"],
                },
                "scope": "Namespaced" if resource.namespaced else "Cluster",
                "versions": [self._version()],
            },
        }

    def _version(self) -> dict[str, Any]:
        subresources: dict[str, Any] = {"status": {}}
        if self.selector:
            subresources["scale"] = {
                "specReplicasPath": ".spec.replicas",
                "statusReplicasPath": ".status.replicas",
                "labelSelectorPath": self.selector,
            }
        return {
            "name": self.resource.version,
            "served": True,
            "storage": True,
            "additionalPrinterColumns": [column.rendered() for column in (*self.columns, _AGE)],
            "subresources": subresources,
            "schema": {"openAPIV3Schema": self._schema()},
        }

    def _schema(self) -> dict[str, Any]:
        schema = schema_of(self.resource.model)
        schema["properties"] = {
            "apiVersion": {"type": "string", "description": "The version of the schema this object is written in."},
            "kind": {"type": "string", "description": "The kind of this object."},
            **schema["properties"],
        }
        # A status is never the user's to write, so nothing may require one.
        schema["required"] = [name for name in schema.get("required", []) if name == "spec"]
        return schema


_AGE = Column("Age", ".metadata.creationTimestamp", "date")
_BREACHED = Column("MinBreached", ".status.conditions[?(@.type=='MinAvailableBreached')].status", "string", wide=True)
_MINIMUM = Column("MinAvail", ".spec.minAvailable")
_REPLICAS = Column("Replicas", ".spec.replicas")
_AVAILABLE = Column("Available", ".status.availableReplicas")
_SCHEDULED = Column("Scheduled", ".status.scheduledReplicas")
_UPDATED = Column("Updated", ".status.updatedReplicas")
_CLIQUES_UPDATED = Column("PCLQs-Updated", ".status.updateProgress.updatedPodCliquesCount")
_CLIQUES_TOTAL = Column("PCLQs-Total", ".status.updateProgress.totalPodCliquesCount")
_GROUPS_UPDATED = Column("PCSGs-Updated", ".status.updateProgress.updatedPodCliqueScalingGroupsCount")
_GROUPS_TOTAL = Column("PCSGs-Total", ".status.updateProgress.totalPodCliqueScalingGroupsCount")
_READY = Column("Ready", ".status.readyReplicas")
_GATED = Column("Gated", ".status.scheduleGatedReplicas", wide=True)

DEFINITIONS = (
    Definition(
        kinds.POD_CLIQUE_SETS,
        "pcs",
        (_REPLICAS, _AVAILABLE, _UPDATED, _CLIQUES_UPDATED, _CLIQUES_TOTAL, _GROUPS_UPDATED, _GROUPS_TOTAL),
        selector=".status.hpaPodSelector",
    ),
    Definition(
        kinds.POD_CLIQUES,
        "pclq",
        (_MINIMUM, _REPLICAS, _READY, _SCHEDULED, _UPDATED, _GATED, _BREACHED),
        selector=".status.hpaPodSelector",
    ),
    Definition(
        kinds.SCALING_GROUPS,
        "pcsg",
        (_MINIMUM, _REPLICAS, _AVAILABLE, _SCHEDULED, _UPDATED, _CLIQUES_UPDATED, _CLIQUES_TOTAL, _BREACHED),
        selector=".status.selector",
    ),
    Definition(kinds.CLUSTER_TOPOLOGIES, "ct", (Column("Domains", ".spec.levels[*].domain", "string"),)),
    Definition(kinds.POD_GANGS, "pg", (Column("Phase", ".status.phase", "string"),)),
)
