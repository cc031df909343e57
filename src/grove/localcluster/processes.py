"""Which processes belong to a cluster, and how to end exactly those.

A number alone proves nothing, since pids are reused. A process is a cluster's own when its environment carries the
cluster's marker, and it is the one that was recorded when its kernel start time matches too. Signals go through a pidfd
that is opened before the check, so the process that was checked is the process that is signalled.
"""

from __future__ import annotations

import os
import select
import signal
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

MARKER_VARIABLE = "GROVE_LOCAL_CLUSTER"
_PROC = Path("/proc")


@dataclass(frozen=True)
class ProcessIdentity:
    """A process that cannot be mistaken for a later one with the same pid."""

    pid: int
    start_time: int


def marker_for(folder: Path) -> str:
    """The environment entry that every process of the cluster in this folder carries."""
    return f"{MARKER_VARIABLE}={folder.resolve()}"


def identity_of(pid: int) -> ProcessIdentity | None:
    """The identity of a living process; None when there is none or it is only a zombie."""
    try:
        text = (_PROC / str(pid) / "stat").read_text()
    except OSError:
        return None
    # The command's name stands in parentheses and may itself hold spaces and parentheses: count from the last one.
    after_name = text.rpartition(")")[2].split()
    if after_name[0] in {"Z", "X"}:
        return None
    return ProcessIdentity(pid, int(after_name[19]))


def carries_marker(pid: int, marker: str) -> bool:
    """Whether the process was started with the marker in its environment."""
    try:
        environment = (_PROC / str(pid) / "environ").read_bytes()
    except OSError:
        return False
    return marker.encode() in environment.split(b"\0")


def is_running(process: ProcessIdentity, marker: str) -> bool:
    """Whether this very process still lives and belongs to the cluster."""
    return identity_of(process.pid) == process and carries_marker(process.pid, marker)


def processes_of(marker: str) -> list[ProcessIdentity]:
    """Every living process that carries the marker, the caller excepted."""
    found = []
    for entry in _PROC.iterdir():
        if entry.name.isdigit() and int(entry.name) != os.getpid() and carries_marker(int(entry.name), marker):
            identity = identity_of(int(entry.name))
            if identity is not None:
                found.append(identity)
    return found


def send_signal(process: ProcessIdentity, marker: str, number: signal.Signals) -> bool:
    """Signal this very process; False when it is gone or somebody else's."""
    with _open_process(process.pid) as handle:
        if handle is None or not is_running(process, marker):
            return False
        try:
            signal.pidfd_send_signal(handle, number)
        except ProcessLookupError:
            return False
        return True


def wait_until_gone(processes: Iterable[ProcessIdentity], timeout: float) -> list[ProcessIdentity]:
    """Wait for the processes to end; return those that did not in time."""
    deadline = time.monotonic() + timeout
    return [process for process in processes if not _ended_before(process, deadline)]


def end_processes(marker: str, grace: float = 10.0) -> list[ProcessIdentity]:
    """End every process of the cluster: ask first, insist after the grace period. Returns those that were found.

    Newest first and one by one, since what started later may need what started before it in order to stop cleanly.
    """
    found = sorted(processes_of(marker), key=lambda process: process.start_time, reverse=True)
    for process in found:
        send_signal(process, marker, signal.SIGTERM)
        if wait_until_gone([process], grace):
            send_signal(process, marker, signal.SIGKILL)
            wait_until_gone([process], grace)
    return found


def _ended_before(process: ProcessIdentity, deadline: float) -> bool:
    with _open_process(process.pid) as handle:
        if handle is None or identity_of(process.pid) != process:
            return True
        poller = select.poll()
        poller.register(handle, select.POLLIN)
        remaining = max(0.0, deadline - time.monotonic())
        return bool(poller.poll(remaining * 1000))


@contextmanager
def _open_process(pid: int) -> Iterator[int | None]:
    try:
        handle = os.pidfd_open(pid)
    except OSError:
        yield None
        return
    try:
        yield handle
    finally:
        os.close(handle)
