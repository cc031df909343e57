"""The parts of an object that every kind shares: metadata, owners, conditions, references, and the Status answer.

All are frozen projections: they keep what controllers read (`managedFields` is skipped while decoding) and are never
written back whole. They form no cycles, so the garbage collector need not track them.
"""

from __future__ import annotations

from typing import Generic, Protocol, TypeVar

import msgspec


class OwnerReference(msgspec.Struct, kw_only=True, frozen=True, rename="camel", omit_defaults=True, gc=False):
    """Who an object belongs to; the garbage collector follows the uid."""

    api_version: str = ""
    kind: str = ""
    name: str = ""
    uid: str = ""
    controller: bool | None = None
    block_owner_deletion: bool | None = None


class ObjectMeta(msgspec.Struct, kw_only=True, frozen=True, rename="camel", omit_defaults=True, gc=False):
    """Identity, version, labels and life cycle of an object."""

    name: str = ""
    namespace: str = ""
    uid: str = ""
    resource_version: str = ""
    generation: int = 0
    labels: dict[str, str] = msgspec.field(default_factory=dict)
    annotations: dict[str, str] = msgspec.field(default_factory=dict)
    owner_references: list[OwnerReference] = msgspec.field(default_factory=list)
    finalizers: list[str] = msgspec.field(default_factory=list)
    creation_timestamp: str | None = None  # null in bookmarks and in objects not stored yet
    deletion_timestamp: str | None = None
    deletion_grace_period_seconds: int | None = None

    @property
    def controller(self) -> OwnerReference | None:
        """The one owner that manages this object, if any."""
        for owner in self.owner_references:
            if owner.controller:
                return owner
        return None

    @property
    def terminating(self) -> bool:
        return self.deletion_timestamp is not None


class Condition(msgspec.Struct, kw_only=True, frozen=True, rename="camel", omit_defaults=True, gc=False):
    """A metav1.Condition: one observed fact about an object, with the reason for it."""

    type: str
    status: str = ""  # no default that means something: it would be left out when written
    reason: str = ""
    message: str = ""
    last_transition_time: str | None = None  # null on a pod that is held by a gate
    observed_generation: int = 0


class ObjectReference(msgspec.Struct, kw_only=True, frozen=True, rename="camel", omit_defaults=True, gc=False):
    """Points at one object, as events do."""

    api_version: str = ""
    kind: str = ""
    namespace: str = ""
    name: str = ""
    uid: str = ""
    resource_version: str = ""
    field_path: str = ""


class HasMetadata(Protocol):
    """What the stores ask of a model."""

    @property
    def metadata(self) -> ObjectMeta: ...


T = TypeVar("T")
ObjectT = TypeVar("ObjectT", bound=HasMetadata)


class PartialObject(msgspec.Struct, kw_only=True, frozen=True, rename="camel", omit_defaults=True, gc=False):
    """Any object, of which only the identity matters."""

    api_version: str = ""
    kind: str = ""
    metadata: ObjectMeta = msgspec.field(default_factory=ObjectMeta)


class ListMeta(msgspec.Struct, kw_only=True, frozen=True, rename="camel", gc=False):
    """Where a list ends and how to go on."""

    resource_version: str = ""
    continue_: str = msgspec.field(default="", name="continue")
    remaining_item_count: int | None = None


class ObjectList(msgspec.Struct, Generic[T], kw_only=True, frozen=True, rename="camel"):
    """One page of objects."""

    metadata: ListMeta = msgspec.field(default_factory=ListMeta)
    items: list[T] = msgspec.field(default_factory=list)


class StatusCause(msgspec.Struct, kw_only=True, frozen=True, gc=False):
    """One field-level reason of a refused request."""

    field: str = ""
    message: str = ""
    reason: str = ""


class StatusDetails(msgspec.Struct, kw_only=True, frozen=True, rename="camel", gc=False):
    """What a Status is about."""

    name: str = ""
    kind: str = ""
    uid: str = ""
    causes: list[StatusCause] = msgspec.field(default_factory=list)
    retry_after_seconds: int = 0


class Status(msgspec.Struct, kw_only=True, frozen=True, rename="camel", gc=False):
    """The answer of the API server when it does not answer with an object."""

    kind: str = ""
    status: str = ""
    message: str = ""
    reason: str = ""
    code: int = 0
    details: StatusDetails | None = None


class ScaleSpec(msgspec.Struct, kw_only=True, frozen=True, gc=False):
    replicas: int = 0


class ScaleStatus(msgspec.Struct, kw_only=True, frozen=True, gc=False):
    replicas: int = 0
    selector: str = ""


class Scale(msgspec.Struct, kw_only=True, frozen=True):
    """The scale subresource of any kind."""

    metadata: ObjectMeta = msgspec.field(default_factory=ObjectMeta)
    spec: ScaleSpec = msgspec.field(default_factory=ScaleSpec)
    status: ScaleStatus = msgspec.field(default_factory=ScaleStatus)


def namespaced_name(obj: HasMetadata) -> str:
    """The key of an object in stores and queues: `namespace/name`, or `name` when it is cluster-scoped."""
    metadata = obj.metadata
    return f"{metadata.namespace}/{metadata.name}" if metadata.namespace else metadata.name


def version_of(obj: HasMetadata) -> int:
    """The resourceVersion as a number; versions of one kind are ordered."""
    return int(obj.metadata.resource_version or 0)
