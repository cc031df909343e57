"""Keeps the KAI PodGroup of every PodGang that KAI schedules, and the marks of its pods.

One key per PodGang. Awake are keys whose gang changed, whose PodGroup was touched or is missing when a pod appears, and
whose pod lacks its marks; at rest nothing is written and no pod event costs more than a few lookups.
"""

from __future__ import annotations

from collections.abc import Iterable

from grove.api import labels
from grove.api.core import Pod
from grove.api.kinds import POD_GANGS, PODS
from grove.api.pod_gang import PodGang
from grove.controllers.apply import Applier
from grove.controllers.pod_grouper_surroundings import SurroundingsObserver
from grove.controllers.stores import Stores
from grove.plan.actions import Plan
from grove.podgrouper.gang_plan import GangWorld, plan_gang
from grove.podgrouper.kinds import POD_GROUPS, PodGroup
from grove.podgrouper.pod_gang import gang_of
from grove.runtime.client import Client
from grove.runtime.queue import WorkQueue
from grove.runtime.recorder import Recorder, reference
from grove.runtime.resource import namespaced_name
from grove.runtime.store import Store
from grove.runtime.worker import DONE, Controller, ControllerOptions, ReconcileObserver, RequeueAfter, Result
from grove.schedulers import kai

BY_GANG = "pod gang"
_UNSERVED_SECONDS = 5.0  # KAI's kinds may be installed after us


class PodGroupController:
    """PodGangs to PodGroups. Make it before the reflectors of `stores` start: it adds the stores it needs.

    `client` carries the field manager under which PodGroups are applied.
    """

    def __init__(
        self,
        client: Client,
        stores: Stores,
        recorder: Recorder | None = None,
        observer: ReconcileObserver | None = None,
        surroundings: SurroundingsObserver | None = None,
    ) -> None:
        self.queue: WorkQueue[str] = WorkQueue()
        self._stores = stores
        self._applier = Applier(client, stores)
        self._recorder = recorder
        self._gangs: Store[PodGang] = stores.add(POD_GANGS)
        self._pods: Store[Pod] = stores.add(PODS)
        self._groups: Store[PodGroup] = stores.add(POD_GROUPS)
        self._around = surroundings or SurroundingsObserver(stores)
        self._pods.add_index(BY_GANG, _gang_of)
        self._gangs.subscribe(self._gang_changed)
        self._pods.subscribe(self._pod_changed)
        self._groups.subscribe(self._group_changed)
        self._around.subscribe(self._surroundings_changed)
        options: ControllerOptions = {"observer": observer} if observer else {}
        self._controller: Controller[str] = Controller("pod-group", self.queue, self.reconcile, **options)

    async def run(self) -> None:
        """Works until cancelled."""
        for source in (self._gangs, self._pods, self._groups, self._around):
            await source.wait_synced()
        await self._controller.run()

    async def reconcile(self, key: str) -> Result:
        """Brings one gang's PodGroup to what the gang says."""
        gang = self._gangs.get(key)
        if gang is None:
            return DONE
        if not self._groups.served:
            return RequeueAfter(_UNSERVED_SECONDS)
        plan = plan_gang(self._observe(key, gang))
        self._tell(gang, plan)
        for failure in await self._applier.run(plan):
            raise failure.error
        return DONE

    def _observe(self, key: str, gang: PodGang) -> GangWorld:
        pods = [pod for pod in self._pods.by_index(BY_GANG, key) if not pod.metadata.terminating]
        group = kai.pod_group_name(gang.metadata.name, gang.metadata.uid)
        stored = self._groups.get(f"{gang.metadata.namespace}/{group}")
        return GangWorld(gang, self._first(gang, pods), pods, stored, self._around.current)

    def _first(self, gang: PodGang, pods: list[Pod]) -> Pod | None:
        """The first pod in the gang's own order, so that every pass asks the same pod."""
        for group in gang.spec.podgroups:
            for ref in group.pod_references:
                pod = self._pods.get(f"{ref.namespace}/{ref.name}")
                if pod is not None and ref.namespace == gang.metadata.namespace and not pod.metadata.terminating:
                    return pod
        return min(pods, key=lambda pod: pod.metadata.name, default=None)

    def _tell(self, gang: PodGang, plan: Plan) -> None:
        if self._recorder is not None:
            for wait in plan.waits:
                about = reference(POD_GANGS, gang)
                self._recorder.event(about, wait.why.reason, wait.why.message, type_="Warning", action="Group")

    def _gang_changed(self, old: PodGang | None, new: PodGang | None) -> None:
        if new is None or (old is not None and _same_wishes(old, new)):
            return  # the group of a deleted gang goes with its owner
        if new.metadata.labels.get(labels.SCHEDULER_NAME, kai.NAME) != kai.NAME:
            return
        self.queue.add(namespaced_name(new))

    def _pod_changed(self, old: Pod | None, new: Pod | None) -> None:
        if new is None or new.spec.scheduler_name != kai.NAME:
            return
        group = new.metadata.annotations.get(kai.POD_GROUP_ANNOTATION)
        marked = group is not None and kai.SUBGROUP_LABEL in new.metadata.labels
        if marked and f"{new.metadata.namespace}/{group}" in self._groups:
            return
        for key in _gang_of(new):
            self.queue.add(key)

    def _group_changed(self, old: PodGroup | None, new: PodGroup | None) -> None:
        group = new or old
        assert group is not None
        for owner in group.metadata.owner_references:
            if owner.kind == POD_GANGS.kind and owner.api_version == POD_GANGS.api_version:
                self.queue.add(f"{group.metadata.namespace}/{owner.name}")

    def _surroundings_changed(self) -> None:
        for gang in self._gangs.all():
            self.queue.add(namespaced_name(gang))


def _gang_of(pod: Pod) -> Iterable[str]:
    gang = gang_of(pod)
    return (gang,) if gang else ()


def _same_wishes(old: PodGang, new: PodGang) -> bool:
    before, after = old.metadata, new.metadata
    return (
        before.generation == after.generation
        and before.labels == after.labels
        and before.annotations == after.annotations
        and before.terminating == after.terminating
    )
