from __future__ import annotations

import asyncio
from contextlib import AbstractAsyncContextManager

import pytest
from runtime_fakes import WIDGETS, TinyApi

from grove.runtime import errors, requests
from grove.runtime.client import Client
from grove.runtime.leader import LeaderElector, LeaseSettings
from grove.runtime.transport import HttpRequest, HttpResponse, HttpStream, TransportError
from grove.testing.simloop import SimClock, simulate

PATH = "/apis/coordination.k8s.io/v1/namespaces/ns/leases/op"


class Candidate:
    """An elector in its own task, with a switch that cuts its line to the server."""

    def __init__(self, api: TinyApi, name: str) -> None:
        self.line = Line(api)
        settings = LeaseSettings("ns", "op", name)
        self.elector = LeaderElector(Client(self.line), settings, clock=SimClock())
        self.writer = Client(api, fence=self.elector.fence)
        self.task = asyncio.create_task(self.elector.run(), name=name)

    async def leading(self) -> float:
        await self.elector.wait_leading()
        return asyncio.get_running_loop().time()

    async def stop(self) -> None:
        self.task.cancel()
        await asyncio.gather(self.task, return_exceptions=True)

    async def crash(self) -> None:
        self.line.cut = True
        await self.stop()


class Line:
    """A way to the server that can be cut."""

    def __init__(self, api: TinyApi) -> None:
        self._api = api
        self.cut = False

    async def request(self, request: HttpRequest) -> HttpResponse:
        if self.cut:
            raise TransportError("cut")
        return await self._api.request(request)

    def stream(self, request: HttpRequest) -> AbstractAsyncContextManager[HttpStream]:
        return self._api.stream(request)

    async def close(self) -> None:
        pass


def test_the_first_to_come_leads_and_the_second_waits() -> None:
    async def scenario() -> tuple[bool, bool, str, bool]:
        api = TinyApi()
        first = Candidate(api, "first")
        await first.leading()
        second = Candidate(api, "second")
        await asyncio.sleep(100)
        return first.elector.is_leader, second.elector.is_leader, second.elector.holder, second.elector.fence()

    assert simulate(scenario()) == (True, False, "first", False)


def test_a_clean_stop_is_taken_over_at_once() -> None:
    async def scenario() -> float:
        api = TinyApi()
        first = Candidate(api, "first")
        await first.leading()
        second = Candidate(api, "second")
        await asyncio.sleep(31)
        stopped = asyncio.get_running_loop().time()
        await first.stop()
        assert not first.elector.fence()
        return await second.leading() - stopped

    assert simulate(scenario()) < 1


def test_a_crash_is_taken_over_within_the_lease_time() -> None:
    async def scenario() -> float:
        api = TinyApi()
        first = Candidate(api, "first")
        await first.leading()
        second = Candidate(api, "second")
        await asyncio.sleep(31)
        crashed = asyncio.get_running_loop().time()
        await first.crash()
        return await second.leading() - crashed

    assert 5 < simulate(scenario()) <= 15.1


def test_a_leader_that_cannot_renew_stops_writing_before_anybody_else_may() -> None:
    async def scenario() -> tuple[float, float]:
        api = TinyApi()
        first = Candidate(api, "first")
        await first.leading()
        second = Candidate(api, "second")
        await asyncio.sleep(31)
        first.line.cut = True
        await first.elector.wait_lost()
        lost = asyncio.get_running_loop().time()
        with pytest.raises(errors.Fenced):
            await first.writer.send(requests.create(WIDGETS, {"metadata": {"name": "a", "namespace": "ns"}}))
        return lost, await second.leading()

    lost, taken = simulate(scenario())
    assert taken - lost >= 4


def test_at_no_moment_may_two_write() -> None:
    async def scenario() -> int:
        api = TinyApi()
        candidates = [Candidate(api, name) for name in ("a", "b", "c")]
        handovers = 0
        previous: set[str] = set()
        for tick in range(4000):
            await asyncio.sleep(0.1)
            able = {candidate.task.get_name() for candidate in candidates if candidate.elector.fence()}
            assert len(able) <= 1
            if able and able != previous:
                handovers += 1
                previous = able
            if tick % 300 == 100:  # the leader loses its line for a while
                for candidate in candidates:
                    candidate.line.cut = candidate.elector.is_leader
            if tick % 300 == 299:
                for candidate in candidates:
                    candidate.line.cut = False
        return handovers

    assert simulate(scenario()) > 10


def test_a_lost_leader_competes_again() -> None:
    async def scenario() -> bool:
        api = TinyApi()
        first = Candidate(api, "first")
        await first.leading()
        first.line.cut = True
        await first.elector.wait_lost()
        first.line.cut = False
        await first.leading()
        return first.elector.is_leader

    assert simulate(scenario())


def test_a_renewal_whose_answer_was_lost_keeps_the_lease() -> None:
    async def scenario() -> tuple[bool, int]:
        api = TinyApi()
        first = Candidate(api, "first")
        await first.leading()
        lost = 0

        def lose_answers(request: HttpRequest) -> TransportError | None:
            nonlocal lost
            if request.method == "PATCH" and lost < 3:
                lost += 1
                api._answer(request)
                return TransportError("the answer was lost")
            return None

        api.fault = lose_answers
        await asyncio.sleep(60)
        return first.elector.is_leader, api.objects[PATH]["spec"]["leaseTransitions"]

    assert simulate(scenario()) == (True, 0)


def test_a_lease_taken_by_force_is_given_up_at_once() -> None:
    async def scenario() -> float:
        api = TinyApi()
        first = Candidate(api, "first")
        await first.leading()
        await asyncio.sleep(10)
        held = api.objects[PATH]
        api._store(PATH, {**held, "spec": {**held["spec"], "holderIdentity": "thief"}}, "MODIFIED")
        taken = asyncio.get_running_loop().time()
        await first.elector.wait_lost()
        assert not first.elector.fence()
        return asyncio.get_running_loop().time() - taken

    assert simulate(scenario()) <= 2


def test_times_in_the_wrong_order_are_refused() -> None:
    with pytest.raises(ValueError, match="retry < deadline < duration"):
        LeaseSettings("ns", "op", "me", duration=5, deadline=10)
