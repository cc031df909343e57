"""A kind of object as the API server serves it, joined with the model its objects are decoded into."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Generic, TypeVar, cast

from grove.runtime.objects import namespaced_name

__all__ = ["Resource", "namespaced_name"]

T = TypeVar("T")
M = TypeVar("M")


@dataclass(frozen=True, slots=True)
class Resource(Generic[T]):
    """Where objects of one kind live and what they are decoded into."""

    group: str
    version: str
    plural: str
    kind: str
    model: type[T]
    namespaced: bool = True

    @property
    def api_version(self) -> str:
        return f"{self.group}/{self.version}" if self.group else self.version

    @property
    def root(self) -> str:
        """The path of the group and version this resource is served under."""
        return f"/apis/{self.group}/{self.version}" if self.group else f"/api/{self.version}"

    def path(self, namespace: str | None = None, name: str | None = None, subresource: str | None = None) -> str:
        """The path of the collection, an object or a subresource; no namespace means all of them."""
        path = self.root
        if namespace and self.namespaced:
            path += f"/namespaces/{namespace}"
        path += f"/{self.plural}"
        if name:
            path += f"/{name}"
        if subresource:
            path += f"/{subresource}"
        return path

    def with_model(self, model: type[M]) -> Resource[M]:
        """The same resource read through another projection."""
        return cast("Resource[M]", replace(cast("Resource[Any]", self), model=model))

    def with_version(self, version: str) -> Resource[T]:
        """The same resource under another served version."""
        return replace(self, version=version)

    def __str__(self) -> str:
        return f"{self.plural}.{self.group}" if self.group else self.plural
