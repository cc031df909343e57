"""Amounts of resources: what a pod asks for, what a node has, and how to say it.

A pod asks for the sum of its containers, or for its largest init container if that is more; a limit without a request
is a request.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from grove.admission.quantity import amount

Amounts = Mapping[str, float]

CPU, MEMORY, PODS = "cpu", "memory", "pods"
GPU_NAMES = ("nvidia.com/gpu", "amd.com/gpu", "gpu.intel.com/i915")
_IGNORED = frozenset({"ephemeral-storage"})


def amounts(quantities: Mapping[str, Any]) -> dict[str, float]:
    """Quantities as numbers."""
    found = {name: amount(value) for name, value in quantities.items() if name not in _IGNORED}
    return {name: value for name, value in found.items() if value is not None}


def plus(one: Amounts, other: Amounts, times: float = 1.0) -> dict[str, float]:
    found = dict(one)
    for name, value in other.items():
        found[name] = found.get(name, 0.0) + times * value
    return found


def fits(wanted: Amounts, free: Amounts) -> bool:
    """Whether everything wanted is free; tiny differences are rounding."""
    return all(value <= free.get(name, 0.0) + 1e-6 for name, value in wanted.items() if value > 0)


def lacking(wanted: Amounts, free: Amounts) -> dict[str, float]:
    """What is missing."""
    found = {name: value - free.get(name, 0.0) for name, value in wanted.items()}
    return {name: value for name, value in found.items() if value > 1e-6}


def gpus(found: Amounts) -> float:
    return sum(found.get(name, 0.0) for name in GPU_NAMES)


def pod_requests(spec: Mapping[str, Any]) -> dict[str, float]:
    """What one pod of this spec (as in a manifest) takes from a node; it is also one pod."""
    running: dict[str, float] = {}
    starting: dict[str, float] = {}
    for container in spec.get("containers") or ():
        running = plus(running, _container(container))
    beside: dict[str, float] = {}
    for container in spec.get("initContainers") or ():
        wanted = _container(container)
        if container.get("restartPolicy") == "Always":
            beside = plus(beside, wanted)
            wanted = beside
        else:
            wanted = plus(beside, wanted)
        starting = _larger(starting, wanted)
    found = _larger(plus(running, beside), starting)
    return {**plus(found, amounts(spec.get("overhead") or {})), PODS: 1.0}


def _container(container: Mapping[str, Any]) -> dict[str, float]:
    resources = container.get("resources") or {}
    return amounts({**(resources.get("limits") or {}), **(resources.get("requests") or {})})


def _larger(one: Amounts, other: Amounts) -> dict[str, float]:
    return {name: max(one.get(name, 0.0), other.get(name, 0.0)) for name in {*one, *other}}


def said(name: str, value: float) -> str:
    """An amount for a person: `8 GPUs`, `500m CPU`, `64Gi memory`."""
    if name in GPU_NAMES:
        return f"{value:g} GPU{'' if value == 1 else 's'}"
    if name == CPU:
        return f"{value:g} CPU" if value >= 1 or value == 0 else f"{value * 1000:.0f}m CPU"
    if name == MEMORY:
        for unit, size in (("Ti", 2**40), ("Gi", 2**30), ("Mi", 2**20), ("Ki", 2**10)):
            if value >= size:
                return f"{value / size:.4g}{unit} memory"
        return f"{value:g} B memory"
    if name == PODS:
        return f"{value:g} pod{'' if value == 1 else 's'}"
    return f"{value:g} {name}"


def all_said(found: Amounts) -> str:
    """Several amounts, GPUs first, pods last."""
    order = sorted(found, key=lambda n: (n not in GPU_NAMES, n == PODS, n))
    return ", ".join(said(name, found[name]) for name in order if found[name] > 0)


def total(of: Iterable[Amounts]) -> dict[str, float]:
    found: dict[str, float] = {}
    for one in of:
        found = plus(found, one)
    return found
