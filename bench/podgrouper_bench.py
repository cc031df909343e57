"""What grouping costs: CPU and writes per pod, for many pods of one owner that appear at once.

Run it by hand: `python bench/podgrouper_bench.py [PODS]`. The in-memory API server answers in the same process; the CPU
it spends on requests is measured apart and taken off, so that what is left is the grouper: decoding what it watches,
deciding, encoding what it writes, and the loop in between. With `--cluster [PODS]` it measures how soon waiting pods
are released on a local cluster when their Workload arrives (`podgrouper_release.py`). The last line printed is JSON
with the figures.
"""

from __future__ import annotations

import asyncio
import json
import sys
import time
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1] / "tests" / "simulation"))

import podgrouper_release
from grouper_harness import IDENTITY, STATEFUL_SETS, Simulation, reference_to, rights

from grove.apps.pod_grouper import Grouper
from grove.podgrouper.kinds import FIELD_MANAGER
from grove.runtime.client import Client
from grove.testing import ApiServer, simulate


class Meter:
    """The CPU a server spends on requests, and a sign when enough of them were pod patches."""

    def __init__(self, server: ApiServer, patches: int) -> None:
        self.seconds = 0.0
        self.done = asyncio.Event()
        self._left = patches
        self._handle = server.handle
        server.handle = self.handle  # type: ignore[method-assign]  # measured where it is called

    async def handle(self, request: Any, identity: Any) -> Any:
        started = time.process_time()
        try:
            return await self._handle(request, identity)
        finally:
            self.seconds += time.process_time() - started
            self._left -= request.method == "PATCH" and "/pods/" in request.path
            if self._left == 0:
                self.done.set()


async def measure(count: int) -> dict[str, float]:
    simulation = Simulation()
    owner = await simulation.create(STATEFUL_SETS, "s", metadata={"labels": {"team": "a", "kai.scheduler/queue": "q"}})
    body = {"labels": {"app": "s"}, "annotations": {"note": "x"}, "ownerReferences": [reference_to(owner)]}
    for index in range(count):
        await simulation.pod(f"s-{index}", metadata=body)
    simulation.server.log.clear()
    meter = Meter(simulation.server, count)
    grouper = Grouper(Client(simulation.server.transport(IDENTITY, rules=rights()), field_manager=FIELD_MANAGER))
    started = time.process_time()
    task = asyncio.create_task(grouper.run())
    await meter.done.wait()
    spent = time.process_time() - started
    await simulation.settle()
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    writes = simulation.server.log.writes(IDENTITY)
    return {
        "pods": count,
        "cpu_ms_per_pod": round((spent - meter.seconds) / count * 1e3, 4),
        "cpu_ms_per_pod_with_server": round(spent / count * 1e3, 4),
        "writes_per_pod": len(writes) / count,
        "pod_group_writes": sum(entry.resource == "podgroups" for entry in writes),
    }


if __name__ == "__main__":
    arguments = sys.argv[1:]
    if arguments[:1] == ["--cluster"]:
        waiting = int(arguments[1]) if arguments[1:] else 1_000
        print(json.dumps(asyncio.run(podgrouper_release.measure(waiting, rounds=5))))
    else:
        print(json.dumps(simulate(measure(int(arguments[0]) if arguments else 10_000))))
