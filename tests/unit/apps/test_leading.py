"""A lease is let go in an order in which the writes of two processes cannot meet."""

from __future__ import annotations

import asyncio
from contextlib import AbstractAsyncContextManager

import pytest

from grove.apps.leading import LeaseLost, lead
from grove.runtime import errors, requests
from grove.runtime.client import Client
from grove.runtime.leader import LeaderElector, LeaseSettings
from grove.runtime.queue import WorkQueue
from grove.runtime.resource import Resource
from grove.runtime.transport import HttpRequest, HttpResponse, HttpStream, TransportError
from grove.runtime.worker import DONE, Controller, Result
from grove.testing import ApiServer, SimClock, simulate

CONFIG_MAPS = Resource("", "v1", "configmaps", "ConfigMap", dict)
SLOW = 3.0


class SlowLine:
    """A way to the server on which creations take their time; it can be closed, and leases can be kept off it."""

    def __init__(self, server: ApiServer, creation: float) -> None:
        self._inner = server.transport()
        self._creation = creation
        self._closed = asyncio.Event()
        self.leases_pass = True
        self.closed_at = 0.0

    async def request(self, request: HttpRequest) -> HttpResponse:
        if "leases" in request.path:
            if not self.leases_pass:
                raise TransportError("cut")
        elif request.method == "POST":
            await self._travel()
        return await self._inner.request(request)

    async def _travel(self) -> None:
        try:
            async with asyncio.timeout(self._creation):
                await self._closed.wait()
        except TimeoutError:
            return
        raise TransportError("the line was closed")

    def stream(self, request: HttpRequest) -> AbstractAsyncContextManager[HttpStream]:
        return self._inner.stream(request)

    async def close(self) -> None:
        self.closed_at = asyncio.get_running_loop().time()
        self._closed.set()


class Process:
    """One program that creates a config map for every key it is given, while it leads."""

    def __init__(self, server: ApiServer, name: str, creation: float = SLOW) -> None:
        self.line = SlowLine(server, creation)
        self.elector = LeaderElector(Client(self.line), LeaseSettings("default", "op", name), clock=SimClock())
        self.client = Client(self.line, fence=self.elector.fence)
        self.queue: WorkQueue[str] = WorkQueue()
        controller = Controller("sample", self.queue, self._reconcile)
        self.task = asyncio.create_task(lead(self.elector, controller.run, self.line))

    async def _reconcile(self, key: str) -> Result:
        body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": key, "namespace": "default"}}
        await self.client.send(requests.create(CONFIG_MAPS, body))
        return DONE

    async def begin(self, key: str) -> None:
        """Leads, and has the creation for this key under way."""
        await self.elector.wait_leading()
        self.queue.add(key)
        await asyncio.sleep(1)


def test_a_stop_gives_the_lease_back_when_the_last_write_has_ended() -> None:
    async def scenario() -> list[str]:
        server = ApiServer()
        process = Process(server, "first")
        await process.begin("a")
        process.task.cancel()
        await asyncio.gather(process.task, return_exceptions=True)
        assert server.object("v1", "ConfigMap", "a", "default") is not None
        lease = server.object("coordination.k8s.io/v1", "Lease", "op", "default")
        assert lease is not None
        assert not lease["spec"].get("holderIdentity")
        return [entry.resource for entry in server.log.writes()][-2:]

    assert simulate(scenario()) == ["configmaps", "leases"]


def test_a_stopped_leader_is_followed_at_once() -> None:
    async def scenario() -> float:
        server = ApiServer()
        first = Process(server, "first")
        await first.elector.wait_leading()
        second = Process(server, "second")
        await asyncio.sleep(20)
        stopped = asyncio.get_running_loop().time()
        first.task.cancel()
        await second.elector.wait_leading()
        return asyncio.get_running_loop().time() - stopped

    assert simulate(scenario()) < 2


def test_a_write_under_way_when_the_lease_is_lost_is_abandoned_before_anybody_else_leads() -> None:
    async def scenario() -> tuple[float, float]:
        server = ApiServer()
        first = Process(server, "first", creation=28.0)
        await first.begin("a")
        second = Process(server, "second")
        first.line.leases_pass = False
        with pytest.raises(LeaseLost):
            await first.task
        await second.elector.wait_leading()
        taken = asyncio.get_running_loop().time()
        await asyncio.sleep(60)
        assert server.object("v1", "ConfigMap", "a", "default") is None
        with pytest.raises(errors.Fenced):
            await first._reconcile("b")
        return first.line.closed_at, taken

    closed, taken = simulate(scenario())
    assert closed + 3 < taken


def test_work_that_fails_ends_the_process_with_its_error() -> None:
    async def scenario() -> None:
        server = ApiServer()
        line = SlowLine(server, SLOW)
        elector = LeaderElector(Client(line), LeaseSettings("default", "op", "first"), clock=SimClock())

        async def work() -> None:
            raise RuntimeError("no good")

        with pytest.raises(RuntimeError, match="no good"):
            await lead(elector, work, line)
        lease = server.object("coordination.k8s.io/v1", "Lease", "op", "default")
        assert lease is not None
        assert not lease["spec"].get("holderIdentity"), "given back"

    simulate(scenario())
