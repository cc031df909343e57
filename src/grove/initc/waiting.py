"""The wait itself: list, watch, list again when the watch cannot go on, until every parent is ready.

Nothing the API server does ends the wait: a broken watch is resumed where it stood, a version that is too old leads to
a new list, and anything else is tried again, at longer and longer intervals while nothing comes through.
"""

from __future__ import annotations

import http.client
import os
import threading
from collections.abc import Callable

from grove.initc.api_server import GONE, ApiServer, Document, Interrupted, Refused
from grove.initc.arguments import Task
from grove.initc.readiness import Readiness

_FIRST_PAUSE = 0.2
_LONGEST_PAUSE = 10.0

# After these a watch goes on from the version it had reached. A timeout is none of them: silence may mean that the
# server is waiting for a version it never reaches.
_RESUMABLE = (OSError, http.client.HTTPException, Interrupted)
# ValueError: an answer that is no JSON. KeyError, TypeError: JSON that is no list or event of pods.
_TROUBLE = (*_RESUMABLE, Refused, ValueError, KeyError, TypeError)


class Wait:
    """One wait. `stop` may be called from another thread."""

    def __init__(self, task: Task, log: Callable[[str], None]) -> None:
        self._server = ApiServer(task)
        self._readiness = Readiness(task.parents)
        self._log = log
        self._told = ""
        self._version = ""
        self._pause = _FIRST_PAUSE
        self._stopped = threading.Event()

    def run(self) -> bool:
        """Wait; True once every parent is ready, False when stopped before."""
        while not self._stopped.is_set():
            try:
                self._follow()
            except _TROUBLE as error:
                if not self._stopped.is_set():
                    self._step_back(error)
            if self._readiness.complete and not self._stopped.is_set():
                self._tell("every parent is ready")
                return True
        return False

    def stop(self) -> None:
        """End the wait soon."""
        self._stopped.set()
        self._server.close()

    def _follow(self) -> None:
        """One list, unless there is a version to go on from, and one watch. Ends early when all is ready."""
        if not self._version:
            self._list()
        if self._readiness.complete:
            return
        heard = False
        for kind, pod in self._server.changes(self._version):
            heard = True
            self._pause = _FIRST_PAUSE
            self._take_in(kind, pod)
            if self._readiness.complete:
                return
        if not heard:
            raise Interrupted("the watch ended without an event")

    def _list(self) -> None:
        self._readiness.clear()
        for page in self._server.pages():
            for pod in page.pods:
                self._readiness.see(pod)
            reached = page.version
        # Only now: a list that broke off is no ground to watch from.
        self._version = reached
        self._tell_progress()

    def _take_in(self, kind: str, pod: Document) -> None:
        self._version = pod["metadata"]["resourceVersion"]
        if kind == "BOOKMARK":
            return
        if kind == "DELETED":
            self._readiness.forget(pod)
        else:
            self._readiness.see(pod)
        self._tell_progress()

    def _step_back(self, error: BaseException) -> None:
        """Decide where to go on from, and pause before going on."""
        if not isinstance(error, _RESUMABLE) or isinstance(error, TimeoutError):
            self._version = ""
        expected = isinstance(error, Interrupted) or (isinstance(error, Refused) and error.status == GONE)
        if not expected:
            self._tell(f"cannot read pods, trying again: {error or type(error).__name__}")
        # Many pods lose the server at the same moment; they should not all come back at the same moment.
        share = 0.5 + os.urandom(1)[0] / 510
        self._stopped.wait(self._pause * share)
        self._pause = min(2 * self._pause, _LONGEST_PAUSE)

    def _tell_progress(self) -> None:
        if not self._readiness.complete:
            self._tell(f"waiting for {self._readiness}")

    def _tell(self, line: str) -> None:
        if line != self._told:
            self._told = line
            self._log(line)
