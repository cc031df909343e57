"""The process that owns a cluster's components: starts them, watches them, records how they end, stops them.

It restarts nothing by itself: a crash is news, not something to paper over. Commands come over a Unix socket, one JSON
line each; after every change the whole state is written to a file, so that it can still be read when this process is
gone. Run as `python -m grove.localcluster.supervisor FOLDER`.
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from grove.localcluster.components import Component
from grove.localcluster.probes import answers
from grove.localcluster.processes import MARKER_VARIABLE, ProcessIdentity, identity_of
from grove.localcluster.spec import ClusterFiles
from grove.localcluster.states import ComponentState, ComponentStatus, SupervisorStatus
from grove.localcluster.supervision import reachable

READY_TIMEOUT = 60.0
STOP_GRACE = 10.0
_PROBE_INTERVAL = 0.05


@dataclass
class _Supervised:
    component: Component
    process: asyncio.subprocess.Process
    status: ComponentStatus
    stopping: bool = False
    watcher: asyncio.Task[None] | None = None


class Supervisor:
    """All components of one cluster, by name."""

    def __init__(self, files: ClusterFiles) -> None:
        self._files = files
        self._supervised: dict[str, _Supervised] = {}
        self._stop = asyncio.Event()
        self._own_identity = identity_of(os.getpid()) or ProcessIdentity(os.getpid(), 0)

    async def run(self) -> None:
        """Serve commands until told to stop, then end the components in reverse order of their start."""
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, self._stop.set)
        self._files.socket.unlink(missing_ok=True)
        with reachable(self._files.socket) as address:
            server = await asyncio.start_unix_server(self._serve, address)
            self._files.socket.chmod(0o600)
            self._write_state()
            await self._stop.wait()
        server.close()
        await self._stop_all()
        self._files.socket.unlink(missing_ok=True)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            answer = await self._answer(json.loads(await reader.readline()))
            writer.write(json.dumps(answer).encode() + b"\n")
            await writer.drain()
        except (OSError, ValueError):
            # The asking side went away or spoke nonsense; the components must not suffer from it.
            pass
        finally:
            writer.close()

    async def _answer(self, request: Mapping[str, Any]) -> dict[str, Any]:
        match request.get("command"):
            case "start":
                return asdict(await self._start(Component.from_dict(request["component"])))
            case "restart":
                return await self._restart(str(request["name"]))
            case "status":
                await self._notice_the_dead()
                return self._status().to_dict()
            case "shutdown":
                self._stop.set()
                return {}
            case other:
                return {"error": f"unknown command {other!r}"}

    async def _start(self, component: Component) -> ComponentStatus:
        """Start a component, or say how it is when it already runs; answers once it is ready or dead."""
        running = self._supervised.get(component.name)
        if running and running.status.exit_code is None:
            return running.status
        supervised = await self._spawn(component)
        supervised.watcher = asyncio.create_task(self._watch(supervised))
        await self._await_ready(supervised)
        return supervised.status

    async def _restart(self, name: str) -> dict[str, Any]:
        supervised = self._supervised.get(name)
        if supervised is None:
            return {"error": f"no component {name!r}; there are {', '.join(self._supervised)}"}
        await self._stop_one(supervised)
        return asdict(await self._start(supervised.component))

    async def _spawn(self, component: Component) -> _Supervised:
        log_path = self._files.log(component.name)
        log_path.parent.mkdir(parents=True, exist_ok=True)
        if log_path.exists():
            log_path.replace(log_path.with_suffix(".previous.log"))
        environment = {**os.environ, **component.environment}
        with log_path.open("wb") as log:
            process = await asyncio.create_subprocess_exec(
                *component.argv,
                stdin=asyncio.subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                env=environment,
                cwd=self._files.folder,
                start_new_session=True,
            )
        identity = identity_of(process.pid) or ProcessIdentity(process.pid, 0)
        status = ComponentStatus(component.name, identity.pid, identity.start_time, started_at=time.time())
        supervised = _Supervised(component, process, status)
        self._supervised[component.name] = supervised
        self._write_state()
        return supervised

    async def _watch(self, supervised: _Supervised) -> None:
        code = await supervised.process.wait()
        state = ComponentState.STOPPED if supervised.stopping else ComponentState.EXITED
        supervised.status = supervised.status.ended(state, code)
        self._write_state()

    async def _notice_the_dead(self) -> None:
        """Catch up with processes that have ended but whose end the loop has not been told of yet."""
        for supervised in list(self._supervised.values()):
            # The loop may know of the end before the watcher has had its turn to write it down.
            ended = supervised.process.returncode is not None or not identity_of(supervised.status.pid)
            if supervised.watcher and supervised.status.exit_code is None and ended:
                await supervised.watcher

    async def _await_ready(self, supervised: _Supervised) -> None:
        deadline = time.monotonic() + READY_TIMEOUT
        probe = supervised.component.probe
        while supervised.status.state is ComponentState.STARTING and time.monotonic() < deadline:
            if probe is None or await asyncio.to_thread(answers, probe):
                if supervised.status.state is ComponentState.STARTING:
                    supervised.status = supervised.status.became(ComponentState.READY)
                    self._write_state()
                return
            await asyncio.sleep(_PROBE_INTERVAL)

    async def _stop_all(self) -> None:
        waves = sorted({supervised.component.wave for supervised in self._supervised.values()}, reverse=True)
        for wave in waves:
            members = [one for one in self._supervised.values() if one.component.wave == wave]
            await asyncio.gather(*(self._stop_one(one) for one in members))

    async def _stop_one(self, supervised: _Supervised) -> None:
        if supervised.process.returncode is None:
            supervised.stopping = True
            with suppress(ProcessLookupError):
                supervised.process.terminate()
            try:
                await asyncio.wait_for(supervised.process.wait(), STOP_GRACE)
            except TimeoutError:
                with suppress(ProcessLookupError):
                    supervised.process.kill()
        if supervised.watcher is not None:
            await supervised.watcher

    def _status(self) -> SupervisorStatus:
        components = {name: one.status for name, one in self._supervised.items()}
        return SupervisorStatus(self._own_identity.pid, self._own_identity.start_time, components)

    def _write_state(self) -> None:
        partial = self._files.state.with_suffix(".partial")
        partial.write_text(json.dumps(self._status().to_dict(), indent=2) + "\n")
        partial.replace(self._files.state)


def main() -> None:
    """Supervise the cluster in the folder given on the command line, under that cluster's marker."""
    folder = Path(sys.argv[1])
    if os.environ.get(MARKER_VARIABLE) != str(folder.resolve()):
        raise SystemExit(f"start the supervisor through `grove local up`: {MARKER_VARIABLE} does not name {folder}")
    asyncio.run(Supervisor(ClusterFiles(folder)).run())


if __name__ == "__main__":
    main()
