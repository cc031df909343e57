"""Removes PodGroups that living pods have left: after an opt-out, a Workload made anew, a corrected owner.

A group goes when no pod points at it any more while its owner still has pods; a group whose owner has none is the
garbage collector's, and one that no pod-grouper made is nobody's business here. One look at everything after the start
finds what an earlier process left undone.
"""

from __future__ import annotations

from collections.abc import Iterable

from grove.api.core import Pod
from grove.api.kinds import PODS
from grove.controllers.apply import Applier
from grove.controllers.pod_grouper_ledger import Ledger
from grove.controllers.stores import Stores
from grove.podgrouper.kinds import POD_GROUPS
from grove.podgrouper.pod_plan import ours, retirement
from grove.runtime.queue import WorkQueue
from grove.runtime.resource import namespaced_name
from grove.runtime.worker import DONE, Controller, Result
from grove.schedulers import kai

BY_GROUP = "pod group"
_WORKERS = 4


class Retirement:
    """One key per PodGroup that may have become empty."""

    def __init__(self, applier: Applier, stores: Stores, ledger: Ledger) -> None:
        self.queue: WorkQueue[str] = WorkQueue()
        self._applier = applier
        self._ledger = ledger
        self._pods = stores.add(PODS)
        self._groups = stores.add(POD_GROUPS)
        self._left: set[str] = set()
        self._pods.add_index(BY_GROUP, _group_of)
        self._pods.subscribe(self._pod_changed)
        self._controller: Controller[str] = Controller(
            "pod-group-retirement", self.queue, self.retire, workers=_WORKERS
        )

    def left(self, group: str) -> None:
        """A living pod has moved from this group to another."""
        self._left.add(group)
        self.queue.add(group)

    def look_at_all(self) -> None:
        """Looks at every group there is."""
        for group in self._groups.all():
            self.queue.add(namespaced_name(group))

    async def run(self) -> None:
        await self._controller.run()

    async def retire(self, key: str) -> Result:
        group = self._groups.get(key)
        if group is None or not ours(group):
            self._left.discard(key)
            return DONE
        if self._pods.by_index(BY_GROUP, key):
            return DONE
        self._left.discard(key)
        if any(self._ledger.under(owner.uid) for owner in group.metadata.owner_references):
            for failure in await self._applier.write([retirement(group)]):
                raise failure.error
        return DONE

    def _pod_changed(self, old: Pod | None, new: Pod | None) -> None:
        if new is None and old is not None and self._left:
            for group in _group_of(old):
                if group in self._left:
                    self.queue.add(group)


def _group_of(pod: Pod) -> Iterable[str]:
    name = pod.metadata.annotations.get(kai.POD_GROUP_ANNOTATION)
    return (f"{pod.metadata.namespace}/{name}",) if name else ()
