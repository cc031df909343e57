"""Finds objects by a derived value: owner uid, node, gang, or any other string an object can be filed under."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from typing import Generic, TypeVar

T = TypeVar("T")


class Index(Generic[T]):
    """Objects filed under the values that `values_of` gives them."""

    __slots__ = ("_files", "_values_of")

    def __init__(self, values_of: Callable[[T], Iterable[str]]) -> None:
        self._values_of = values_of
        self._files: dict[str, dict[str, T]] = {}

    def objects(self, value: str) -> Collection[T]:
        filed = self._files.get(value)
        return list(filed.values()) if filed else ()

    def change(self, key: str, old: T | None, new: T | None) -> None:
        """Refiles the object of `key`."""
        after = () if new is None else set(self._values_of(new))
        if old is not None:
            for value in set(self._values_of(old)).difference(after):
                filed = self._files[value]
                del filed[key]
                if not filed:
                    del self._files[value]
        if new is not None:
            for value in after:
                self._files.setdefault(value, {})[key] = new
