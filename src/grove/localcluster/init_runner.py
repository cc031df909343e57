"""The part of a kubelet that simulated nodes lack: it runs the real waiting program for every pod that has it.

Each pod's program gets the pod's own identity (a token bound to that pod, renewed in time), its arguments and its
environment; when it exits with 0 the pod is marked, and the stages let it start. Pods never wait for each other's
programs: the first PROCESSES of them run as processes, all beyond in threads. A program that fails is started again
after a pause that grows. Run as `python -m grove.localcluster.init_runner FOLDER`.
"""

from __future__ import annotations

import http.client
import json
import shutil
import signal
import sys
import threading
import time
from dataclasses import dataclass, field
from pathlib import Path
from types import FrameType
from typing import Any, NoReturn
from urllib.parse import urlencode, urlsplit

from grove.localcluster.init_pods import WaitingPod, waiting_pod
from grove.localcluster.init_programs import Call, ProcessProgram, Program, ThreadProgram
from grove.localcluster.ports import LOOPBACK, load_ports
from grove.localcluster.rest import ApiError, ApiServer
from grove.localcluster.spec import ClusterFiles
from grove.localcluster.stages import INIT_CONTAINER, INITC_FINISHED

PROCESSES = 32
_TOKEN_SECONDS = 3600
_RENEW_AFTER = _TOKEN_SECONDS * 0.8
_RENEWAL_INTERVAL = 60.0
_FIRST_PAUSE = 1.0
_LONGEST_PAUSE = 60.0
_REQUESTS_AT_ONCE = 16
_LOG_TURN = threading.Lock()
# Only pods that are bound and not yet running: the others would be read for nothing, and there are many of them.
_SELECTION = {"fieldSelector": "status.phase=Pending,spec.nodeName!="}


@dataclass
class Kubelet:
    """What a kubelet does for a pod besides running it: credentials, and telling that its init container has ended."""

    api: ApiServer
    server: str
    ca: Path
    folder: Path
    # A limit on requests, which are short; never on programs, which may wait for each other's pods.
    _turn: threading.Semaphore = field(default_factory=lambda: threading.Semaphore(_REQUESTS_AT_ONCE))

    def token_file(self, pod: WaitingPod) -> Path:
        return self.folder / pod.uid

    def provide_token(self, pod: WaitingPod) -> None:
        """Put a fresh token, bound to this very pod, where its program reads it."""
        bound = {"kind": "Pod", "apiVersion": "v1", "name": pod.name, "uid": pod.uid}
        request = {
            "apiVersion": "authentication.k8s.io/v1",
            "kind": "TokenRequest",
            "spec": {"expirationSeconds": _TOKEN_SECONDS, "boundObjectRef": bound},
        }
        path = f"/api/v1/namespaces/{pod.namespace}/serviceaccounts/{pod.service_account}/token"
        with self._turn:
            token = self.api.create(path, request)["status"]["token"]
        partial = self.token_file(pod).with_suffix(".partial")
        partial.write_text(token)
        partial.replace(self.token_file(pod))

    def call(self, pod: WaitingPod) -> Call:
        address = urlsplit(self.server)
        cluster = {"KUBERNETES_SERVICE_HOST": str(address.hostname), "KUBERNETES_SERVICE_PORT": str(address.port)}
        arguments = (*pod.arguments, f"--token-file={self.token_file(pod)}", f"--ca-file={self.ca}")
        return Call(arguments, {**cluster, **pod.environment}, lambda line: log(f"{pod}: {line}"))

    def report_finished(self, pod: WaitingPod) -> None:
        """Mark the pod. Through its status, as a kubelet reports: what guards pods against edits lets that pass."""
        path = f"/api/v1/namespaces/{pod.namespace}/pods/{pod.name}/status"
        with self._turn:
            self.api.merge(path, {"metadata": {"uid": pod.uid, "annotations": {INITC_FINISHED: "true"}}})


class Attendant:
    """Sees one pod through its wait, in a thread of its own."""

    def __init__(self, pod: WaitingPod, kubelet: Kubelet, make: type[ProcessProgram] | type[ThreadProgram]) -> None:
        self.kind = make
        self._pod = pod
        self._kubelet = kubelet
        self._stopped = threading.Event()
        self._program: Program | None = None
        self._token_time = 0.0
        self._thread = threading.Thread(target=self._attend, name=str(pod), daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        self._stopped.set()
        if self._program is not None:
            self._program.stop()

    def renew(self) -> None:
        """Give the program a new token when the old one has little time left."""
        if not self._stopped.is_set() and 0 < self._token_time < time.monotonic() - _RENEW_AFTER:
            try:
                self._provide_token()
            except (ApiError, OSError, http.client.HTTPException) as error:
                log(f"{self._pod}: no new token: {error}")

    def _attend(self) -> None:
        pause = _FIRST_PAUSE
        try:
            while not self._stopped.is_set():
                try:
                    if self._run_once():
                        return
                except (ApiError, OSError, http.client.HTTPException) as error:
                    log(f"{self._pod}: {error}")
                self._stopped.wait(pause)
                pause = min(2 * pause, _LONGEST_PAUSE)
        finally:
            self._kubelet.token_file(self._pod).unlink(missing_ok=True)

    def _run_once(self) -> bool:
        """One run of the program; whether the pod needs no other."""
        self._provide_token()
        self._program = self.kind(self._kubelet.call(self._pod))
        # Looked at after the program is there to be stopped, so that no stop falls in between.
        if self._stopped.is_set():
            return True
        status = self._program.run()
        if self._stopped.is_set():
            return True
        log(f"{self._pod}: exited with status {status}")
        if status == 0:
            self._kubelet.report_finished(self._pod)
        return status == 0

    def _provide_token(self) -> None:
        self._kubelet.provide_token(self._pod)
        self._token_time = time.monotonic()


class Runner:
    """All waiting pods of the cluster, by uid. Only the watching thread and the renewing one touch the table."""

    def __init__(self, kubelet: Kubelet) -> None:
        self._kubelet = kubelet
        self._attendants: dict[str, Attendant] = {}

    def run(self) -> None:
        """Follow the pods until a signal ends the process."""
        threading.Thread(target=self._renew_tokens, daemon=True).start()
        version = ""
        while True:
            try:
                version = self._watch(version or self._list())
            except ApiError as error:
                log(f"listing again: {error}")
                version = ""
                time.sleep(_FIRST_PAUSE)
            except (OSError, http.client.HTTPException, ValueError) as error:
                log(f"trying again: {error!r}")
                time.sleep(_FIRST_PAUSE)

    def stop(self) -> None:
        for uid in list(self._attendants):
            self._dismiss(uid)

    def see(self, pod: dict[str, Any]) -> None:
        """Take in a pod as it is now."""
        uid = pod["metadata"]["uid"]
        waiting = waiting_pod(pod)
        if waiting is None:
            self._dismiss(uid)
        elif uid not in self._attendants:
            processes = sum(one.kind is ProcessProgram for one in self._attendants.values())
            make = ProcessProgram if processes < PROCESSES else ThreadProgram
            self._attendants[uid] = Attendant(waiting, self._kubelet, make)
            self._attendants[uid].start()

    def _dismiss(self, uid: str) -> None:
        attendant = self._attendants.pop(uid, None)
        if attendant is not None:
            attendant.stop()

    def _list(self) -> str:
        answer = self._kubelet.api.get(f"/api/v1/pods?{urlencode(_SELECTION)}")
        present = {pod["metadata"]["uid"] for pod in answer["items"]}
        for uid in self._attendants.keys() - present:
            self._dismiss(uid)
        for pod in answer["items"]:
            self.see(pod)
        return str(answer["metadata"]["resourceVersion"])

    def _watch(self, version: str) -> str:
        """Take in events until the watch ends; the version to go on from."""
        options = {**_SELECTION, "watch": "true", "allowWatchBookmarks": "true", "resourceVersion": version}
        for line in self._kubelet.api.lines(f"/api/v1/pods?{urlencode(options)}"):
            # Most pods have no waiting program; they need not even be parsed.
            if INIT_CONTAINER.encode() not in line and b'"BOOKMARK"' not in line and b'"ERROR"' not in line:
                continue
            event = json.loads(line)
            if event["type"] == "ERROR":
                raise ApiError(event["object"].get("code", 500), str(event["object"].get("message")))
            version = event["object"]["metadata"]["resourceVersion"]
            if event["type"] == "DELETED":
                self._dismiss(event["object"]["metadata"]["uid"])
            elif event["type"] != "BOOKMARK":
                self.see(event["object"])
        return version

    def _renew_tokens(self) -> None:
        while True:
            time.sleep(_RENEWAL_INTERVAL)
            for attendant in list(self._attendants.values()):
                attendant.renew()


def log(line: str) -> None:
    """One line, whole: many threads write."""
    with _LOG_TURN:
        print(f"{time.strftime('%H:%M:%S')} {line}", flush=True)


def main() -> None:
    """Run the programs of the cluster in the folder given on the command line."""
    files = ClusterFiles(Path(sys.argv[1]))
    url = f"https://{LOOPBACK}:{load_ports(files.ports)['apiserver']}"
    folder = files.configuration / "init-tokens"
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True, mode=0o700)
    signal.signal(signal.SIGTERM, _end)
    # It takes a kubelet's part, and so it acts with the rights of the one who simulates the nodes.
    with ApiServer(url, files.pki, "kwok") as api:
        runner = Runner(Kubelet(api, url, files.pki / "ca.crt", folder))
        try:
            runner.run()
        finally:
            runner.stop()
            shutil.rmtree(folder, ignore_errors=True)


def _end(_number: int, _frame: FrameType | None) -> NoReturn:
    sys.exit(0)


if __name__ == "__main__":
    main()
