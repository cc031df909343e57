"""What is measured, and how: pods by one watch, writes by both sides' metrics, the operator by the kernel's books."""

from __future__ import annotations

import asyncio
import os
import re
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path

from grove.api.core import Pod
from grove.api.kinds import PODS
from grove.api.meta import condition
from grove.bench.workloads import NAMESPACE
from grove.runtime import errors
from grove.runtime.client import Client
from grove.runtime.transport import HttpRequest, Transport

_TICKS = os.sysconf("SC_CLK_TCK")
_SAMPLE = re.compile(r"^(\w+)\{(.*)\} (\S+)$")
_LABEL = re.compile(r'(\w+)="([^"]*)"')
_WRITES = {"POST": "create", "PUT": "update", "PATCH": "patch", "APPLY": "patch", "DELETE": "delete"}


class PodMeter:
    """Follows the pods of a selector and tells when counts are reached. Times are seconds since `begin`."""

    def __init__(self, client: Client, selector: str) -> None:
        self._client = client
        self._selector = selector
        self._pods: dict[str, Pod] = {}
        self._changed = asyncio.Event()
        self._began = time.monotonic()
        self._task: asyncio.Task[None] | None = None

    async def __aenter__(self) -> PodMeter:
        listed = await self._client.list_all(PODS, namespace=NAMESPACE, label_selector=self._selector)
        self._pods = {pod.metadata.name: pod for pod in listed.items}
        self._task = asyncio.create_task(self._follow(listed.metadata.resource_version))
        self.begin()
        return self

    async def __aexit__(self, *_: object) -> None:
        assert self._task is not None
        self._task.cancel()
        await asyncio.gather(self._task, return_exceptions=True)

    def begin(self) -> None:
        self._began = time.monotonic()

    async def _follow(self, version: str) -> None:
        while True:
            try:
                async for event in self._client.watch(
                    PODS, namespace=NAMESPACE, label_selector=self._selector, resource_version=version
                ):
                    found = getattr(event, "object", None)
                    if found is None:
                        continue
                    version = found.metadata.resource_version
                    if type(event).__name__ == "Deleted":
                        self._pods.pop(found.metadata.name, None)
                    elif isinstance(found, Pod):
                        self._pods[found.metadata.name] = found
                    self._changed.set()
            except errors.Unreachable:
                await asyncio.sleep(0.1)

    async def when(self, reached: Callable[[dict[str, Pod]], bool], within: float) -> float:
        """Seconds until the pods satisfy the predicate; TimeoutError when they do not in time."""
        async with asyncio.timeout(within):
            while not reached(self._pods):
                self._changed.clear()
                await self._changed.wait()
                await asyncio.sleep(0.02)
        return time.monotonic() - self._began


def is_ready(pod: Pod) -> bool:
    found = condition(pod.status.conditions, "Ready")
    return found is not None and found.status == "True" and not pod.metadata.terminating


def ready(count: int) -> Callable[[dict[str, Pod]], bool]:
    return lambda pods: len(pods) >= count and sum(map(is_ready, pods.values())) >= count


def created(count: int) -> Callable[[dict[str, Pod]], bool]:
    return lambda pods: len(pods) >= count


def gone(pods: dict[str, Pod]) -> bool:
    return not pods


class ProcessMeter:
    """CPU seconds and peak memory of one process, from /proc."""

    def __init__(self, pid: int) -> None:
        self._folder = Path(f"/proc/{pid}")
        self._cpu = self.cpu_total()
        # 5 resets the peak; only allowed for our own processes, and then the peak is that of this measurement.
        (self._folder / "clear_refs").write_text("5")

    def cpu_total(self) -> float:
        fields = (self._folder / "stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / _TICKS

    def cpu(self) -> float:
        return self.cpu_total() - self._cpu

    def peak_mb(self) -> float:
        line = next(x for x in (self._folder / "status").read_text().splitlines() if x.startswith("VmHWM"))
        return int(line.split()[1]) / 1024


async def scrape(transport: Transport, metric: str) -> list[tuple[dict[str, str], float]]:
    """The samples of one metric on a server's metrics page."""
    answer = await transport.request(HttpRequest("GET", "/metrics", timeout=30))
    found = []
    for line in answer.body.decode().splitlines():
        match = _SAMPLE.match(line)
        if match and match[1] == metric:
            found.append((dict(_LABEL.findall(match[2])), float(match[3])))
    return found


async def operator_writes(metrics: Transport) -> Counter[str]:
    """Writes by our own count: `verb resource`."""
    found: Counter[str] = Counter()
    for labels, value in await scrape(metrics, "grove_api_requests_total"):
        verb = {"apply": "patch"}.get(labels["verb"], labels["verb"])
        if verb in _WRITES.values() and labels["code"].startswith("2"):
            found[f"{verb} {labels['resource'].partition('.')[0]}"] += int(value)
    return found


async def server_writes(api: Transport) -> Counter[str]:
    """Writes by the API server's count, subresources with their resource, as ours are counted."""
    found: Counter[str] = Counter()
    for labels, value in await scrape(api, "apiserver_request_total"):
        verb = _WRITES.get(labels["verb"])
        if verb and labels["code"].startswith("2") and not labels.get("dry_run"):
            found[f"{verb} {labels['resource']}"] += int(value)
    return found
