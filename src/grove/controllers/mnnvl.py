"""Moves ComputeDomains and their claims to the PodGang they go with, makes again what somebody removed, and removes
what nobody came for.

One key per PodGang, whether it stands or not. Awake are gangs that came, went or changed, gangs one of whose domains or
claims changed, gangs a clique has come or gone for, and gangs that domains of a set still wait for when the set or one
of its groups is scaled. Domains are cached with everything else; the cache of claims is this controller's own and is
filled while it runs, because which version they are read in may change; then it is filled anew.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from typing import Any

from grove.api import labels
from grove.api.devices import COMPUTE_DOMAINS, RESOURCE_CLAIMS, ComputeDomain, DeviceClaim
from grove.api.kinds import POD_CLIQUE_SETS, POD_CLIQUES, POD_GANGS, SCALING_GROUPS
from grove.api.pod_clique import PodClique
from grove.api.pod_clique_set import PodCliqueSet
from grove.api.pod_gang import PodGang
from grove.api.scaling_group import ScalingGroup
from grove.controllers.apply import Applier
from grove.controllers.device_apis import DeviceApis
from grove.controllers.stores import BY_REPLICA, Stores, replica_key, set_key
from grove.plan import mnnvl, mnnvl_leftovers, mnnvl_ownership
from grove.plan.actions import Plan
from grove.plan.mnnvl import ClaimForm
from grove.plan.mnnvl_leftovers import Unclaimed
from grove.plan.mnnvl_ownership import GangDomains
from grove.plan.turn import selected_replicas
from grove.runtime.client import Client
from grove.runtime.objects import HasMetadata
from grove.runtime.queue import WorkQueue
from grove.runtime.recorder import Recorder, reference
from grove.runtime.resource import namespaced_name
from grove.runtime.store import Store
from grove.runtime.worker import DONE, Controller, ControllerOptions, ReconcileObserver, RequeueAfter, Result

BY_GANG = "pod gang"
BY_WAITING_SET = "set it waits in"
_WAIT_SECONDS = 30.0  # what is in the way is watched; this is for what is not ours to watch


def add_stores(stores: Stores) -> None:
    domains: Store[Any] = stores.add(COMPUTE_DOMAINS, managed_only=True)
    _index(domains)


def _index(devices: Store[Any]) -> None:
    devices.add_index(BY_GANG, _gang_of)
    devices.add_index(BY_WAITING_SET, _set_it_waits_in)


class MnnvlController:
    """PodGangs and the domains that go with them."""

    def __init__(
        self,
        client: Client,
        stores: Stores,
        *,
        per_pod: bool = False,
        recorder: Recorder | None = None,
        observer: ReconcileObserver | None = None,
    ) -> None:
        self.queue: WorkQueue[str] = WorkQueue()
        self.apis = DeviceApis(client, stores[COMPUTE_DOMAINS])
        self._client = client
        self._sets: Store[PodCliqueSet] = stores[POD_CLIQUE_SETS]
        self._groups: Store[ScalingGroup] = stores[SCALING_GROUPS]
        self._gangs: Store[PodGang] = stores[POD_GANGS]
        self._cliques: Store[PodClique] = stores[POD_CLIQUES]
        self._domains: Store[ComputeDomain] = stores[COMPUTE_DOMAINS]
        self._claims: Store[DeviceClaim] = Store(RESOURCE_CLAIMS)
        _index(self._claims)
        self._per_pod = per_pod
        self._recorder = recorder
        self._options: ControllerOptions = {"observer": observer} if observer else {}
        self._form = ClaimForm()
        self._sets.subscribe(self._set_changed)
        self._groups.subscribe(self._group_changed)
        self._gangs.subscribe(self._gang_changed)
        self._cliques.subscribe(self._clique_changed)
        self._domains.subscribe(self._device_changed)
        self._domains.when_served(self._wake_everything)

    async def run(self) -> None:
        """Works until cancelled, on the newest claims API that is served."""
        version = await self.apis.claims_version()
        while True:
            session = asyncio.ensure_future(self._session(version))
            moved = asyncio.ensure_future(self.apis.claims_version(other_than=version))
            try:
                await asyncio.wait({session, moved}, return_when=asyncio.FIRST_COMPLETED)
                if session.done():
                    await session
                version = await moved
            finally:
                for task in (session, moved):
                    task.cancel()
                await asyncio.gather(session, moved, return_exceptions=True)

    async def _session(self, version: str) -> None:
        self._form = ClaimForm(version, self._per_pod)
        devices = Stores(self._domains)
        claims: Store[Any] = devices.add(self._form.resource, managed_only=True)
        _index(claims)
        claims.subscribe(self._device_changed)
        self._claims = claims
        applier = Applier(self._client, devices)
        self.queue = WorkQueue()
        self._wake_everything()
        async with asyncio.TaskGroup() as group:
            for reflector in devices.reflectors(self._client):
                group.create_task(reflector.run())
            await devices.wait_synced()
            controller = Controller("mnnvl", self.queue, lambda key: self._reconcile(key, applier), **self._options)
            group.create_task(controller.run())

    async def _reconcile(self, key: str, applier: Applier) -> Result:
        if not self._domains.served:
            return DONE  # Everything is looked at again when the kind is there.
        gang = self._gangs.get(key)
        if gang is None:
            return await self._settle(self._leftovers(key), applier)
        if gang.metadata.terminating or not gang.metadata.uid:
            return DONE  # What it owned goes with it.
        plan = mnnvl_ownership.plan_gang(self._observe(key, gang))
        self._tell(gang, plan)
        return await self._settle(plan, applier)

    async def _settle(self, plan: Plan, applier: Applier) -> Result:
        failures = await applier.run(plan)
        if failures:
            raise failures[0].error
        return RequeueAfter(_WAIT_SECONDS) if plan.waits else DONE

    def _leftovers(self, key: str) -> Plan:
        """What is to become of things made for a PodGang that does not stand."""
        domains, claims = self._domains.by_index(BY_GANG, key), self._claims.by_index(BY_GANG, key)
        meta = next((item.metadata for devices in (domains, claims) for item in devices), None)
        if meta is None:
            return Plan()
        owner = self._sets.get(set_key(meta.namespace, meta.labels.get(labels.SHORT_SET, "")))
        if owner is None or owner.metadata.terminating:
            return Plan()  # The garbage collector takes what belonged to it.
        place = replica_key(meta.namespace, owner.metadata.name, meta.labels.get(labels.SHORT_REPLICA, ""))
        return mnnvl_leftovers.plan_leftovers(
            Unclaimed(
                gang=key.partition("/")[2],
                owner=owner,
                cliques=tuple(self._cliques.by_index(BY_REPLICA, place)),
                groups=tuple(self._groups.by_index(BY_REPLICA, place)),
                domains=tuple(domains),
                claims=tuple(claims),
                claim_resource=self._form.resource,
            )
        )

    def _observe(self, key: str, gang: PodGang) -> GangDomains:
        meta = gang.metadata
        marks = meta.labels
        place = replica_key(meta.namespace, marks.get(labels.PART_OF, ""), marks.get(labels.REPLICA_INDEX, ""))
        cliques = list(self._cliques.by_index(BY_REPLICA, place))
        return GangDomains(
            gang=gang,
            cliques=cliques,
            domains={item.metadata.name: item for item in self._domains.by_index(BY_GANG, key)},
            claims={item.metadata.name: item for item in self._claims.by_index(BY_GANG, key)},
            form=self._form,
        )

    def _tell(self, gang: PodGang, plan: Plan) -> None:
        for wait in plan.waits if self._recorder else ():
            assert self._recorder is not None
            about = reference(POD_GANGS, gang)
            self._recorder.event(about, wait.why.reason, wait.why.message, type_="Warning", action="Adopt")

    # Who is woken.

    def _wake_everything(self) -> None:
        for gang in self._gangs.all():
            self.queue.add(namespaced_name(gang))
        for devices in (self._domains, self._claims):
            for item in devices.all():
                self._device_changed(None, item)

    def _set_changed(self, old: PodCliqueSet | None, new: PodCliqueSet | None) -> None:
        """What is asked for changes with the replicas, and with what an update works on."""
        if old is None or new is None:
            return
        if old.spec.replicas != new.spec.replicas or selected_replicas(old) != selected_replicas(new):
            self._wake_waiting(namespaced_name(new))

    def _group_changed(self, old: ScalingGroup | None, new: ScalingGroup | None) -> None:
        item = new or old
        if item is not None and (old is None or new is None or old.spec.replicas != new.spec.replicas):
            self._wake_waiting(set_key(item.metadata.namespace, item.metadata.labels.get(labels.PART_OF, "")))

    def _wake_waiting(self, owner: str) -> None:
        for devices in (self._domains, self._claims):
            for item in devices.by_index(BY_WAITING_SET, owner):
                self._device_changed(None, item)

    def _gang_changed(self, old: PodGang | None, new: PodGang | None) -> None:
        item = new or old
        if item is not None and (old is None or new is None or old.metadata.annotations != new.metadata.annotations):
            self.queue.add(namespaced_name(item))

    def _clique_changed(self, old: PodClique | None, new: PodClique | None) -> None:
        if old is not None and new is not None and old.metadata.generation == new.metadata.generation:
            return
        item = new or old
        assert item is not None
        meta = item.metadata
        if own := meta.labels.get(labels.POD_GANG):
            self.queue.add(f"{meta.namespace}/{own}")
        if mnnvl.enabled(meta.annotations):
            try:
                domain = mnnvl.domain_of(meta.namespace, meta.labels, meta.annotations)
            except mnnvl.Unplaceable:
                return
            self.queue.add(f"{meta.namespace}/{domain.gang}")

    def _device_changed(self, old: HasMetadata | None, new: HasMetadata | None) -> None:
        for item in (old, new):
            for key in _gang_of(item) if item else ():
                self.queue.add(key)


def _gang_of(item: HasMetadata) -> Iterable[str]:
    name = item.metadata.labels.get(labels.POD_GANG)
    return (f"{item.metadata.namespace}/{name}",) if name else ()


def _set_it_waits_in(item: HasMetadata) -> Iterable[str]:
    """The set that still owns it, because no PodGang has taken it over; at rest there is none."""
    holder = mnnvl_ownership.held_by(item.metadata, POD_CLIQUE_SETS)
    return (set_key(item.metadata.namespace, holder.name),) if holder else ()
