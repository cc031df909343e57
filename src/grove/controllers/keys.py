"""What is reconciled: a PodCliqueSet as a whole, or one of its replicas. A key is a name, never an event."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Key:
    """A PodCliqueSet (`index` is None) or one replica of it."""

    namespace: str
    name: str
    index: int | None = None

    @property
    def owner(self) -> Key:
        return self if self.index is None else Key(self.namespace, self.name)

    def replica(self, index: int) -> Key:
        return Key(self.namespace, self.name, index)

    def __str__(self) -> str:
        tail = "" if self.index is None else f"[{self.index}]"
        return f"{self.namespace}/{self.name}{tail}"
