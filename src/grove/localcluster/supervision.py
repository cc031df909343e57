"""The other end of the supervisor's socket: starting one, asking it, and reading what a dead one left behind."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from grove.localcluster.components import Component
from grove.localcluster.errors import ComponentError, LocalClusterError, NotRunningError
from grove.localcluster.processes import MARKER_VARIABLE, is_running, marker_for
from grove.localcluster.spec import ClusterFiles
from grove.localcluster.states import ComponentStatus, SupervisorStatus

_ANSWER_TIMEOUT = 120.0
_START_TIMEOUT = 10.0


@contextmanager
def reachable(path: Path) -> Iterator[str]:
    """A short name for a socket path, since the kernel takes 107 bytes at most: through the folder's descriptor."""
    folder = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY)
    try:
        yield f"/proc/self/fd/{folder}/{path.name}"
    finally:
        os.close(folder)


def ask(files: ClusterFiles, request: Mapping[str, Any]) -> dict[str, Any]:
    """Send one command to the supervisor and wait for its answer."""
    try:
        answer = _exchange(files, json.dumps(request).encode() + b"\n")
    except (OSError, ValueError) as error:
        raise NotRunningError(f"the cluster in {files.folder} is not running: {error}") from error
    if "error" in answer:
        raise LocalClusterError(answer["error"])
    return answer


def _exchange(files: ClusterFiles, line: bytes) -> dict[str, Any]:
    if not files.folder.exists():
        raise FileNotFoundError(f"there is no {files.folder}")
    with reachable(files.socket) as address, socket.socket(socket.AF_UNIX) as connection:
        connection.settimeout(_ANSWER_TIMEOUT)
        connection.connect(address)
        connection.sendall(line)
        with connection.makefile("rb") as answers:
            answer: dict[str, Any] = json.loads(answers.readline())
    return answer


def start_component(files: ClusterFiles, component: Component) -> ComponentStatus:
    """Start a component and wait until it is ready or dead."""
    return ComponentStatus.from_dict(ask(files, {"command": "start", "component": component.to_dict()}))


def restart_component(files: ClusterFiles, name: str) -> ComponentStatus:
    """Stop a component and start it again with the command line it had."""
    return ComponentStatus.from_dict(ask(files, {"command": "restart", "name": name}))


def current_status(files: ClusterFiles) -> SupervisorStatus | None:
    """What the supervisor says, or None when none answers."""
    try:
        return SupervisorStatus.from_dict(ask(files, {"command": "status"}))
    except NotRunningError:
        return None


def remembered_status(files: ClusterFiles) -> SupervisorStatus | None:
    """What the last supervisor wrote down; it may be long gone."""
    try:
        return SupervisorStatus.from_dict(json.loads(files.state.read_text()))
    except (OSError, ValueError, KeyError, TypeError):
        return None


def start_supervisor(files: ClusterFiles) -> None:
    """Start the supervisor in a session of its own and wait until it answers."""
    files.logs.mkdir(parents=True, exist_ok=True)
    environment = {**os.environ, MARKER_VARIABLE: str(files.folder.resolve())}
    with files.log("supervisor").open("wb") as log:
        process = subprocess.Popen(
            [sys.executable, "-P", "-m", "grove.localcluster.supervisor", str(files.folder)],
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            env=environment,
            cwd=files.folder,
            start_new_session=True,
        )
    deadline = time.monotonic() + _START_TIMEOUT
    while current_status(files) is None:
        if process.poll() is not None or time.monotonic() > deadline:
            raise ComponentError(f"the supervisor did not start:\n{log_tail(files, 'supervisor')}")
        time.sleep(0.02)
    # Never waited for: it outlives this process, and a caller that stays (a test) reaps it when it stops the cluster.
    _STARTED[process.pid] = process


def reap_supervisors() -> None:
    """Collect the supervisors this very process started and that have ended, so that none stays behind as a zombie."""
    for pid, process in list(_STARTED.items()):
        if process.poll() is not None:
            del _STARTED[pid]


_STARTED: dict[int, subprocess.Popen[bytes]] = {}


def still_running(files: ClusterFiles, status: SupervisorStatus) -> list[str]:
    """The names of those remembered components whose very process is alive."""
    marker = marker_for(files.folder)
    return [name for name, one in status.components.items() if is_running(one.identity, marker)]


def log_tail(files: ClusterFiles, component: str, lines: int = 15) -> str:
    """The last lines a component wrote."""
    try:
        written = files.log(component).read_text(errors="replace").splitlines()
    except OSError:
        return "(no log)"
    if not written:
        return "(the log is empty)"
    return "\n".join(written[max(0, len(written) - lines) :])
