"""What one grove-initc costs: start to first request, import time, peak memory. Prints JSON.

Every figure is the best of several runs of the installed program against a listener on loopback that answers with an
empty list, so it is the program's own cost.
"""

from __future__ import annotations

import json
import os
import platform
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

RUNS = 10
_EMPTY = json.dumps({"metadata": {"resourceVersion": "1"}, "items": []}).encode()
_ANSWER = b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\nConnection: close\r\n\r\n%s" % (len(_EMPTY), _EMPTY)
PROGRAM = str(Path(sys.executable).parent / "grove-initc")


@contextmanager
def waiting_program(listener: socket.socket, token_file: Path) -> Iterator[subprocess.Popen[bytes]]:
    address = f"http://127.0.0.1:{listener.getsockname()[1]}"
    arguments = [PROGRAM, "--podcliques=w-0-a:1", f"--server={address}", f"--token-file={token_file}"]
    environment = {**os.environ, "POD_NAMESPACE": "default", "POD_GANG": "w-0"}
    process = subprocess.Popen(arguments, env=environment, stdout=subprocess.DEVNULL)
    try:
        yield process
    finally:
        process.kill()
        process.wait()


def one_run(listener: socket.socket, token_file: Path) -> tuple[float, int]:
    """Milliseconds until the program asks for pods, and its peak memory in kB once it watches."""
    started = time.perf_counter()
    with waiting_program(listener, token_file) as process:
        first, _ = listener.accept()
        with first:
            elapsed = (time.perf_counter() - started) * 1000
            first.recv(65536)
            first.sendall(_ANSWER)
        watch, _ = listener.accept()
        with watch:
            watch.recv(65536)
            status = Path(f"/proc/{process.pid}/status").read_text()
    peak = next(int(line.split()[1]) for line in status.splitlines() if line.startswith("VmHWM:"))
    return elapsed, peak


def import_milliseconds() -> float:
    """The imports alone, as the interpreter itself counts them."""
    answer = subprocess.run(
        [sys.executable, "-X", "importtime", "-c", "import grove.initc.main"],
        capture_output=True,
        text=True,
        check=True,
    )
    line = next(one for one in answer.stderr.splitlines() if one.endswith(" grove.initc.main"))
    return int(line.split("|")[1]) / 1000


def main() -> None:
    with tempfile.TemporaryDirectory() as folder, socket.create_server(("127.0.0.1", 0)) as listener:
        token_file = Path(folder) / "token"
        token_file.write_text("token")
        runs = [one_run(listener, token_file) for _ in range(RUNS)]
    figures = {
        "python": platform.python_version(),
        "runs": RUNS,
        "first_request_ms": round(min(elapsed for elapsed, _ in runs), 1),
        "import_ms": round(min(import_milliseconds() for _ in range(RUNS)), 1),
        "peak_rss_mb": round(max(peak for _, peak in runs) / 1024, 1),
        "limits": {"first_request_ms": 300, "peak_rss_mb": 40},
    }
    print(json.dumps(figures, indent=2))


if __name__ == "__main__":
    main()
