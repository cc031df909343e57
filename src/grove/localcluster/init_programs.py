"""Running one waiting program to its end, in a process or in a thread.

A process is the program exactly as an image starts it: interpreter, command line, environment, signals. It also costs
an interpreter, which a machine can afford for dozens of pods and not for hundreds. In a thread the same arguments are
parsed and the same wait is run, over a connection and with an identity of its own; only the interpreter is shared.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from grove.initc.arguments import ArgumentsError, parse
from grove.initc.main import MALFORMED, STOPPED
from grove.initc.waiting import Wait
from grove.localcluster.processes import MARKER_VARIABLE

Log = Callable[[str], None]

_INHERITED = (MARKER_VARIABLE, "PATH", "LANG")


@dataclass(frozen=True)
class Call:
    """What the program is called with, and where its lines go."""

    arguments: Sequence[str]
    environment: Mapping[str, str]
    log: Log


class Program(Protocol):
    """One program. `run` blocks and gives the exit status; `stop`, from another thread, ends it early."""

    def run(self) -> int: ...

    def stop(self) -> None: ...


class ProcessProgram:
    """The program in a process of its own."""

    def __init__(self, call: Call) -> None:
        self._call = call
        self._stopped = False
        self._process: subprocess.Popen[str] | None = None
        self._starting = threading.Lock()

    def run(self) -> int:
        # Its own surroundings and nothing of ours, except the cluster's marker, by which `down` finds it.
        inherited = {name: os.environ[name] for name in _INHERITED if name in os.environ}
        with self._starting:
            if self._stopped:
                return -signal.SIGTERM
            self._process = process = subprocess.Popen(
                [sys.executable, "-P", "-m", "grove.initc.main", *self._call.arguments],
                env={**inherited, **self._call.environment},
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
            )
        with process:
            for line in process.stdout or ():
                self._call.log(line.rstrip())
        return process.returncode

    def stop(self) -> None:
        with self._starting:
            self._stopped = True
            process = self._process
        if process is not None:
            process.terminate()


class ThreadProgram:
    """The program's own code in the calling thread."""

    def __init__(self, call: Call) -> None:
        self._call = call
        self._stopped = False
        self._wait: Wait | None = None

    def run(self) -> int:
        try:
            task = parse(self._call.arguments, self._call.environment)
        except ArgumentsError as error:
            self._call.log(f"grove-initc: {error}")
            return MALFORMED
        self._wait = wait = Wait(task, self._call.log)
        if self._stopped:
            return STOPPED
        return 0 if wait.run() else STOPPED

    def stop(self) -> None:
        self._stopped = True
        if self._wait is not None:
            self._wait.stop()
