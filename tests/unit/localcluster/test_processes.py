"""A process is ended only when it is provably the cluster's own."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from grove.localcluster.processes import (
    MARKER_VARIABLE,
    ProcessIdentity,
    carries_marker,
    end_processes,
    identity_of,
    is_running,
    marker_for,
    processes_of,
    send_signal,
    wait_until_gone,
)

SLEEPER = "import sys, time; print('up', flush=True); time.sleep(600)"
STUBBORN = f"import signal; signal.signal(signal.SIGTERM, signal.SIG_IGN); {SLEEPER}"


class Sleepers:
    """Starts processes that do nothing, and clears them away."""

    def __init__(self) -> None:
        self._started: list[subprocess.Popen[str]] = []

    def start(self, folder: Path, program: str = SLEEPER) -> subprocess.Popen[str]:
        environment = {**os.environ, MARKER_VARIABLE: str(folder.resolve())}
        process = subprocess.Popen([sys.executable, "-c", program], env=environment, stdout=subprocess.PIPE, text=True)
        assert process.stdout is not None
        assert process.stdout.readline() == "up\n"
        self._started.append(process)
        return process

    def clear(self) -> None:
        for process in self._started:
            process.kill()
            process.communicate()


@pytest.fixture
def sleepers() -> Iterator[Sleepers]:
    sleepers = Sleepers()
    yield sleepers
    sleepers.clear()


def identity(process: subprocess.Popen[str]) -> ProcessIdentity:
    found = identity_of(process.pid)
    assert found is not None
    return found


def test_own_identity_is_stable() -> None:
    assert identity_of(os.getpid()) == identity_of(os.getpid())


def test_there_is_no_identity_for_a_zombie(sleepers: Sleepers, tmp_path: Path) -> None:
    process = sleepers.start(tmp_path)
    found = identity(process)
    process.kill()
    wait_until_gone([found], 10)
    # Not waited for yet, so the kernel still lists it.
    assert Path(f"/proc/{process.pid}").exists()
    assert identity_of(process.pid) is None


def test_command_name_with_parentheses_does_not_confuse_the_start_time(sleepers: Sleepers, tmp_path: Path) -> None:
    program = tmp_path / "a) Z (b"
    program.symlink_to(shutil.which("sleep") or "/bin/sleep")
    with subprocess.Popen([program, "600"]) as process:
        plain = sleepers.start(tmp_path)
        later, earlier = identity_of(plain.pid), identity_of(process.pid)
        process.kill()
    assert earlier is not None
    assert later is not None
    assert 0 < earlier.start_time <= later.start_time


def test_marker_must_match_as_a_whole(sleepers: Sleepers, tmp_path: Path) -> None:
    process = sleepers.start(tmp_path / "cluster-1")
    assert carries_marker(process.pid, marker_for(tmp_path / "cluster-1"))
    assert not carries_marker(process.pid, marker_for(tmp_path / "cluster"))


def test_same_pid_with_another_start_time_is_a_stranger(sleepers: Sleepers, tmp_path: Path) -> None:
    process = sleepers.start(tmp_path)
    marker = marker_for(tmp_path)
    stale = replace(identity(process), start_time=1)
    assert not is_running(stale, marker)
    assert not send_signal(stale, marker, signal.SIGKILL)
    assert process.poll() is None


def test_recorded_process_without_the_marker_is_a_stranger(sleepers: Sleepers, tmp_path: Path) -> None:
    process = sleepers.start(tmp_path / "theirs")
    assert not send_signal(identity(process), marker_for(tmp_path / "ours"), signal.SIGKILL)
    assert process.poll() is None


def test_ending_a_cluster_spares_its_neighbour(sleepers: Sleepers, tmp_path: Path) -> None:
    ours = [sleepers.start(tmp_path / "ours") for _ in range(2)]
    theirs = sleepers.start(tmp_path / "theirs")
    assert {process.pid for process in processes_of(marker_for(tmp_path / "ours"))} == {one.pid for one in ours}
    end_processes(marker_for(tmp_path / "ours"))
    assert [process.wait() for process in ours] == [-signal.SIGTERM] * 2
    assert theirs.poll() is None
    assert processes_of(marker_for(tmp_path / "ours")) == []


def test_process_that_ignores_the_request_is_killed(sleepers: Sleepers, tmp_path: Path) -> None:
    process = sleepers.start(tmp_path, STUBBORN)
    end_processes(marker_for(tmp_path), grace=0.1)
    assert process.wait() == -signal.SIGKILL
