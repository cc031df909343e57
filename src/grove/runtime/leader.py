"""One leader at a time, by a Lease: take it, keep it, notice its loss before anybody else can have it, give it back.

Followers watch the Lease, so a clean release is taken over at once; after a crash they wait until the Lease has not
moved for its whole duration on their own clock. The leader trusts its lease only until `deadline` seconds after it
*began* its last successful renewal, which is earlier than any follower may act: between the two nobody writes.
The elector needs a client without a fence; the operator's own client takes `elector.fence`.
"""

from __future__ import annotations

import asyncio
import contextlib
import math
from dataclasses import dataclass
from typing import Any

import msgspec
import structlog

from grove.runtime import errors, requests
from grove.runtime.client import Client
from grove.runtime.clock import Clock, SystemClock, rfc3339_micro
from grove.runtime.objects import ObjectMeta
from grove.runtime.reflector import Reflector
from grove.runtime.resource import Resource
from grove.runtime.store import Store

_log = structlog.get_logger(__name__)


class LeaseSpec(msgspec.Struct, kw_only=True, frozen=True, rename="camel", gc=False):
    holder_identity: str | None = None
    lease_duration_seconds: int | None = None
    acquire_time: str | None = None
    renew_time: str | None = None
    lease_transitions: int | None = None


class Lease(msgspec.Struct, kw_only=True, frozen=True, gc=False):
    metadata: ObjectMeta
    spec: LeaseSpec = msgspec.field(default_factory=LeaseSpec)


LEASES = Resource("coordination.k8s.io", "v1", "leases", "Lease", Lease)


@dataclass(frozen=True, slots=True)
class LeaseSettings:
    """Which Lease, who we are, and the three times: `retry` < `deadline` < `duration`."""

    namespace: str
    name: str
    identity: str
    duration: float = 15.0
    deadline: float = 10.0
    retry: float = 2.0

    def __post_init__(self) -> None:
        if not 0 < self.retry < self.deadline < self.duration:
            raise ValueError("leader election needs 0 < retry < deadline < duration")

    @property
    def key(self) -> str:
        return f"{self.namespace}/{self.name}"


class LeaderElector:
    """Competes for one Lease."""

    def __init__(self, client: Client, settings: LeaseSettings, *, clock: Clock | None = None) -> None:
        self._client = client
        self._settings = settings
        self._clock = clock or SystemClock()
        self._store = Store(LEASES)
        self._store.subscribe(self._observe)
        self._changed = asyncio.Event()
        self._leading = asyncio.Event()
        self._lost = asyncio.Event()
        self._lost.set()
        self._valid_until = float("-inf")
        self._held: Lease | None = None
        self._seen = ("", "")
        self._seen_at = 0.0

    @property
    def is_leader(self) -> bool:
        return self._leading.is_set() and self.fence()

    def fence(self) -> bool:
        """Whether a write may be sent now: our lease cannot have been taken yet."""
        return asyncio.get_running_loop().time() < self._valid_until

    async def wait_leading(self) -> None:
        await self._leading.wait()

    async def wait_lost(self) -> None:
        await self._lost.wait()

    @property
    def holder(self) -> str:
        """Who holds the Lease as far as we have seen; empty when nobody does."""
        lease = self._store.get(self._settings.key)
        return (lease.spec.holder_identity or "") if lease is not None else ""

    async def run(self) -> None:
        """Competes until cancelled; then gives the Lease back if we hold it."""
        settings = self._settings
        selector = f"metadata.name={settings.name}"
        reflector = Reflector(self._client, self._store, namespace=settings.namespace, field_selector=selector)
        watching = asyncio.create_task(reflector.run(), name="lease-watch")
        try:
            while True:
                await self._follow()
                await self._lead()
        finally:
            watching.cancel()
            await asyncio.gather(watching, return_exceptions=True)
            await self._release()

    # Following

    async def _follow(self) -> None:
        """Returns when we hold the Lease."""
        while True:
            self._changed.clear()
            try:
                async with asyncio.timeout(self._settings.deadline):
                    if await self._acquire():
                        return
            except (errors.ApiError, TimeoutError) as error:
                _log.info("the lease could not be read or taken", lease=self._settings.key, error=repr(error))
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(self._wait_for_expiry()):
                    await self._changed.wait()

    async def _acquire(self) -> bool:
        settings = self._settings
        started = asyncio.get_running_loop().time()
        try:
            lease = await self._client.send(requests.get(LEASES, settings.namespace, settings.name))
        except errors.NotFound:
            body = {"metadata": {"name": settings.name, "namespace": settings.namespace}, "spec": self._claim(None)}
            self._take(await self._client.send(requests.create(LEASES, body)), started)
            return True
        self._observe(None, lease)
        holder = lease.spec.holder_identity
        if holder and holder != settings.identity and not self._expired(lease):
            return False
        self._take(await self._client.send(self._patch(lease, self._claim(lease))), started)
        return True

    def _observe(self, _: Lease | None, lease: Lease | None) -> None:
        """Somebody wrote the Lease; expiry is counted from when we saw it, by our own clock."""
        seen = (lease.metadata.uid, lease.metadata.resource_version) if lease is not None else ("", "")
        if seen != self._seen:
            self._seen = seen
            self._seen_at = asyncio.get_running_loop().time()
        if lease is None or not lease.spec.holder_identity:
            self._changed.set()

    def _expired(self, lease: Lease) -> bool:
        return asyncio.get_running_loop().time() >= self._seen_at + self._duration_of(lease)

    def _wait_for_expiry(self) -> float:
        lease = self._store.get(self._settings.key)
        if lease is None:
            return self._settings.retry
        expiry = self._seen_at + self._duration_of(lease) - asyncio.get_running_loop().time()
        return expiry if expiry > 0 else self._settings.retry

    def _duration_of(self, lease: Lease) -> float:
        return float(lease.spec.lease_duration_seconds or self._settings.duration)

    # Leading

    def _take(self, lease: Lease, started: float) -> None:
        self._held = lease
        self._valid_until = started + self._settings.deadline
        if not self._leading.is_set():
            _log.info("leading", lease=self._settings.key, identity=self._settings.identity)
        self._lost.clear()
        self._leading.set()

    async def _lead(self) -> None:
        """Renews until the lease is lost."""
        loop = asyncio.get_running_loop()
        try:
            while (remaining := self._valid_until - loop.time()) > 0:
                await asyncio.sleep(min(self._settings.retry, remaining))
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout_at(self._valid_until):
                        if not await self._renew():
                            return
        finally:
            self._leading.clear()
            self._lost.set()
        _log.warning("the lease could not be renewed in time", lease=self._settings.key)

    async def _renew(self) -> bool:
        """Whether we still hold the Lease, as far as the server would tell us."""
        if self._held is None:
            return False
        started = asyncio.get_running_loop().time()
        try:
            patch = self._patch(self._held, {"renewTime": rfc3339_micro(self._clock.now())})
            self._take(await self._client.send(patch), started)
        except (errors.Conflict, errors.NotFound):
            return await self._look_again()
        except errors.ApiError as error:
            _log.warning("the lease was not renewed, trying again", lease=self._settings.key, error=str(error))
        return True

    async def _look_again(self) -> bool:
        """Somebody else wrote the Lease, or our own renewal arrived without our seeing the answer."""
        settings = self._settings
        try:
            lease = await self._client.send(requests.get(LEASES, settings.namespace, settings.name))
        except errors.NotFound:
            lease = None
        except errors.ApiError:
            return True
        if lease is not None and lease.spec.holder_identity == settings.identity:
            self._held = lease  # renew from here; our time is not extended by having looked
            return True
        self._valid_until = float("-inf")
        self._held = None
        _log.warning("the lease was taken away", lease=settings.key)
        return False

    async def _release(self) -> None:
        """Hands the Lease over without waiting for it to expire."""
        lease, self._held = self._held, None
        still_ours = self.fence()
        self._valid_until = float("-inf")
        self._leading.clear()
        self._lost.set()
        if lease is None or not still_ours:
            return
        release = {"holderIdentity": None, "renewTime": rfc3339_micro(self._clock.now()), "leaseDurationSeconds": 1}
        with contextlib.suppress(errors.ApiError, TimeoutError):
            async with asyncio.timeout(self._settings.retry):
                await self._client.send(self._patch(lease, release))

    # Writing

    def _claim(self, lease: Lease | None) -> dict[str, Any]:
        settings = self._settings
        now = rfc3339_micro(self._clock.now())
        transitions = 0
        if lease is not None:
            changed = lease.spec.holder_identity != settings.identity
            transitions = (lease.spec.lease_transitions or 0) + changed
        return {
            "holderIdentity": settings.identity,
            "leaseDurationSeconds": math.ceil(settings.duration),
            "acquireTime": now,
            "renewTime": now,
            "leaseTransitions": transitions,
        }

    def _patch(self, lease: Lease, spec: dict[str, Any]) -> requests.Request[Lease]:
        settings = self._settings
        patch = {"metadata": {"resourceVersion": lease.metadata.resource_version}, "spec": spec}
        return requests.merge_patch(LEASES, settings.namespace, settings.name, patch)
