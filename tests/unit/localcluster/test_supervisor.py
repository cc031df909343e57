"""The supervisor reports how its components are and how they ended."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from grove.localcluster.components import Component, Wave
from grove.localcluster.errors import LocalClusterError, NotRunningError
from grove.localcluster.processes import end_processes, identity_of, marker_for, processes_of, wait_until_gone
from grove.localcluster.spec import ClusterFiles
from grove.localcluster.states import ComponentState
from grove.localcluster.supervision import (
    ask,
    current_status,
    log_tail,
    reap_supervisors,
    remembered_status,
    restart_component,
    start_component,
    start_supervisor,
    still_running,
)
from grove.localcluster.supervisor import Supervisor


def component(name: str, program: str, wave: Wave = Wave.CONTROLLERS) -> Component:
    return Component(name, (sys.executable, "-c", program), wave)


SLEEPER = component("sleeper", "import time; time.sleep(600)")


@pytest.fixture
def files(tmp_path: Path) -> Iterator[ClusterFiles]:
    """A running supervisor without components, in a folder whose path is too long for a Unix socket."""
    folder = tmp_path / ("long" * 30)
    folder.mkdir()
    files = ClusterFiles(folder)
    start_supervisor(files)
    yield files
    end_processes(marker_for(folder))
    reap_supervisors()


def test_component_runs_until_shutdown(files: ClusterFiles) -> None:
    started = start_component(files, SLEEPER)
    assert started.state is ComponentState.READY
    everyone = processes_of(marker_for(files.folder))
    assert len(everyone) == 2
    ask(files, {"command": "shutdown"})
    assert wait_until_gone(everyone, 10) == []
    remembered = remembered_status(files)
    assert remembered is not None
    assert remembered.components["sleeper"].state is ComponentState.STOPPED
    assert not files.socket.exists()


def test_crash_is_recorded_with_status_and_log(files: ClusterFiles) -> None:
    started = start_component(files, component("short-lived", "print('out of ideas'); raise SystemExit(3)"))
    wait_until_gone([started.identity], 10)
    status = current_status(files)
    assert status is not None
    assert status.components["short-lived"].state is ComponentState.EXITED
    assert status.components["short-lived"].ending == "exited with status 3"
    assert log_tail(files, "short-lived") == "out of ideas"


def test_signal_is_named(files: ClusterFiles) -> None:
    started = start_component(files, SLEEPER)
    os.kill(started.pid, signal.SIGKILL)
    wait_until_gone([started.identity], 10)
    status = current_status(files)
    assert status is not None
    assert status.components["sleeper"].ending == "was killed by SIGKILL"


async def test_end_is_told_as_soon_as_the_loop_knows_of_it(tmp_path: Path) -> None:
    """The process has been reaped, and the task that writes its end down has not had its turn."""
    supervisor = Supervisor(ClusterFiles(tmp_path))
    supervised = await supervisor._spawn(SLEEPER)
    reaped = asyncio.Event()

    async def write_down() -> None:
        await reaped.wait()
        await supervisor._watch(supervised)

    supervised.watcher = asyncio.create_task(write_down())
    supervised.process.kill()
    await supervised.process.wait()
    reaped.set()
    status = await supervisor._answer({"command": "status"})
    assert status["components"]["sleeper"]["state"] == "exited"


def test_running_component_is_not_started_twice(files: ClusterFiles) -> None:
    assert start_component(files, SLEEPER).pid == start_component(files, SLEEPER).pid


def test_restart_replaces_the_process_and_keeps_the_old_log(files: ClusterFiles) -> None:
    talker = component("talker", "import os, time; print(os.getpid(), flush=True); time.sleep(600)")
    first = start_component(files, talker)
    second = restart_component(files, "talker")
    assert second.state is ComponentState.READY
    assert first.pid != second.pid
    assert identity_of(first.pid) != first.identity
    assert (files.logs / "talker.previous.log").exists()


def test_restart_of_an_unknown_component_names_the_known_ones(files: ClusterFiles) -> None:
    start_component(files, SLEEPER)
    with pytest.raises(LocalClusterError, match="there are sleeper"):
        restart_component(files, "nobody")


def test_later_waves_stop_first(files: ClusterFiles) -> None:
    order = files.folder / "order"
    farewell = (
        "import signal, sys, time\n"
        "def end(*_):\n"
        f"    open({str(order)!r}, 'a').write(sys.argv[1] + '\\n'); sys.exit(0)\n"
        "signal.signal(signal.SIGTERM, end)\n"
        "open(sys.argv[2], 'w').close()\n"
        "while True: time.sleep(600)\n"
    )
    for wave in (Wave.STORAGE, Wave.API, Wave.CONTROLLERS):
        flag = files.folder / f"ready-{wave.name}"
        os.mkfifo(flag)
        argv = (sys.executable, "-c", farewell, wave.name, str(flag))
        start_component(files, Component(wave.name, argv, wave))
        # Opening the other end of the pipe waits until the program has its signal handler.
        flag.read_bytes()
    everyone = processes_of(marker_for(files.folder))
    ask(files, {"command": "shutdown"})
    wait_until_gone(everyone, 10)
    assert order.read_text().split() == ["CONTROLLERS", "API", "STORAGE"]


def test_orphans_of_a_killed_supervisor_are_known_by_name(files: ClusterFiles) -> None:
    start_component(files, SLEEPER)
    status = current_status(files)
    assert status is not None
    os.kill(status.pid, signal.SIGKILL)
    wait_until_gone([status.identity], 10)
    with pytest.raises(NotRunningError):
        ask(files, {"command": "status"})
    remembered = remembered_status(files)
    assert remembered is not None
    assert still_running(files, remembered) == ["sleeper"]


def test_nonsense_on_the_socket_does_no_harm(files: ClusterFiles) -> None:
    with pytest.raises(LocalClusterError, match="unknown command"):
        ask(files, {"command": "dance"})
    assert current_status(files) is not None


def test_supervisor_refuses_to_run_unmarked(tmp_path: Path) -> None:
    answer = subprocess.run(
        [sys.executable, "-m", "grove.localcluster.supervisor", str(tmp_path)],
        capture_output=True,
        text=True,
        check=False,
    )
    assert answer.returncode == 1
    assert "grove local up" in answer.stderr


def test_state_of_garbage_is_no_state(tmp_path: Path) -> None:
    files = ClusterFiles(tmp_path)
    assert remembered_status(files) is None
    files.state.write_text(json.dumps({"pid": 1}))
    assert remembered_status(files) is None
