"""A small controller over the whole runtime and the in-memory API server, behind a network that fails."""

from __future__ import annotations

import asyncio
import random
from typing import Any

import msgspec
import pytest

from grove.runtime import errors, requests
from grove.runtime.client import Client
from grove.runtime.objects import ObjectMeta
from grove.runtime.queue import WorkQueue
from grove.runtime.reflector import Reflector
from grove.runtime.resource import Resource
from grove.runtime.store import Store
from grove.runtime.transport import Transport
from grove.runtime.worker import DONE, Controller, Result
from grove.testing.apiserver import ApiServer
from grove.testing.faults import Faults, FaultyTransport
from grove.testing.simloop import simulate


class Config(msgspec.Struct, kw_only=True, frozen=True):
    metadata: ObjectMeta
    data: dict[str, str] = msgspec.field(default_factory=dict)


CONFIGS = Resource("", "v1", "configmaps", "ConfigMap", Config)


class Replicator:
    """Keeps as many children as the parent asks for, and counts them in the parent. Children get generated names, so
    every look at a cache that lacks our own writes would make one too many."""

    def __init__(self, transport: Transport, rng: random.Random) -> None:
        self.client = Client(transport, rng=rng)
        self.store = Store(CONFIGS)
        self.store.add_index("parent", lambda obj: filter(None, [obj.metadata.labels.get("parent")]))
        self.queue: WorkQueue[str] = WorkQueue(rng=rng)
        self.store.subscribe(self._wake)
        self.created = 0
        self._reflector = Reflector(self.client, self.store, namespace="default", rng=rng)
        self._controller = Controller("replicator", self.queue, self._reconcile, rng=rng)

    def start(self) -> list[asyncio.Task[None]]:
        return [asyncio.create_task(self._reflector.run()), asyncio.create_task(self._run())]

    async def _run(self) -> None:
        await self.store.wait_synced()
        await self._controller.run()

    def _wake(self, old: Config | None, new: Config | None) -> None:
        for obj in (old, new):
            if obj is not None:
                self.queue.add(obj.metadata.labels.get("parent") or obj.metadata.name)

    async def _reconcile(self, name: str) -> Result:
        parent = self.store.get(f"default/{name}")
        children = sorted(self.store.by_index("parent", name), key=lambda child: child.metadata.name)
        wanted = int(parent.data.get("replicas", "0")) if parent is not None else 0
        for _ in range(wanted - len(children)):
            body = {"metadata": {"generateName": f"{name}-", "namespace": "default", "labels": {"parent": name}}}
            self.created += 1
            self.store.overlay(await self.client.send(requests.create(CONFIGS, body)))
        for child in children[wanted:]:
            await self._delete(child)
        if parent is not None and parent.data.get("seen") != str(wanted) and len(children) == wanted:
            patch = {"data": {"seen": str(wanted)}, "metadata": {"resourceVersion": parent.metadata.resource_version}}
            self.store.overlay(await self.client.send(requests.merge_patch(CONFIGS, "default", name, patch)))
        return DONE

    async def _delete(self, child: Config) -> None:
        try:
            left = await self.client.delete(CONFIGS, "default", child.metadata.name, uid=child.metadata.uid)
        except errors.NotFound:
            left = None
        if left is None:
            self.store.overlay_deleted(child)
        else:
            self.store.overlay(left)


async def ask(server: ApiServer, name: str, replicas: int) -> None:
    """What a user does, over a line without faults."""
    client = Client(server.transport())
    obj = {"metadata": {"name": name, "namespace": "default"}, "data": {"replicas": str(replicas)}}
    await client.send(requests.apply(CONFIGS, obj, field_manager="user"))


def children(server: ApiServer, name: str) -> list[Any]:
    objects = server.objects("v1", "ConfigMap", "default")
    return [obj for obj in objects if obj["metadata"].get("labels", {}).get("parent") == name]


async def settle(replicator: Replicator, server: ApiServer) -> None:
    await asyncio.sleep(200)
    assert replicator.queue.idle
    assert replicator.store.pending == 0
    held = {obj.metadata.name: obj.metadata.resource_version for obj in replicator.store.all()}
    stored = {
        obj["metadata"]["name"]: obj["metadata"]["resourceVersion"]
        for obj in server.objects("v1", "ConfigMap", "default")
    }
    assert held == stored


def test_a_cache_that_lags_never_makes_one_too_many() -> None:
    async def scenario() -> tuple[int, int]:
        server = ApiServer()
        faults = Faults(watch_lag=(0.0, 5.0), watch_merge=0.3, watch_duplicate=0.3, latency=(0.0, 0.05))
        rng = random.Random(1)
        replicator = Replicator(FaultyTransport(server.transport(), faults, rng), rng)
        tasks = replicator.start()
        for replicas in (5, 9, 4, 6):
            await ask(server, "set", replicas)
            await asyncio.sleep(3)
        await settle(replicator, server)
        for task in tasks:
            task.cancel()
        return replicator.created, len(children(server, "set"))

    created, left = simulate(scenario(), limit=5000)
    assert created == 5 + 4 + 2
    assert left == 6


@pytest.mark.parametrize("seed", range(40))
def test_the_end_is_the_same_whatever_fails_on_the_way(seed: int) -> None:
    async def scenario() -> tuple[dict[str, int], dict[str, str]]:
        rng = random.Random(seed)
        faults = Faults.drawn(rng, strength=0.3, crashes=0)
        server = ApiServer(seed=seed)
        replicator = Replicator(FaultyTransport(server.transport(), faults, rng), rng)
        tasks = replicator.start()
        for _ in range(4):
            for name in ("a", "b"):
                await ask(server, name, rng.randint(0, 6))
            await asyncio.sleep(rng.uniform(0, 8))
            if rng.random() < 0.3:
                server.compact()
            if rng.random() < 0.3:
                server.drop_watches()
        await ask(server, "a", 3)
        await ask(server, "b", 2)
        faults.calm()
        await settle(replicator, server)
        for task in tasks:
            task.cancel()
        seen = {name: server.object("v1", "ConfigMap", name, "default") for name in ("a", "b")}
        counts = {name: len(children(server, name)) for name in ("a", "b")}
        return counts, {name: obj["data"]["seen"] for name, obj in seen.items() if obj is not None}

    counts, seen = simulate(scenario(), limit=5000)
    assert counts == {"a": 3, "b": 2}
    assert seen == {"a": "3", "b": "2"}
