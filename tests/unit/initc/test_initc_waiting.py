"""grove-initc against an API server over HTTP: what it waits for, and what it gets over."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest

from grove.initc import waiting
from grove.initc.arguments import Task, parse
from grove.runtime import requests
from grove.runtime.client import Client
from grove.runtime.resource import Resource
from grove.testing import ApiServer
from grove.testing.httpserver import serve
from grove.testing.state import WallClock

PODS: Resource[dict[str, Any]] = Resource("", "v1", "pods", "Pod", dict)
ENVIRONMENT = {"POD_NAMESPACE": "default", "POD_GANG": "w-0"}
LIMIT = 20.0


@pytest.fixture(autouse=True)
def _no_long_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(waiting, "_FIRST_PAUSE", 0.01)
    monkeypatch.setattr(waiting, "_LONGEST_PAUSE", 0.02)


@pytest.fixture
def token_file(tmp_path: Path) -> Path:
    path = tmp_path / "token"
    path.write_text("first-token\n")
    return path


@dataclass
class Pods:
    """The pods on the server, for a test to play with."""

    server: ApiServer
    client: Client = field(init=False)

    def __post_init__(self) -> None:
        self.client = Client(self.server.transport())

    async def create(self, name: str, clique: str, gang: str = "w-0", **metadata: Any) -> None:
        labels = {"grove.io/podclique": clique, "grove.io/podgang": gang}
        body = {
            "metadata": {"name": name, "namespace": "default", "labels": labels, **metadata},
            "spec": {"containers": [{"name": "main", "image": "example/main:1"}]},
        }
        await self.client.send(requests.create(PODS, body))

    async def ready(self, name: str, value: bool = True) -> None:
        status = {"status": {"conditions": [{"type": "Ready", "status": str(value)}]}}
        await self.client.send(requests.merge_patch(PODS, "default", name, status, subresource="status"))

    async def delete(self, name: str) -> None:
        await self.client.delete(PODS, "default", name)


@dataclass
class Program:
    """A wait in a thread of its own, with the lines it logs."""

    wait: waiting.Wait
    lines: asyncio.Queue[str]
    result: asyncio.Task[bool]

    async def says(self, beginning: str) -> str:
        """The next line that begins so."""
        async with asyncio.timeout(LIMIT):
            while True:
                line = await self.lines.get()
                if line.startswith(beginning):
                    return line

    async def outcome(self) -> bool:
        async with asyncio.timeout(LIMIT):
            return await self.result


@asynccontextmanager
async def program(task: Task) -> AsyncIterator[Program]:
    loop = asyncio.get_running_loop()
    lines: asyncio.Queue[str] = asyncio.Queue()
    wait = waiting.Wait(task, lambda line: loop.call_soon_threadsafe(lines.put_nowait, line))
    result = asyncio.create_task(asyncio.to_thread(wait.run))
    try:
        yield Program(wait, lines, result)
    finally:
        wait.stop()
        await result


def task_for(url: str, token_file: Path, *parents: str) -> Task:
    return parse([*(f"-p={one}" for one in parents), f"--server={url}", f"--token-file={token_file}"], ENVIRONMENT)


async def until(reached: Callable[[], bool]) -> None:
    async with asyncio.timeout(LIMIT):
        while not reached():
            await a_moment()


async def a_moment() -> None:
    """Long enough for the thread or process under test to get on; requests are no events one could wait for."""
    await asyncio.sleep(0.005)


def watches(server: ApiServer) -> int:
    return sum(1 for entry in server.log.entries if entry.verb == "watch")


def lists(server: ApiServer) -> int:
    return sum(1 for entry in server.log.entries if entry.verb == "list")


def put(path: Path, text: str) -> None:
    path.write_text(text)


def peak_kilobytes(pid: int) -> int:
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("VmHWM:"))


async def test_wait_ends_when_every_parent_has_its_minimum(token_file: Path) -> None:
    server = ApiServer(WallClock())
    pods = Pods(server)
    async with serve(server) as url, program(task_for(url, token_file, "w-0-a:2", "w-0-b:1")) as waiting_for:
        assert await waiting_for.says("") == "waiting for w-0-a: 0 of 2 ready, w-0-b: 0 of 1 ready"
        for name, clique in (("a-0", "w-0-a"), ("a-1", "w-0-a"), ("b-0", "w-0-b")):
            await pods.create(name, clique)
        await pods.ready("a-0")
        assert await waiting_for.says("") == "waiting for w-0-a: 1 of 2 ready, w-0-b: 0 of 1 ready"
        await pods.ready("b-0")
        assert await waiting_for.says("") == "waiting for w-0-a: 1 of 2 ready"
        await pods.ready("a-1")
        assert await waiting_for.says("") == "every parent is ready"
        assert await waiting_for.outcome()


async def test_parents_that_are_ready_already_need_no_watch(token_file: Path) -> None:
    server = ApiServer(WallClock())
    pods = Pods(server)
    await pods.create("a-0", "w-0-a")
    await pods.ready("a-0")
    async with serve(server) as url, program(task_for(url, token_file, "w-0-a:1")) as waiting_for:
        assert await waiting_for.outcome()
    assert watches(server) == 0


async def test_list_of_many_pages_is_read_to_its_end(token_file: Path) -> None:
    server = ApiServer(WallClock())
    pods = Pods(server)
    for index in range(230):
        await pods.create(f"a-{index:03}", "w-0-a")
    await pods.ready("a-000")
    await pods.ready("a-229")
    async with serve(server) as url, program(task_for(url, token_file, "w-0-a:2")) as waiting_for:
        assert await waiting_for.outcome()


async def test_pods_of_other_gangs_and_of_cliques_with_a_longer_name_do_not_count(token_file: Path) -> None:
    server = ApiServer(WallClock())
    pods = Pods(server)
    async with serve(server) as url, program(task_for(url, token_file, "w-0-pc:1")) as waiting_for:
        await waiting_for.says("waiting for w-0-pc: 0 of 1 ready")
        await pods.create("w-0-pc-0", "w-0-pc", gang="w-0-group-1")
        await pods.ready("w-0-pc-0")
        await pods.create("w-0-pc-a-0", "w-0-pc-a")
        await pods.ready("w-0-pc-a-0")
        await pods.create("right", "w-0-pc")
        await pods.ready("right")
        assert await waiting_for.outcome()
        assert waiting_for.lines.qsize() == 1


async def test_pod_that_is_being_deleted_does_not_count(token_file: Path) -> None:
    server = ApiServer(WallClock())
    pods = Pods(server)
    await pods.create("a-0", "w-0-a", finalizers=["example.com/hold"])
    await pods.ready("a-0")
    async with serve(server) as url, program(task_for(url, token_file, "w-0-a:2")) as waiting_for:
        await waiting_for.says("waiting for w-0-a: 1 of 2 ready")
        await pods.delete("a-0")
        await waiting_for.says("waiting for w-0-a: 0 of 2 ready")
        for name in ("a-1", "a-2"):
            await pods.create(name, "w-0-a")
            await pods.ready(name)
        assert await waiting_for.outcome()


async def test_broken_watch_is_resumed_where_it_stood(token_file: Path) -> None:
    server = ApiServer(WallClock())
    pods = Pods(server)
    await pods.create("a-0", "w-0-a")
    async with serve(server) as url, program(task_for(url, token_file, "w-0-a:1")) as waiting_for:
        await until(lambda: watches(server) == 1)
        server.drop_watches()
        await pods.ready("a-0")
        assert await waiting_for.outcome()
    assert lists(server) == 1


async def test_version_that_is_too_old_leads_to_a_new_list(token_file: Path) -> None:
    server = ApiServer(WallClock())
    pods = Pods(server)
    async with serve(server) as url, program(task_for(url, token_file, "w-0-a:1")) as waiting_for:
        await until(lambda: watches(server) == 1)
        # The world moves on without an event for this watch; then it breaks, and its past is forgotten.
        await pods.create("stranger", "w-1-a", gang="w-1")
        server.drop_watches()
        server.compact()
        await pods.create("a-0", "w-0-a")
        await pods.ready("a-0")
        assert await waiting_for.outcome()
    assert lists(server) == 2


async def test_server_that_is_away_is_waited_for(token_file: Path) -> None:
    server = ApiServer(WallClock())
    pods = Pods(server)
    await pods.create("a-0", "w-0-a")
    async with serve(server) as url:
        port = int(url.rpartition(":")[2])
        running = program(task_for(url, token_file, "w-0-a:1"))
        waiting_for = await running.__aenter__()
        await until(lambda: watches(server) == 1)
    assert "refused" in await waiting_for.says("cannot read pods, trying again: ")
    async with serve(server, port):
        await pods.ready("a-0")
        assert await waiting_for.outcome()
        await running.__aexit__(None, None, None)


async def test_token_is_read_again_for_every_connection(token_file: Path) -> None:
    server = ApiServer(WallClock())
    async with serve(server) as url, program(task_for(url, token_file, "w-0-a:1")):
        await until(lambda: watches(server) == 1)
        put(token_file, "second-token")
        server.drop_watches()
        await until(lambda: watches(server) == 2)
    assert [entry.user for entry in server.log.entries if entry.verb == "watch"] == ["first-token", "second-token"]


async def test_token_that_is_not_there_yet_is_waited_for(token_file: Path) -> None:
    server = ApiServer(WallClock())
    pods = Pods(server)
    await pods.create("a-0", "w-0-a")
    await pods.ready("a-0")
    late = token_file.with_name("late")
    async with serve(server) as url, program(task_for(url, late, "w-0-a:1")) as waiting_for:
        assert str(late) in await waiting_for.says("cannot read pods, trying again: ")
        put(late, "late-token")
        assert await waiting_for.outcome()


async def test_refusal_is_told_and_got_over(token_file: Path) -> None:
    server = ApiServer(WallClock())
    async with serve(server) as url:
        task = replace(task_for(url, token_file, "w-0-a:1"), server=f"{url}/elsewhere")
        async with program(task) as waiting_for:
            assert await waiting_for.says("cannot read pods, trying again: 404 ")


@pytest.mark.parametrize("moment", ["in a watch", "between attempts"])
async def test_wait_can_be_stopped(moment: str, token_file: Path) -> None:
    server = ApiServer(WallClock())
    async with serve(server) as url:
        address = url if moment == "in a watch" else "http://127.0.0.1:1"
        async with program(task_for(address, token_file, "w-0-a:1")) as waiting_for:
            await waiting_for.says("")
            if moment == "in a watch":
                await until(lambda: watches(server) == 1)
            waiting_for.wait.stop()
            assert not await waiting_for.outcome()


# The program as a process.


@pytest.fixture
def command(token_file: Path) -> list[str]:
    installed = Path(sys.executable).parent / "grove-initc"
    return [str(installed), f"--token-file={token_file}"]


@asynccontextmanager
async def process(*command: str) -> AsyncIterator[asyncio.subprocess.Process]:
    environment = {**os.environ, **ENVIRONMENT}
    pipe = asyncio.subprocess.PIPE
    running = await asyncio.create_subprocess_exec(*command, env=environment, stdout=pipe, stderr=pipe)
    try:
        yield running
    finally:
        if running.returncode is None:
            running.kill()
        await running.communicate()


async def test_program_exits_with_0_when_the_parents_are_ready(command: list[str]) -> None:
    server = ApiServer(WallClock())
    pods = Pods(server)
    await pods.create("a-0", "w-0-a")
    async with serve(server) as url, process(*command, f"--server={url}", "-p", "w-0-a:1") as running:
        assert running.stdout is not None
        assert await running.stdout.readline() == b"waiting for w-0-a: 0 of 1 ready\n"
        await pods.ready("a-0")
        assert await running.stdout.readline() == b"every parent is ready\n"
        assert await asyncio.wait_for(running.wait(), LIMIT) == 0


async def test_program_ends_on_a_signal(command: list[str]) -> None:
    server = ApiServer(WallClock())
    async with serve(server) as url, process(*command, f"--server={url}", "-p", "w-0-a:1") as running:
        await until(lambda: watches(server) == 1)
        running.send_signal(signal.SIGTERM)
        assert await asyncio.wait_for(running.wait(), LIMIT) == 143


async def test_malformed_arguments_are_one_line_and_status_2(command: list[str]) -> None:
    async with process(*command, "-p", "w-0-a") as running:
        out, err = await running.communicate()
    assert (running.returncode, out) == (2, b"")
    assert err.decode().count("\n") == 1
    assert err.startswith(b"grove-initc: --podcliques=w-0-a: ")


async def test_program_stays_below_40_megabytes_with_hundreds_of_pods(command: list[str]) -> None:
    server = ApiServer(WallClock())
    pods = Pods(server)
    for index in range(400):
        await pods.create(f"a-{index}", "w-0-a", annotations={"example.com/weight": "x" * 6000})
    async with serve(server) as url, process(*command, f"--server={url}", "-p", "w-0-a:400") as running:
        await until(lambda: watches(server) == 1)
        assert peak_kilobytes(running.pid) < 40 * 1024


def imported(module: str) -> Iterator[str]:
    program = f"import sys, {module}; print(*sys.modules)"
    answer = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    return iter(answer.stdout.split())


def test_program_loads_nothing_beside_the_standard_library() -> None:
    loaded = {name.partition(".")[0] for name in imported("grove.initc.main")}
    assert not loaded & {"aiohttp", "asyncio", "click", "cryptography", "msgspec", "rich", "structlog", "yaml"}
    ours = {name for name in imported("grove.initc.main") if name.startswith("grove.")}
    assert {name for name in ours if not name.startswith("grove.initc")} == {"grove.api", "grove.api.labels"}
