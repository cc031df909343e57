"""The scenarios: each measures the product and, in the same run, what it is compared with. All end, and clean up."""

from __future__ import annotations

import asyncio
import statistics
import time
from collections import Counter
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any

from grove.api.core import Pod
from grove.api.kinds import POD_CLIQUE_SETS, PODS
from grove.bench.floor import floor_replicas
from grove.bench.meters import PodMeter, ProcessMeter, gone, is_ready, ready
from grove.bench.stand import PATIENCE, Stand
from grove.bench.workloads import (
    DISAGGREGATED,
    FLAT,
    FLAT_LARGE,
    FLOOR_LABEL,
    MANY,
    NAMESPACE,
    Shape,
    pod_clique_set,
    pod_spec,
    set_names,
)
from grove.runtime import requests

Result = dict[str, Any]
_PRODUCT = "app.kubernetes.io/managed-by=grove-operator"


@dataclass(frozen=True, slots=True)
class Scenario:
    """A named measurement. `limits` are the most a result may be, by key of the result."""

    name: str
    about: str
    measure: Callable[[Stand], Awaitable[Result]]
    limits: dict[str, float]


class _Account:
    """What a stretch of work cost the operator."""

    def __init__(self, stand: Stand) -> None:
        self._stand = stand

    async def open(self) -> _Account:
        self._process: ProcessMeter = self._stand.operator()
        self._ours = await self._stand.operator_writes()
        self._theirs = await self._stand.server_writes()
        self._reconciles = await self._stand.reconciles()
        return self

    async def close(self) -> Result:
        cpu, peak = self._process.cpu(), self._process.peak_mb()
        ours = await self._stand.operator_writes() - self._ours
        theirs = await self._stand.server_writes() - self._theirs
        return {
            "writes": {**dict(sorted(ours.items())), "total": ours.total()},
            "writes_agree": _agree(ours, theirs),
            "cpu_s": round(cpu, 2),
            "peak_mb": round(peak, 1),
            "reconciles": await self._stand.reconciles() - self._reconciles,
        }


# Resources nobody but the operator writes on this stand, so that both counts must be the same.
_ONLY_OURS = ("podcliques", "podgangs", "podcliquescalinggroups", "services", "controllerrevisions")


def _agree(ours: Counter[str], theirs: Counter[str]) -> bool:
    keys = {key for key in (*ours, *theirs) if key.split()[1] in _ONLY_OURS and not key.startswith("delete")}
    return all(ours[key] == theirs[key] for key in keys)


async def bring_up(stand: Stand, shape: Shape) -> Result:
    """Floor, yardstick and product, one after the other on the same cluster."""
    floor = await stand.floor(shape)
    yardstick = await stand.yardstick(shape.pods)
    bodies = [pod_clique_set(name, shape) for name in set_names(shape)]
    account = await _Account(stand).open()
    async with stand.product(bodies, shape.pods) as times:
        await stand.quiet()
        cost = await account.close()
    return {
        "pods": shape.pods,
        "floor_created_s": round(floor["created_s"], 2),
        "floor_ready_s": round(floor["ready_s"], 2),
        "floor_cpu_s": round(floor["cpu_s"], 2),
        "deployment_ready_s": round(yardstick["ready_s"], 2),
        "deployment_deleted_s": round(yardstick["deleted_s"], 2),
        **{key: round(value, 2) for key, value in times.items()},
        "created_ratio": round(times["created_s"] / floor["created_s"], 2),
        "ready_ratio": round(times["ready_s"] / floor["ready_s"], 2),
        "deleted_ratio": round(times["deleted_s"] / yardstick["deleted_s"], 2),
        "cpu_ratio": round(cost["cpu_s"] / floor["cpu_s"], 2),
        "cpu_ms_per_pod": round(1000 * cost["cpu_s"] / shape.pods, 2),
        "writes_per_pod": round(cost["writes"]["total"] / shape.pods, 2),
        **cost,
    }


async def _bare_replacement(stand: Stand) -> float:
    """What replacing one replica's pods costs at the least: delete, wait, create, wait; the median of five."""
    shape = Shape(1, FLAT.cliques)
    _, pods = next(floor_replicas(shape))
    times = []
    async with PodMeter(stand.client, f"{FLOOR_LABEL}=true") as meter:
        for _ in range(6):
            meter.begin()
            for body in list(await _existing(stand)):
                await stand.client.delete(PODS, NAMESPACE, body)
            await meter.when(gone, PATIENCE)
            await asyncio.gather(*(stand.client.send(requests.create(PODS, body)) for body in pods))
            times.append(await meter.when(ready(len(pods)), PATIENCE))
        for body in list(await _existing(stand)):
            await stand.client.delete(PODS, NAMESPACE, body)
        await meter.when(gone, PATIENCE)
    return statistics.median(times[1:])


async def _existing(stand: Stand) -> list[str]:
    found = await stand.client.list_all(PODS, namespace=NAMESPACE, label_selector=f"{FLOOR_LABEL}=true")
    return [pod.metadata.name for pod in found.items]


async def _change_template(stand: Stand, image: str) -> None:
    patch = [{"op": "replace", "path": "/spec/template/cliques/0/spec/podSpec", "value": pod_spec(image)}]
    await stand.client.send(requests.json_patch(POD_CLIQUE_SETS, NAMESPACE, "bench", patch))


async def _updated(stand: Stand, replicas: int) -> None:
    """Waits until the set says that this many replicas run the latest templates."""
    while True:
        found = await stand.client.send(requests.get(POD_CLIQUE_SETS, NAMESPACE, "bench"))
        status = found.status
        if status and status.observed_generation == found.metadata.generation and status.updated_replicas >= replicas:
            return
        await asyncio.sleep(0.1)


async def update_in_turn(stand: Stand) -> Result:
    """The default strategy: all replicas of the flat workload, one after the other."""
    shape = FLAT
    bare = await _bare_replacement(stand)
    async with stand.product([pod_clique_set("bench", shape)], shape.pods):
        await stand.quiet()
        account = await _Account(stand).open()
        began = time.monotonic()
        await _change_template(stand, "bench:2")
        async with asyncio.timeout(PATIENCE):
            await _updated(stand, shape.replicas)
        each = (time.monotonic() - began) / shape.replicas
        cost = await account.close()
    return {
        "pods": shape.pods,
        "bare_replacement_s": round(bare, 3),
        "replica_s": round(each, 3),
        "replica_ratio": round(each / bare, 2),
        **cost,
    }


async def update_at_once(stand: Stand) -> Result:
    """ReplicaRecreate with a quarter of the replicas at a time."""
    shape = FLAT
    strategy = {"type": "ReplicaRecreate", "rollingUpdate": {"maxUnavailable": "25%"}}
    async with stand.product([pod_clique_set("bench", shape, strategy=strategy)], shape.pods) as times:
        await stand.quiet()
        account = await _Account(stand).open()
        began = time.monotonic()
        await _change_template(stand, "bench:2")
        async with asyncio.timeout(PATIENCE):
            await _updated(stand, shape.replicas)
        total = time.monotonic() - began
        await stand.quiet()
        cost = await account.close()
    return {
        "pods": shape.pods,
        "update_s": round(total, 2),
        "ready_s": round(times["ready_s"], 2),
        "update_ratio": round(total / times["ready_s"], 2),
        "writes_per_pod": round(cost["writes"]["total"] / shape.pods, 2),
        **cost,
    }


async def scale_churn(stand: Stand) -> Result:
    """Twenty times from 25 to 50 replicas and back."""
    cycles, small, large = 20, 25, 50
    shape = Shape(small, FLAT.cliques)
    ups: list[float] = []
    downs: list[float] = []
    async with (
        stand.product([pod_clique_set("bench", shape)], shape.pods),
        PodMeter(stand.client, _PRODUCT) as meter,
    ):
        account = await _Account(stand).open()
        for _ in range(cycles):
            meter.begin()
            await stand.client.send(requests.set_scale(POD_CLIQUE_SETS, NAMESPACE, "bench", large))
            ups.append(await meter.when(ready(2 * large), PATIENCE))
            meter.begin()
            await stand.client.send(requests.set_scale(POD_CLIQUE_SETS, NAMESPACE, "bench", small))
            downs.append(await meter.when(lambda pods: len(pods) <= 2 * small, PATIENCE))
        await stand.quiet()
        cost = await account.close()
    return {
        "pods": 2 * large,
        "cycles": cycles,
        "scale_up_s": round(statistics.median(ups), 2),
        "scale_down_s": round(statistics.median(downs), 2),
        "slowest_s": round(max(*ups, *downs), 2),
        **cost,
    }


async def restart(stand: Stand) -> Result:
    """A new operator process on a settled workload of a thousand pods."""
    async with stand.product([pod_clique_set("bench", FLAT)], FLAT.pods):
        await stand.quiet()
        before = await stand.server_writes()
        began = time.monotonic()
        await stand.restart_operator()
        seconds = time.monotonic() - began
        await stand.quiet(5.0)
        ours = await stand.operator_writes()
        theirs = await stand.server_writes() - before
    touched = Counter({key: count for key, count in theirs.items() if key.split()[1] in _ONLY_OURS})
    return {
        "pods": FLAT.pods,
        "restart_s": round(seconds, 2),
        "writes": {**dict(ours), "total": ours.total()},
        "writes_total": ours.total(),
        "writes_agree": touched.total() == 0,
    }


async def idle(stand: Stand, seconds: float = 600.0) -> Result:
    """Ten minutes in which nothing happens to a thousand running pods."""
    async with stand.product([pod_clique_set("bench", FLAT)], FLAT.pods):
        await stand.quiet(5.0)
        account = await _Account(stand).open()
        await asyncio.sleep(seconds)
        cost = await account.close()
    return {
        "pods": FLAT.pods,
        "seconds": seconds,
        "writes_total": cost["writes"]["total"],
        "cpu_percent": round(100 * cost["cpu_s"] / seconds, 3),
        **cost,
    }


async def one_pod_dies(stand: Stand) -> Result:
    """What the operator spends when one pod of five thousand goes; the median of ten."""
    shape = FLAT_LARGE
    spent = []
    async with (
        stand.product([pod_clique_set("bench", shape)], shape.pods),
        PodMeter(stand.client, _PRODUCT) as meter,
    ):
        await stand.quiet()
        for index in range(100, 110):
            name = f"bench-{index}-worker-0"
            process = stand.operator()
            found = await stand.client.send(requests.get(PODS, NAMESPACE, name))
            await stand.client.delete(PODS, NAMESPACE, name)
            await meter.when(_replaced(name, found.metadata.uid), PATIENCE)
            await asyncio.sleep(2)
            spent.append(process.cpu())
    # The kernel counts in hundredths of a second: the mean of ten says more than their median.
    return {"pods": shape.pods, "reaction_cpu_ms": round(1000 * statistics.mean(spent), 1)}


def _replaced(name: str, uid: str) -> Callable[[dict[str, Pod]], bool]:
    return lambda pods: name in pods and pods[name].metadata.uid != uid and is_ready(pods[name])


_BRING_UP = {"ready_ratio": 1.3}

SCENARIOS: dict[str, Scenario] = {
    s.name: s
    for s in (
        Scenario(
            "flat-1000",
            "one PodCliqueSet, 500 replicas of 2 pods",
            lambda stand: bring_up(stand, FLAT),
            {**_BRING_UP, "created_ratio": 1.5, "cpu_ratio": 4, "peak_mb": 150, "deleted_ratio": 1.3},
        ),
        Scenario(
            "disagg-900",
            "50 replicas of a frontend and two multi-node scaling groups",
            lambda stand: bring_up(stand, DISAGGREGATED),
            dict(_BRING_UP),
        ),
        Scenario("many-500", "500 PodCliqueSets of 2 pods", lambda stand: bring_up(stand, MANY), dict(_BRING_UP)),
        Scenario("flat-5000", "2,500 replicas of 2 pods", lambda stand: bring_up(stand, FLAT_LARGE), {}),
        Scenario("update-1000", "default update of flat-1000", update_in_turn, {"replica_ratio": 2}),
        Scenario(
            "recreate-1000",
            "ReplicaRecreate of flat-1000, a quarter at a time",
            update_at_once,
            {"update_ratio": 3, "writes_per_pod": 6},
        ),
        Scenario("scale-churn", "25 to 50 replicas and back, twenty times", scale_churn, {}),
        Scenario("restart", "operator restart on a settled thousand", restart, {"writes_total": 0}),
        Scenario("idle-10min", "ten minutes of nothing", idle, {"writes_total": 0, "cpu_percent": 0.2}),
        Scenario("one-pod", "one pod of five thousand dies", one_pod_dies, {"reaction_cpu_ms": 20}),
    )
}
DEFAULT = ("flat-1000", "disagg-900", "many-500", "update-1000", "recreate-1000", "scale-churn", "restart")
