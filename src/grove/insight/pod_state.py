"""What a pod is doing, in the one word kubectl would use, and what its containers say about themselves."""

from __future__ import annotations

from collections.abc import Iterator

from grove.api import labels
from grove.api.core import ContainerStatus
from grove.api.meta import condition
from grove.insight.kinds import PodDetail

GATED = "SchedulingGated"
CRASH_LOOP = "CrashLoopBackOff"
IMAGE_REASONS = frozenset({"ErrImagePull", "ImagePullBackOff", "InvalidImageName", "ErrImageNeverPull"})
CONFIG_REASONS = frozenset({"CreateContainerConfigError", "CreateContainerError", "RunContainerError"})


def state(pod: PodDetail) -> str:
    """The pod's state in one word."""
    if pod.metadata.terminating:
        return "Terminating"
    waiting = next((w for _, w in waiting_reasons(pod)), "")
    if waiting and waiting not in ("PodInitializing", "ContainerCreating"):
        return waiting
    if pod.spec.scheduling_gates and not pod.spec.node_name:
        return GATED
    if held_by_start_order(pod):
        return "WaitingToStart"
    return pod.status.reason or pod.status.phase or "Pending"


def waiting_reasons(pod: PodDetail) -> Iterator[tuple[str, str]]:
    """Containers that wait, each with why."""
    for container in _containers(pod):
        if container.state and container.state.waiting and container.state.waiting.reason:
            yield container.name, container.state.waiting.reason


def waiting_message(pod: PodDetail) -> str:
    for container in _containers(pod):
        if container.state and container.state.waiting and container.state.waiting.message:
            return container.state.waiting.message
    return ""


def last_exit(pod: PodDetail) -> tuple[str, int, str] | None:
    """The container that ended last time, with its exit code and the reason given."""
    for container in _containers(pod):
        for found in (container.last_state, container.state):
            if found and found.terminated and (found.terminated.exit_code or found.terminated.reason == "Error"):
                return container.name, found.terminated.exit_code, found.terminated.reason
    return None


def restarts(pod: PodDetail) -> int:
    return sum(c.restart_count for c in pod.status.container_statuses)


def held_by_start_order(pod: PodDetail) -> bool:
    """Whether the pod is on its node and waits for the cliques it starts after."""
    if not pod.spec.node_name or not any(c.get("name") == labels.INIT_CONTAINER for c in pod.spec.init_containers):
        return False
    initialized = condition(pod.status.conditions, "Initialized")
    return initialized is not None and initialized.status == "False"


def _containers(pod: PodDetail) -> list[ContainerStatus]:
    return [*pod.status.init_container_statuses, *pod.status.container_statuses]
