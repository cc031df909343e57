"""Moves ComputeDomains and their claims to the PodGang they go with, and makes again what somebody removed.

One key per PodGang. Awake are gangs that appeared or changed, gangs one of whose domains or claims changed, and gangs a
clique has come for. The caches of domains and claims are this controller's own and are filled while it runs, because
which API they are read from is found out then; when that changes, they are filled anew.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from typing import Any

import structlog

from grove.api import labels
from grove.api.devices import COMPUTE_DOMAINS, DEVICES_GROUP, RESOURCE_CLAIMS
from grove.api.kinds import POD_CLIQUES, POD_GANGS
from grove.api.pod_clique import PodClique
from grove.api.pod_gang import PodGang
from grove.controllers.apply import Applier
from grove.controllers.stores import BY_REPLICA, Stores, replica_key
from grove.plan import mnnvl, mnnvl_ownership
from grove.plan.actions import Plan
from grove.plan.mnnvl import Apis, ClaimForm
from grove.plan.mnnvl_ownership import GangDomains
from grove.runtime import errors
from grove.runtime.client import Client
from grove.runtime.discovery import Discovery
from grove.runtime.objects import HasMetadata
from grove.runtime.queue import WorkQueue
from grove.runtime.recorder import Recorder, reference
from grove.runtime.resource import namespaced_name
from grove.runtime.store import Store
from grove.runtime.worker import DONE, Controller, ControllerOptions, ReconcileObserver, RequeueAfter, Result

BY_GANG = "pod gang"
LOOK_SECONDS = 5.0
_WAIT_SECONDS = 30.0  # what is in the way is watched; this is for what is not ours to watch
_log = structlog.get_logger(__name__)


class DeviceApis:
    """What the cluster serves of what MNNVL needs, asked again and again: drivers come and go."""

    def __init__(self, client: Client) -> None:
        self.current = Apis()
        self._discovery = Discovery(client)

    async def look(self) -> Apis:
        """Asks now; an answer that does not come leaves what was known."""
        self._discovery.refresh()
        try:
            served = await self._discovery.serves(COMPUTE_DOMAINS)
            version = await self._discovery.newest(DEVICES_GROUP, RESOURCE_CLAIMS.plural)
        except errors.ApiError as error:
            _log.info("discovery failed", error=str(error))
            return self.current
        self.current = Apis(served, version)
        return self.current

    async def keep(self) -> None:
        """Keeps `current` true until cancelled."""
        while True:
            await self.look()
            await asyncio.sleep(LOOK_SECONDS)


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
        self.apis = DeviceApis(client)
        self._client = client
        self._gangs: Store[PodGang] = stores[POD_GANGS]
        self._cliques: Store[PodClique] = stores[POD_CLIQUES]
        self._per_pod = per_pod
        self._recorder = recorder
        self._options: ControllerOptions = {"observer": observer} if observer else {}
        self._devices = Stores()
        self._form = ClaimForm()
        self._gangs.subscribe(self._gang_changed)
        self._cliques.subscribe(self._clique_changed)

    async def run(self) -> None:
        """Works until cancelled, on the newest claims API that is served."""
        while True:
            apis = await self.apis.look()
            if apis.claims_version is None:
                await asyncio.sleep(LOOK_SECONDS)
                continue
            session = asyncio.ensure_future(self._session(apis.claims_version))
            moved = asyncio.ensure_future(self._until_moved(apis.claims_version))
            try:
                await asyncio.wait({session, moved}, return_when=asyncio.FIRST_COMPLETED)
                if session.done():
                    await session
            finally:
                for task in (session, moved):
                    task.cancel()
                await asyncio.gather(session, moved, return_exceptions=True)

    async def _session(self, version: str) -> None:
        self._form = ClaimForm(version, self._per_pod)
        devices = self._devices = Stores()
        for resource in (COMPUTE_DOMAINS, self._form.resource):
            store: Store[Any] = devices.add(resource, managed_only=True)
            store.add_index(BY_GANG, _gang_of)
            store.subscribe(self._device_changed)
        applier = Applier(self._client, devices)
        self.queue = WorkQueue()
        for gang in self._gangs.all():
            self.queue.add(namespaced_name(gang))
        async with asyncio.TaskGroup() as group:
            for reflector in devices.reflectors(self._client):
                group.create_task(reflector.run())
            await devices.wait_synced()
            controller = Controller("mnnvl", self.queue, lambda key: self._reconcile(key, applier), **self._options)
            group.create_task(controller.run())

    async def _until_moved(self, version: str) -> None:
        while True:
            await asyncio.sleep(LOOK_SECONDS)
            if (await self.apis.look()).claims_version not in (version, None):
                return

    async def _reconcile(self, key: str, applier: Applier) -> Result:
        gang = self._gangs.get(key)
        if gang is None or gang.metadata.terminating or not gang.metadata.uid:
            return DONE  # What it owned goes with it.
        world = self._observe(key, gang)
        if not self._devices[COMPUTE_DOMAINS].served:
            return RequeueAfter(LOOK_SECONDS) if mnnvl_ownership.wanted(gang, world.cliques) else DONE
        plan = mnnvl_ownership.plan_gang(world)
        failures = await applier.run(plan)
        self._tell(gang, plan)
        if failures:
            raise failures[0].error
        return RequeueAfter(_WAIT_SECONDS) if plan.waits else DONE

    def _observe(self, key: str, gang: PodGang) -> GangDomains:
        meta = gang.metadata
        marks = meta.labels
        place = replica_key(meta.namespace, marks.get(labels.PART_OF, ""), marks.get(labels.REPLICA_INDEX, ""))
        cliques = list(self._cliques.by_index(BY_REPLICA, place))
        domains, claims = self._devices[COMPUTE_DOMAINS], self._devices[self._form.resource]
        return GangDomains(
            gang=gang,
            cliques=cliques,
            domains={item.metadata.name: item for item in domains.by_index(BY_GANG, key)},
            claims={item.metadata.name: item for item in claims.by_index(BY_GANG, key)},
            form=self._form,
        )

    def _tell(self, gang: PodGang, plan: Plan) -> None:
        for wait in plan.waits if self._recorder else ():
            assert self._recorder is not None
            about = reference(POD_GANGS, gang)
            self._recorder.event(about, wait.why.reason, wait.why.message, type_="Warning", action="Adopt")

    # Who is woken.

    def _gang_changed(self, old: PodGang | None, new: PodGang | None) -> None:
        if new is not None and (old is None or old.metadata.annotations != new.metadata.annotations):
            self.queue.add(namespaced_name(new))

    def _clique_changed(self, old: PodClique | None, new: PodClique | None) -> None:
        if new is None or (old is not None and old.metadata.generation == new.metadata.generation):
            return
        meta = new.metadata
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
