"""What of the cluster every grouping depends on: the PriorityClasses there are, and the defaults per kind of owner.

Defaults that cannot be read count as none, and the log says so; a ConfigMap that is not there sets none.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace

import structlog

from grove.controllers.stores import Stores
from grove.podgrouper.inheritance import KindDefaults, Surroundings
from grove.podgrouper.kind_defaults import ConfigMap, UnreadableDefaults, kind_defaults
from grove.podgrouper.kinds import PRIORITY_CLASSES, PriorityClass
from grove.runtime.resource import namespaced_name
from grove.runtime.store import Store

_log = structlog.get_logger(__name__)


class SurroundingsObserver:
    """The surroundings as they are now. `defaults` holds the ConfigMap with the defaults, and nothing else."""

    def __init__(self, stores: Stores, defaults: Store[ConfigMap] | None = None) -> None:
        self.current = Surroundings()
        self._told: list[Callable[[], None]] = []
        self._classes = stores.add(PRIORITY_CLASSES)
        self._defaults = defaults
        self._classes.subscribe(self._class_changed)
        if defaults is not None:
            defaults.subscribe(self._defaults_changed)

    def subscribe(self, told: Callable[[], None]) -> None:
        """Calls `told()` whenever groups may have to be described anew."""
        self._told.append(told)

    async def wait_synced(self) -> None:
        """Waits for what is looked at here: without it groups would be described wrongly and corrected at once."""
        await self._classes.wait_synced()
        if self._defaults is not None:
            await self._defaults.wait_synced()

    def _class_changed(self, old: PriorityClass | None, new: PriorityClass | None) -> None:
        if (old is None) != (new is None):
            names = frozenset(each.metadata.name for each in self._classes.all())
            self._become(replace(self.current, priority_classes=names))

    def _defaults_changed(self, old: ConfigMap | None, new: ConfigMap | None) -> None:
        found = _read(new) if new else {}
        if found != self.current.kinds:
            self._become(replace(self.current, kinds=found))

    def _become(self, surroundings: Surroundings) -> None:
        self.current = surroundings
        for told in self._told:
            told()


def _read(source: ConfigMap) -> Mapping[str, KindDefaults]:
    try:
        return kind_defaults(source.data)
    except UnreadableDefaults as error:
        _log.error("defaults per kind cannot be read", config_map=namespaced_name(source), problem=str(error))
        return {}
