"""Every pod of KAI's to its PodGroup: observe the pod, its owners and its Workload; decide; write.

One key per pod. A pod is looked at again when it, an owner, its Workload or its PodGroup says something new; a pod that
waits for a Workload or for a name costs nothing meanwhile.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Sequence
from weakref import WeakValueDictionary

from grove.api.core import Pod
from grove.api.kinds import POD_GANGS, PODS
from grove.api.reasons import Reason
from grove.controllers.apply import Applier
from grove.controllers.pod_grouper_gangs import PodGroupController
from grove.controllers.pod_grouper_ledger import Ledger
from grove.controllers.pod_grouper_owners import Owners
from grove.controllers.pod_grouper_retirement import BY_GROUP, Retirement
from grove.controllers.pod_grouper_surroundings import SurroundingsObserver
from grove.controllers.pod_grouper_workloads import Workloads
from grove.controllers.stores import Stores
from grove.plan.actions import Action, Why
from grove.podgrouper.grouping import Owner
from grove.podgrouper.kind_defaults import ConfigMap
from grove.podgrouper.kinds import POD_GROUPS, PodGroup
from grove.podgrouper.marks import mark, marks_of, same_but_for_marks
from grove.podgrouper.owners.kubeflow import JOB_NAME, JOB_ROLE
from grove.podgrouper.pod_gang import gang_of
from grove.podgrouper.pod_plan import Place, decide, held_back, ours, placed_by_hand, writes_for_group
from grove.podgrouper.subject import Subject
from grove.podgrouper.workload import Claim, Terms, asks_for_workload, opted_out
from grove.runtime import errors, requests
from grove.runtime.client import Client
from grove.runtime.objects import HasMetadata
from grove.runtime.queue import Priority, WorkQueue
from grove.runtime.recorder import Recorder, reference
from grove.runtime.resource import namespaced_name
from grove.runtime.store import Store
from grove.runtime.worker import DONE, Controller, ControllerOptions, ReconcileObserver, RequeueAfter, Result
from grove.schedulers import kai

BY_JOB = "training job"
BY_NAME = "name"
_OVER = ("Succeeded", "Failed")
_FIRST_LOOK = ""  # the key that stands for "all pods have been placed once"
_FIRST_LOOK_EVERY = 1.0
_UNSERVED_SECONDS = 5.0
WORKERS = 64
_LEADER_LABEL = "leaderworkerset.sigs.k8s.io/worker-index"


class PodGrouper:
    """Pods to PodGroups. Make it before the reflectors of `stores` start: it adds the stores it needs.

    `client` carries the field manager under which PodGroups are applied. `defaults` holds the ConfigMap with defaults
    per kind of owner. `unique_names` lets the PodGroups of Workloads that have one name in two namespaces differ by
    name as well.
    """

    def __init__(
        self,
        client: Client,
        stores: Stores,
        recorder: Recorder | None = None,
        observer: ReconcileObserver | None = None,
        *,
        defaults: Store[ConfigMap] | None = None,
        unique_names: bool = False,
        workers: int = WORKERS,
    ) -> None:
        self.queue: WorkQueue[str] = WorkQueue()
        self._around = SurroundingsObserver(stores, defaults)
        self.gangs = PodGroupController(client, stores, recorder, observer, self._around)
        self._client = client
        self._recorder = recorder
        self._applier = Applier(client, stores)
        self._ledger = Ledger()
        self._pods = stores.add(PODS)
        self._pod_gangs = stores.add(POD_GANGS)
        self._groups = stores.add(POD_GROUPS)
        self._at_work = 0
        self._writing: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()
        self.retirement = Retirement(self._applier, stores, self._ledger)
        self._workloads = Workloads(stores, self.queue.add, unique_names=unique_names)
        self._owners = Owners(client, self._pods, self._owner_changed)
        self._stores = stores
        self._pods.add_index(BY_JOB, _job_of)
        self._groups.add_index(BY_NAME, lambda group: (group.metadata.name,))
        self._pods.subscribe(self._pod_changed)
        self._groups.subscribe(self._group_changed)
        self._around.subscribe(self._surroundings_changed)
        options: ControllerOptions = {"observer": observer} if observer else {}
        self._controller: Controller[str] = Controller(
            "pod-grouper", self.queue, self.reconcile, workers=workers, **options
        )

    async def run(self) -> None:
        """Works until cancelled."""
        await self._stores.wait_synced()
        await self._around.wait_synced()
        self.queue.add(_FIRST_LOOK, Priority.LOW)
        try:
            async with asyncio.TaskGroup() as tasks:
                tasks.create_task(self.gangs.run())
                tasks.create_task(self._controller.run())
                tasks.create_task(self.retirement.run())
        finally:
            await self._owners.close()

    async def reconcile(self, key: str) -> Result:
        """Brings one pod to its PodGroup."""
        if key == _FIRST_LOOK:
            return self._first_look()
        self._at_work += 1
        try:
            return await self._group(key)
        finally:
            self._at_work -= 1

    async def _group(self, key: str) -> Result:
        pod = self._pods.get(key)
        if pod is None or not _alive(pod) or pod.spec.scheduler_name != kai.NAME:
            self._hand_over(key)
            return DONE
        if not self._groups.served:
            return RequeueAfter(_UNSERVED_SECONDS)
        claim = self._workloads.claim(pod)
        asking = claim if asks_for_workload(pod) else None
        if placed_by_hand(pod, claim) or (asking is None and gang_of(pod)):
            return DONE  # somebody else's, or kept with its gang
        owners = await self._owners.above(pod)
        if isinstance(owners, Why):
            return await self._hold(pod, asking, owners)
        place = self._place(pod, owners, asking)
        if isinstance(place, Place):
            self._ledger.means(key, place.key)
            refusal = await self._ensure(place, pod)
            if refusal is None:
                return await self._mark(key, place)
            self._ledger.wait(place.key, key)
            place = refusal
        return await self._hold(pod, asking, place)

    def _first_look(self) -> Result:
        """Only when the pods have been placed is it known which groups nobody uses."""
        if len(self.queue) or self._at_work:
            return RequeueAfter(_FIRST_LOOK_EVERY)
        self.retirement.look_at_all()
        return DONE

    def _place(self, pod: Pod, owners: tuple[Owner, ...], claim: Claim | None) -> Place | Why:
        subject = Subject(pod, owners, self._around.current, self._roles(pod))
        terms: Terms | Why | None = None
        if claim is not None and not opted_out(pod, subject.top):
            terms = self._workloads.terms(claim)
        uids = [owner.uid for owner in owners]
        if isinstance(terms, Terms):
            uids.append(terms.owner.uid)
        self._ledger.stands_under(namespaced_name(pod), (pod.metadata.uid, *uids))
        gang = gang_of(pod)
        return decide(subject, terms, self._pod_gangs.get(gang) if gang else None)

    def _roles(self, pod: Pod) -> frozenset[str]:
        """The roles of the training job's living pods, where the pod is of one."""
        return frozenset(
            peer.metadata.labels.get(JOB_ROLE, "")
            for job in _job_of(pod)
            for peer in self._pods.by_index(BY_JOB, job)
            if not peer.metadata.terminating
        )

    async def _ensure(self, place: Place, pod: Pod) -> Why | None:
        """Makes or corrects the PodGroup; pods that need the same group at once let one of them write it."""
        describes = self._ledger.describes(place.key, pod)
        writes = writes_for_group(place, self._groups.get(place.key), describes=describes)
        if isinstance(writes, Why):
            return writes
        if not writes:
            return None
        lock = self._writing.get(place.key)
        if lock is None:
            lock = self._writing[place.key] = asyncio.Lock()
        async with lock:
            stored = self._groups.get(place.key)
            if stored is None and place.terms is not None:
                self._warn_of_namesakes(place, pod)
                stored = await self._look(place)
            writes = writes_for_group(place, stored, describes=describes)
            if isinstance(writes, Why):
                return writes
            await self._write(pod, writes)
        return None

    async def _look(self, place: Place) -> PodGroup | None:
        """A name that is not ours alone is looked up before it is taken: applying would join two groups in silence."""
        try:
            found = await self._client.send(requests.get(POD_GROUPS, place.namespace, place.name))
        except errors.NotFound:
            return None
        self._groups.overlay(found)
        return found

    def _warn_of_namesakes(self, place: Place, pod: Pod) -> None:
        """KAI before 0.14 looks PodGroups up by name alone: two of one name are scheduled as if they were one."""
        namesakes = {group.metadata.namespace for group in self._groups.by_index(BY_NAME, place.name)}
        namesakes.discard(place.namespace)
        if namesakes:
            message = f"PodGroup {place.name} also exists in namespace {', '.join(sorted(namesakes))}"
            self._tell(pod, Why(Reason.GROUP_NAME_SHARED, message))

    async def _mark(self, key: str, place: Place) -> Result:
        pod = self._pods.get(key)
        patch = mark(pod, place.name, place.part) if pod else None
        if pod is not None and patch is not None:
            self._ledger.placed[key] = (place.name, place.part or None)
            self._note_present(pod)
            await self._write(pod, [patch])
        self._leave(key, place.key)
        return DONE

    def _note_present(self, pod: Pod) -> None:
        """What the pod points at now it will have left once the write is done."""
        left = pod.metadata.annotations.get(kai.POD_GROUP_ANNOTATION)
        if left is not None:
            self._ledger.means(namespaced_name(pod), f"{pod.metadata.namespace}/{left}")

    def _leave(self, key: str, group: str | None) -> None:
        for left in self._ledger.passed_by(key, group):
            self.retirement.left(left)

    async def _hold(self, pod: Pod, claim: Claim | None, why: Why) -> Result:
        """The pod stays pending, says why, and leaves a group in which it would be scheduled alone."""
        self._tell(pod, why)
        patch = held_back(pod, claim, why)
        if patch is not None:
            self._note_present(pod)
            await self._write(pod, [patch])
        self._leave(namespaced_name(pod), None)
        return DONE

    def _tell(self, pod: Pod, why: Why) -> None:
        if self._recorder is not None:
            self._recorder.event(reference(PODS, pod), why.reason, why.message, type_="Warning", action="Group")

    async def _write(self, pod: Pod, actions: Sequence[Action]) -> None:
        for failure in await self._applier.write(actions):
            if isinstance(failure.error, errors.NotFound) and failure.subject == pod.metadata.name:
                continue  # the pod went meanwhile
            if not failure.stale:
                self._tell(pod, Why(Reason.WRITE_REFUSED, str(failure)))
            raise failure.error

    # What wakes a pod

    def _pod_changed(self, old: Pod | None, new: Pod | None) -> None:
        if new is None:
            assert old is not None
            self._ledger.forget(namespaced_name(old))
        elif old is None or not (_same_wishes(old, new) and self._marked_by_us(old, new)):
            self.queue.add(namespaced_name(new))
            if old is not None:
                self._owner_changed(new.metadata.uid)  # pods may own others: leaders, drivers
        changed = new or old
        if (old is None or new is None) and changed is not None:
            for job in _job_of(changed):  # a launcher that comes or goes changes what its workers need
                self._wake(self._pods.by_index(BY_JOB, job))

    def _marked_by_us(self, old: Pod, new: Pod) -> bool:
        """Whether the pod's marks are as before, or as just written: neither is news."""
        marks = marks_of(new)
        return marks == marks_of(old) or marks == self._ledger.placed.get(namespaced_name(new))

    def _owner_changed(self, uid: str) -> None:
        for key in self._ledger.under(uid):
            self.queue.add(key)

    def _group_changed(self, old: PodGroup | None, new: PodGroup | None) -> None:
        if old is not None and new is not None and _same_group(old, new):
            return
        changed = new or old
        assert changed is not None
        group = namespaced_name(changed)
        if ours(changed):
            self._describe_again(group)
        for key in self._ledger.released(group):
            self.queue.add(key)

    def _surroundings_changed(self) -> None:
        for group in self._groups.all():
            if ours(group):
                self._describe_again(namespaced_name(group))

    def _describe_again(self, group: str) -> None:
        """Wakes the pod that describes the group, or the one that is to do it from now on."""
        describer = self._ledger.describer(group)
        if describer is None:
            living = [pod for pod in self._pods.by_index(BY_GROUP, group) if _alive(pod)]
            oldest = min(
                living, key=lambda pod: (pod.metadata.creation_timestamp or "", pod.metadata.name), default=None
            )
            describer = namespaced_name(oldest) if oldest else None
        if describer is not None:
            self.queue.add(describer)

    def _hand_over(self, key: str) -> None:
        """A pod that is over has no say; others of its group may have waited for its word."""
        group = self._ledger.yields(key)
        if group is not None:
            self._describe_again(group)

    def _wake(self, pods: Iterable[Pod]) -> None:
        for pod in pods:
            self.queue.add(namespaced_name(pod))


def _alive(pod: Pod) -> bool:
    return not pod.metadata.terminating and pod.status.phase not in _OVER


def _job_of(pod: Pod) -> Iterable[str]:
    name = pod.metadata.labels.get(JOB_NAME)
    return (f"{pod.metadata.namespace}/{name}",) if name else ()


def _same_wishes(old: Pod, new: Pod) -> bool:
    before, after = old.metadata, new.metadata
    return (
        same_but_for_marks(old, new)
        and before.owner_references == after.owner_references
        and (old.spec.node_name == new.spec.node_name or _LEADER_LABEL not in after.labels)
    )


def _same_group(old: PodGroup, new: PodGroup) -> bool:
    """Whether only its status differs."""
    return old.spec == new.spec and _described(old) == _described(new)


def _described(group: HasMetadata) -> tuple[object, ...]:
    meta = group.metadata
    return meta.labels, meta.annotations, meta.owner_references
