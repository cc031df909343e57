"""What the runtime costs: per create against bare aiohttp, per watch event, per cached pod, per key of the queue.

Each figure is measured in a process of its own, against a server in another process that answers at once over TLS, so
it is the client's own cost. The bare client in the same run is aiohttp with msgspec's untyped JSON, the fastest plain
combination. The last line printed is JSON with the four figures.
"""

from __future__ import annotations

import asyncio
import gc
import json
import multiprocessing
import resource
import ssl
import statistics
import sys
import time
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime
from multiprocessing.connection import Connection as Pipe
from pathlib import Path
from typing import Any

import aiohttp
import msgspec
import uvloop

from grove.api.core import Pod
from grove.runtime import certs, requests
from grove.runtime.client import Client
from grove.runtime.http_transport import HttpTransport
from grove.runtime.queue import WorkQueue
from grove.runtime.reflector import Reflector
from grove.runtime.resource import Resource
from grove.runtime.store import Store
from grove.runtime.tls import Tls, load_pair
from grove.runtime.worker import DONE, Controller, Result

PODS = Resource("", "v1", "pods", "Pod", Pod)
CREATES = 3000
ROUNDS = 5
EVENTS = 20_000
STORED = 5000
KEYS = 10_000
IN_FLIGHT = 64
LIMITS = {"create_ratio": 1.5, "watch_us": 40.0, "store_mb": 60.0, "queue_cpu_s": 1.0}


def pod(number: int, version: int) -> dict[str, Any]:
    """A pod of about 6 KB, as a kubelet and a scheduler leave it."""
    name = f"inference-{number // 8}-decode-worker-{number % 8}"
    now = "2026-01-01T00:00:00Z"
    container = {
        "name": "server",
        "image": "registry.example.com/inference/server:1.42.0",
        "args": ["--model", "large", "--tensor-parallel", "8", "--port", "8080"],
        "env": [{"name": f"SETTING_{each}", "value": f"value-{each}-of-{name}"} for each in range(22)],
        "resources": {"limits": {"nvidia.com/gpu": "8", "cpu": "64", "memory": "512Gi"}},
        "volumeMounts": [{"name": f"volume-{each}", "mountPath": f"/mnt/volume-{each}"} for each in range(6)],
        "terminationMessagePath": "/dev/termination-log",
        "terminationMessagePolicy": "File",
        "imagePullPolicy": "IfNotPresent",
    }
    conditions = [
        {"type": kind, "status": "True", "lastProbeTime": None, "lastTransitionTime": now}
        for kind in ("PodReadyToStartContainers", "Initialized", "Ready", "ContainersReady", "PodScheduled")
    ]
    fields: dict[str, Any] = {f"f:field-{each}": {".": {}, f"f:inner-{each}": {}} for each in range(28)}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": name,
            "namespace": f"team-{number % 10}",
            "uid": f"{number:08x}-0000-4000-8000-000000000000",
            "resourceVersion": str(version),
            "creationTimestamp": now,
            "labels": {f"example.com/label-{each}": f"{name}-{each}" for each in range(8)},
            "annotations": {"example.com/hash": f"{number:032x}", "example.com/index": str(number)},
            "ownerReferences": [
                {
                    "apiVersion": "v1",
                    "kind": "Owner",
                    "name": f"o-{number // 8}",
                    "uid": f"o-{number // 8}",
                    "controller": True,
                }
            ],
            "managedFields": [
                {"manager": "kubelet", "operation": "Update", "time": now, "fieldsType": "FieldsV1", "fieldsV1": fields}
            ],
        },
        "spec": {
            "containers": [container],
            "volumes": [
                {"name": f"volume-{each}", "configMap": {"name": f"map-{each}", "defaultMode": 420}}
                for each in range(6)
            ],
            "nodeName": f"node-{number % 100}",
            "schedulerName": "default-scheduler",
            "serviceAccountName": "default",
            "tolerations": [{"key": f"key-{each}", "operator": "Exists", "effect": "NoExecute"} for each in range(3)],
            "terminationGracePeriodSeconds": 30,
        },
        "status": {
            "phase": "Running",
            "conditions": conditions,
            "containerStatuses": [
                {
                    "name": "server",
                    "ready": True,
                    "started": True,
                    "restartCount": 0,
                    "image": container["image"],
                    "imageID": f"sha256:{number:064x}",
                    "containerID": f"containerd://{number:064x}",
                    "state": {"running": {"startedAt": now}},
                }
            ],
            "hostIP": "10.0.0.1",
            "podIP": "10.1.0.1",
            "startTime": now,
            "qosClass": "Guaranteed",
        },
    }


def line(kind: str, number: int, version: int) -> bytes:
    return msgspec.json.encode({"type": kind, "object": pod(number, version)}) + b"\n"


# The server


class Answering(asyncio.Protocol):
    """Answers every request at once: a watch with everything prepared for it, anything else with one pod."""

    def __init__(self, answer: bytes, stream: Callable[[str], bytes]) -> None:
        self._answer = answer
        self._stream = stream
        self._buffer = b""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport: Any = transport

    def data_received(self, data: bytes) -> None:
        self._buffer += data
        while True:
            end = self._buffer.find(b"\r\n\r\n")
            if end < 0:
                return
            head = self._buffer[:end].lower()
            at = head.find(b"content-length:")
            length = int(head[at + 15 :].split(b"\r\n", 1)[0]) if at >= 0 else 0
            if len(self._buffer) < end + 4 + length:
                return
            target = self._buffer[:end].split(b" ", 2)[1].decode()
            self._buffer = self._buffer[end + 4 + length :]
            self._reply(target)

    def _reply(self, target: str) -> None:
        if "watch=true" not in target:
            self._transport.write(self._answer)
            return
        self._transport.write(
            b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n"
        )
        body = self._stream(target)
        for start in range(0, len(body), 16384):
            piece = body[start : start + 16384]
            self._transport.write(b"%x\r\n%s\r\n" % (len(piece), piece))


def serve(pipe: Pipe, serving: certs.KeyPair) -> None:
    """Runs until the pipe closes."""
    body = msgspec.json.encode(pod(0, 1))
    head = f"HTTP/1.1 201 Created\r\nContent-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
    metadata = {"resourceVersion": str(STORED), "annotations": {"k8s.io/initial-events-end": "true"}}
    ending = {"type": "BOOKMARK", "object": {"metadata": metadata}}
    initial = (
        b"".join(line("ADDED", number, number + 1) for number in range(STORED)) + msgspec.json.encode(ending) + b"\n"
    )
    changes = b"".join(line("MODIFIED", number % STORED, STORED + 1 + number) for number in range(EVENTS))

    def stream(target: str) -> bytes:
        return initial if "sendInitialEvents" in target else changes

    async def main() -> None:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        load_pair(context, serving.certificate, serving.key)
        loop = asyncio.get_running_loop()
        answer = head.encode() + body
        server = await loop.create_server(lambda: Answering(answer, stream), "127.0.0.1", 0, ssl=context)
        pipe.send(server.sockets[0].getsockname()[1])
        await loop.run_in_executor(None, pipe.recv)

    asyncio.run(main())


# The measurements, each in its own process


async def many(count: int, once: Callable[[int], Awaitable[Any]]) -> float:
    """CPU seconds of `count` calls, `IN_FLIGHT` at a time."""
    numbers = iter(range(count))

    async def worker() -> None:
        for number in numbers:
            await once(number)

    gc.collect()
    started = time.process_time()
    await asyncio.gather(*(worker() for _ in range(IN_FLIGHT)))
    return time.process_time() - started


async def creates(address: str, tls: Tls) -> dict[str, float]:
    """Our client and bare aiohttp, in turns, so that both see the same machine."""
    transport = HttpTransport(address, tls=tls)
    client = Client(transport, in_flight=IN_FLIGHT)
    context = ssl.create_default_context(cadata=(tls.ca or b"").decode())
    session = aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=0, ssl=context))
    objects = [pod(number, 0) for number in range(100)]

    async def ours(number: int) -> None:
        await client.send(requests.create(PODS, objects[number % 100]))

    async def bare(number: int) -> None:
        obj = objects[number % 100]
        url = f"{address}/api/v1/namespaces/{obj['metadata']['namespace']}/pods"
        headers = {"content-type": "application/json"}
        async with session.post(url, data=msgspec.json.encode(obj), headers=headers) as response:
            msgspec.json.decode(await response.read())

    costs: dict[str, list[float]] = {"ours": [], "bare": []}
    for _ in range(ROUNDS + 1):
        costs["bare"].append(await many(CREATES, bare))
        costs["ours"].append(await many(CREATES, ours))
    await session.close()
    await transport.close()
    ratio = statistics.median(ours / bare for ours, bare in zip(costs["ours"][1:], costs["bare"][1:], strict=True))
    return {
        "create_ratio": ratio,
        "create_us": min(costs["ours"]) / CREATES * 1e6,
        "bare_create_us": min(costs["bare"]) / CREATES * 1e6,
    }


async def filled(address: str, tls: Tls) -> tuple[Store[Pod], HttpTransport, asyncio.Task[None]]:
    transport = HttpTransport(address, tls=tls)
    store = Store(PODS)
    store.add_index("owner", lambda each: [owner.uid for owner in each.metadata.owner_references])
    store.add_index("node", lambda each: [each.spec.node_name])
    task = asyncio.create_task(Reflector(Client(transport), store).run())
    await store.wait_synced()
    return store, transport, task


async def memory(address: str, tls: Tls) -> dict[str, float]:
    """Resident memory of the process with 5,000 pods and two indexes, above the same process with a TLS client."""
    warm = HttpTransport(address, tls=tls)
    await Client(warm).send(requests.get(PODS, "team-0", "any"))
    await warm.close()
    gc.collect()
    before = resident()
    store, transport, task = await filled(address, tls)
    gc.collect()
    grown = resident() - before
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    await transport.close()
    if len(store) != STORED:
        raise RuntimeError(f"expected {STORED} pods, found {len(store)}")
    return {"store_mb": grown / 1e6, "pod_bytes": len(msgspec.json.encode(pod(1, 1)))}


async def watching(address: str, tls: Tls) -> dict[str, float]:
    """From bytes on the socket to the stored, indexed object and a handler told."""
    transport = HttpTransport(address, tls=tls)
    store = Store(PODS)
    store.add_index("owner", lambda each: [owner.uid for owner in each.metadata.owner_references])
    store.add_index("node", lambda each: [each.spec.node_name])
    store.replace([], STORED)
    keys: set[str] = set()
    complete = asyncio.Event()
    last = str(STORED + EVENTS)

    def note(old: Pod | None, new: Pod | None) -> None:
        if new is not None:
            keys.add(new.metadata.name)
            if new.metadata.resource_version == last:
                complete.set()

    store.subscribe(note)
    reflector = Reflector(Client(transport), store)
    reflector._resume = str(STORED)
    gc.collect()
    started = time.process_time()
    task = asyncio.create_task(reflector.run())
    await complete.wait()
    cost = time.process_time() - started
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    await transport.close()
    return {"watch_us": cost / EVENTS * 1e6}


async def queueing(_: str, __: Tls) -> dict[str, float]:
    """Adding 10,000 keys and running a reconcile that does nothing for each."""
    queue: WorkQueue[str] = WorkQueue()
    done = 0

    async def reconcile(key: str) -> Result:
        nonlocal done
        done += 1
        if done == KEYS:
            controller.stop()
        return DONE

    controller = Controller("bench", queue, reconcile)
    started = time.process_time()
    for number in range(KEYS):
        queue.add(f"team-{number % 10}/object-{number}")
    await controller.run()
    return {"queue_cpu_s": time.process_time() - started}


def resident() -> int:
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * resource.getpagesize()


MEASURES = {"create": creates, "watch": watching, "store": memory, "queue": queueing}


def measure(name: str, pipe: Pipe, address: str, tls: Tls) -> None:
    pipe.send(uvloop.run(MEASURES[name](address, tls)))


def main() -> int:
    context = multiprocessing.get_context("spawn")
    now = datetime.now(UTC)
    authority = certs.new_authority(now)
    ours, theirs = context.Pipe()
    server = context.Process(target=serve, args=(theirs, certs.issue(authority, ["127.0.0.1"], now)), daemon=True)
    server.start()
    address = f"https://127.0.0.1:{ours.recv()}"
    figures: dict[str, float] = {}
    for name in MEASURES:
        mine, its = context.Pipe()
        process = context.Process(target=measure, args=(name, its, address, Tls(ca=authority.certificate)))
        process.start()
        its.close()
        figures.update(mine.recv())
        process.join()
    ours.send(None)
    server.join()
    print(f"Python {sys.version.split()[0]}, uvloop, TLS to 127.0.0.1, a pod of {figures['pod_bytes']:.0f} bytes")
    print(f"create        {figures['create_us']:8.0f} µs CPU, bare aiohttp {figures['bare_create_us']:.0f} µs")
    for name, limit in LIMITS.items():
        print(f"{name:<13} {figures[name]:8.2f}    at most {limit:g}")
    print(json.dumps({name: round(figures[name], 3) for name in LIMITS}))
    return 0 if all(figures[name] <= limit for name, limit in LIMITS.items()) else 1


if __name__ == "__main__":
    sys.exit(main())
