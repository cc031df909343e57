"""A watcher that sees every change of a namespace's pods and keeps what a test asks it to count at each of them."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable
from types import TracebackType

from scenario_objects import Json, is_ready
from workbench import LIMIT, PODS, Workbench

from grove.localcluster.rest import ApiServer

Count = Callable[[list[Json]], int]
_END = "test.grove.io/last"


class PodHistory:
    """Counts taken over the pods that exist and are not terminating, after every single change.

    As a context manager it watches from entry to exit; leaving waits until it has seen everything that happened.
    """

    def __init__(self, bench: Workbench, **counts: Count) -> None:
        self._bench = bench
        self._counts = counts
        self._pods: dict[str, Json] = {}
        self._ended = False
        self._thread = threading.Thread(target=self._watch, daemon=True)
        self.seen: dict[str, list[int]] = {name: [] for name in counts}
        self.became_ready: list[str] = []
        self.changes = 0

    def __enter__(self) -> PodHistory:
        found = self._bench.api.get(self._bench.path(PODS))
        self._pods = {pod["metadata"]["name"]: pod for pod in found["items"]}
        self._version = found["metadata"]["resourceVersion"]
        self._take()
        self._thread.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None) -> None:
        if error is not None:
            return
        # The watch ends when it meets a mark that is set after all that matters.
        marked = self._bench.pods()[0]["metadata"]["name"]
        self._bench.patch(PODS, marked, {"metadata": {"annotations": {_END: "true"}}})
        self._thread.join(LIMIT)
        assert self._ended, "the watch broke off"

    def lowest(self, name: str) -> int:
        return min(self.seen[name])

    def highest(self, name: str) -> int:
        return max(self.seen[name])

    def _watch(self) -> None:
        path = f"{self._bench.path(PODS)}?watch=true&resourceVersion={self._version}&allowWatchBookmarks=true"
        with ApiServer(self._bench.cluster.url, self._bench.cluster.files.pki, "admin") as api:
            for line in api.lines(path):
                event = json.loads(line)
                if event["type"] in ("BOOKMARK", "ERROR"):
                    continue
                pod = event["object"]
                if _END in pod["metadata"].get("annotations", {}):
                    self._ended = True
                    return
                self._note(pod)
                if event["type"] == "DELETED":
                    del self._pods[pod["metadata"]["name"]]
                self.changes += 1
                self._take()

    def _note(self, pod: Json) -> None:
        name = pod["metadata"]["name"]
        before = self._pods.get(name)
        if is_ready(pod) and not (before and is_ready(before)):
            self.became_ready.append(name)
        self._pods[name] = pod

    def _take(self) -> None:
        live = [pod for pod in self._pods.values() if "deletionTimestamp" not in pod["metadata"]]
        for name, count in self._counts.items():
            self.seen[name].append(count(live))
