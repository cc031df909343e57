"""What the cluster serves of what MNNVL needs, known at any moment and asked for only when it may have changed.

ComputeDomains are cached, and their cache notices when the kind comes or goes. The version of ResourceClaims is asked
for at the start and whenever the API server registers or withdraws a version of their group; an answer that does not
come is asked for again, and until then what was known counts.
"""

from __future__ import annotations

import asyncio

import structlog

from grove.api.devices import DEVICES_GROUP, RESOURCE_CLAIMS, ComputeDomain
from grove.plan.mnnvl import Apis
from grove.runtime import errors
from grove.runtime.client import Client
from grove.runtime.discovery import Discovery
from grove.runtime.store import Store

_FIRST_PAUSE = 1.0
_LONGEST_PAUSE = 30.0
_log = structlog.get_logger(__name__)


class DeviceApis:
    """The APIs as they are served now."""

    def __init__(self, client: Client, domains: Store[ComputeDomain]) -> None:
        self._domains = domains
        self._discovery = Discovery(client)
        self._version: str | None = None
        self._asked = False
        self._news = asyncio.Event()
        self._news.set()
        self._moved = asyncio.Event()

    @property
    def current(self) -> Apis:
        return Apis(self._domains.synced and self._domains.served, self._version)

    @property
    def known(self) -> bool:
        """Whether `current` rests on answers: before the first ones it says that nothing is there."""
        return self._domains.synced and self._asked

    def api_changed(self, group: str) -> None:
        """A version of this group was registered or withdrawn."""
        if group == DEVICES_GROUP:
            self._news.set()

    async def keep(self) -> None:
        """Keeps `current` true until cancelled."""
        pause = _FIRST_PAUSE
        while True:
            await self._news.wait()
            self._news.clear()
            if await self._look():
                pause = _FIRST_PAUSE
                continue
            self._news.set()
            await asyncio.sleep(pause)
            pause = min(2 * pause, _LONGEST_PAUSE)

    async def claims_version(self, other_than: str | None = None) -> str:
        """The newest served version of ResourceClaims, once there is one and it is another than this."""
        while self._version is None or self._version == other_than:
            self._moved.clear()
            await self._moved.wait()
        return self._version

    async def _look(self) -> bool:
        self._discovery.refresh()
        try:
            version = await self._discovery.newest(DEVICES_GROUP, RESOURCE_CLAIMS.plural)
        except errors.ApiError as error:
            _log.info("discovery failed", error=str(error))
            return False
        self._asked = True
        if version != self._version:
            self._version = version
            self._moved.set()
        return True
