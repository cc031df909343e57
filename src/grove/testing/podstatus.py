"""The statuses a kubelet reports, as functions from a pod to the pod with its next status."""

from __future__ import annotations

from typing import Any

from grove.testing.objects import JsonObject, dig
from grove.testing.pods import with_condition


def container_statuses(pod: JsonObject, field: str = "containerStatuses") -> list[JsonObject]:
    return list(dig(pod, "status", field) or ())


def _with_status(pod: JsonObject, **changes: Any) -> JsonObject:
    return {**pod, "status": {**(pod.get("status") or {}), **changes}}


def _with_ready(pod: JsonObject, ready: bool, now: str, reason: str = "") -> JsonObject:
    why = {"reason": reason} if reason else {}
    for kind in ("ContainersReady", "Ready"):
        pod = with_condition(pod, {"type": kind, "status": "True" if ready else "False", **why}, now)
    return pod


def initializing(pod: JsonObject, now: str, address: str) -> JsonObject:
    """On its node, containers not started; init containers, if any, are running."""
    waiting = {"waiting": {"reason": "PodInitializing"}}
    has_init = bool(pod["spec"].get("initContainers"))
    statuses = [_container(container, waiting) for container in pod["spec"]["containers"]]
    changes: JsonObject = {"phase": "Pending", "startTime": now, "podIP": address, "podIPs": [{"ip": address}]}
    changes["containerStatuses"] = statuses
    if has_init:
        running = {"running": {"startedAt": now}}
        changes["initContainerStatuses"] = [_container(c, running) for c in pod["spec"]["initContainers"]]
    pod = _with_status(pod, **changes)
    pod = with_condition(pod, {"type": "Initialized", "status": "False" if has_init else "True"}, now)
    return _with_ready(pod, False, now, "ContainersNotReady")


def running(pod: JsonObject, now: str) -> JsonObject:
    """All containers run; none is ready yet."""
    state = {"running": {"startedAt": now}}
    known = {status["name"]: status for status in container_statuses(pod)}
    statuses = [
        {**_container(container, state), **_history(known.get(container["name"])), "started": True}
        for container in pod["spec"]["containers"]
    ]
    changes: JsonObject = {"phase": "Running", "containerStatuses": statuses}
    if pod["spec"].get("initContainers"):
        done = {"terminated": {"exitCode": 0, "reason": "Completed", "startedAt": now, "finishedAt": now}}
        changes["initContainerStatuses"] = [
            {**_container(container, done), "ready": True} for container in pod["spec"]["initContainers"]
        ]
    pod = _with_status(pod, **changes)
    pod = with_condition(pod, {"type": "Initialized", "status": "True"}, now)
    return _with_ready(pod, False, now, "ContainersNotReady")


def ready(pod: JsonObject, now: str) -> JsonObject:
    statuses = [{**status, "ready": True} for status in container_statuses(pod)]
    return _with_ready(_with_status(pod, containerStatuses=statuses), True, now)


def unready(pod: JsonObject, now: str, reason: str = "ContainersNotReady") -> JsonObject:
    statuses = [{**status, "ready": False} for status in container_statuses(pod)]
    return _with_ready(_with_status(pod, containerStatuses=statuses), False, now, reason)


def lost(pod: JsonObject, now: str) -> JsonObject:
    """The node stopped reporting: only the Ready condition changes, the last known container states stay."""
    return with_condition(pod, {"type": "Ready", "status": "False", "reason": "NodeNotReady"}, now)


def crashed(pod: JsonObject, now: str, exit_code: int) -> JsonObject:
    """Every container exited with an error and waits to be restarted."""
    statuses = []
    for status in container_statuses(pod):
        started = dig(status, "state", "running", "startedAt") or now
        ended = {"exitCode": exit_code, "reason": "Error", "startedAt": started, "finishedAt": now}
        statuses.append(
            {
                **status,
                "ready": False,
                "started": False,
                "restartCount": status.get("restartCount", 0) + 1,
                "state": {"waiting": {"reason": "CrashLoopBackOff"}},
                "lastState": {"terminated": ended},
            }
        )
    return _with_ready(_with_status(pod, containerStatuses=statuses), False, now, "ContainersNotReady")


def finished(pod: JsonObject, now: str, *, phase: str, exit_code: int, reason: str = "") -> JsonObject:
    """The pod is over: Succeeded, or Failed with an exit code."""
    ended = {
        "exitCode": exit_code,
        "reason": "Completed" if exit_code == 0 else "Error",
        "startedAt": now,
        "finishedAt": now,
    }
    statuses = [
        {**status, "ready": False, "started": False, "state": {"terminated": ended}}
        for status in container_statuses(pod)
    ]
    why = {"reason": reason} if reason else {}
    pod = _with_status(pod, phase=phase, containerStatuses=statuses, **why)
    return _with_ready(pod, False, now, "PodCompleted" if exit_code == 0 else "PodFailed")


def is_ready(pod: JsonObject) -> bool:
    conditions = dig(pod, "status", "conditions") or ()
    return any(condition["type"] == "Ready" and condition["status"] == "True" for condition in conditions)


def _container(container: JsonObject, state: JsonObject) -> JsonObject:
    return {
        "name": container["name"],
        "image": container.get("image", ""),
        "imageID": "",
        "ready": False,
        "started": False,
        "restartCount": 0,
        "state": state,
        "lastState": {},
    }


def _history(status: JsonObject | None) -> JsonObject:
    if status is None:
        return {}
    return {"restartCount": status.get("restartCount", 0), "lastState": status.get("lastState", {})}
