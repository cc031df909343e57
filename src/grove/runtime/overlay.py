"""Which of our own writes the watch has not confirmed yet, and which objects must not come back.

Three small books, each emptied by the watch itself: writes awaiting their echo, deletions awaiting their DELETED event,
and the last few objects whose DELETED event was seen (so that a repeated or late event cannot revive them). Entries
leave when the watch passes their version, so nothing leaks even for objects outside the watched selection.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterator

_RECENT_DEPARTURES = 512


class Overlays:
    """The bookkeeping of one store."""

    __slots__ = ("_awaited", "_deleted", "_departed", "_order")

    def __init__(self) -> None:
        self._awaited: dict[str, tuple[int, float]] = {}  # uid → version of our write not yet echoed, and its moment
        self._order: list[tuple[int, str, str]] = []  # heap of (version, uid, key) over the awaited
        self._deleted: dict[str, int] = {}  # uid → last version known of what we deleted
        self._departed: dict[str, int] = {}  # uid → version of the DELETED event seen, oldest first

    def __len__(self) -> int:
        return len(self._awaited.keys() | self._deleted.keys())

    def __bool__(self) -> bool:
        return bool(self._awaited or self._deleted or self._departed)

    @property
    def unconfirmed(self) -> bool:
        return bool(self._order)

    def awaits(self, uid: str) -> bool:
        return uid in self._awaited

    def departed(self, uid: str, version: int) -> bool:
        """Whether `uid` was already gone at `version`. It may come back later by matching the selector again."""
        return uid in self._deleted or version <= self._departed.get(uid, -1)

    def wrote(self, version: int, uid: str, key: str, moment: float = 0.0) -> None:
        self._awaited[uid] = (version, moment)
        heapq.heappush(self._order, (version, uid, key))

    def deleted(self, version: int, uid: str, key: str, *, seen: bool) -> None:
        """We deleted `uid`. When the watch has not `seen` it yet, it may never: then passing its version is enough."""
        self._deleted[uid] = version
        if not seen:
            self.wrote(version, uid, key)

    def told(self, uid: str, version: int) -> float | None:
        """The watch told of `uid` at `version`; returns the moment of our write when this is its echo."""
        awaited = self._awaited.get(uid)
        if awaited is None or version < awaited[0]:
            return None
        del self._awaited[uid]
        return awaited[1]

    def gone(self, uid: str, version: int) -> None:
        """Its DELETED event arrived."""
        self.told(uid, version)
        self._deleted.pop(uid, None)
        self._departed.pop(uid, None)
        self._departed[uid] = version
        if len(self._departed) > _RECENT_DEPARTURES:
            del self._departed[next(iter(self._departed))]

    def passed(self, version: int) -> Iterator[tuple[int, str]]:
        """The watch passed `version`: forgets what it covers, yields (version, key) of what it never told of."""
        while self._order and self._order[0][0] <= version:
            written, uid, key = heapq.heappop(self._order)
            if uid in self._awaited and self._awaited[uid][0] == written:
                del self._awaited[uid]
                self._deleted.pop(uid, None)
                yield written, key

    def listed(self, version: int, uids: set[str]) -> None:
        """A list at `version` holds `uids`: writes it covers are settled, deletions it no longer shows are done."""
        self._awaited = {uid: written for uid, written in self._awaited.items() if written[0] > version}
        self._order = [entry for entry in self._order if entry[0] > version]
        heapq.heapify(self._order)
        self._deleted = {uid: known for uid, known in self._deleted.items() if uid in uids or known > version}
