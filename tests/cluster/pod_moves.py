"""A watcher that writes down, in order, which pods of a namespace were taken down and which came."""

from __future__ import annotations

import json
import threading
from types import TracebackType

from workbench import LIMIT, PODS, Workbench

from grove.localcluster.rest import ApiServer

_END = "test.grove.io/last-move"


class PodMoves:
    """`delete NAME` when a pod begins to go, `create NAME` when one appears, from entry to exit."""

    def __init__(self, bench: Workbench) -> None:
        self._bench = bench
        self._going: set[str] = set()
        self._known: set[str] = set()
        self._ended = False
        self._thread = threading.Thread(target=self._watch, daemon=True)
        self.seen: list[str] = []

    def __enter__(self) -> PodMoves:
        found = self._bench.api.get(self._bench.path(PODS))
        self._known = {pod["metadata"]["uid"] for pod in found["items"]}
        self._version = found["metadata"]["resourceVersion"]
        self._thread.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None) -> None:
        if error is not None:
            return
        marked = self._bench.pods()[0]["metadata"]["name"]
        self._bench.patch(PODS, marked, {"metadata": {"annotations": {_END: "true"}}})
        self._thread.join(LIMIT)
        assert self._ended, "the watch broke off"

    def _watch(self) -> None:
        path = f"{self._bench.path(PODS)}?watch=true&resourceVersion={self._version}"
        with ApiServer(self._bench.cluster.url, self._bench.cluster.files.pki, "admin") as api:
            for line in api.lines(path):
                meta = json.loads(line)["object"]["metadata"]
                if _END in meta.get("annotations", {}):
                    self._ended = True
                    return
                self._note(meta["uid"], meta["name"], "deletionTimestamp" in meta)

    def _note(self, uid: str, name: str, going: bool) -> None:
        if uid not in self._known:
            self._known.add(uid)
            self.seen.append(f"create {name}")
        if going and uid not in self._going:
            self._going.add(uid)
            self.seen.append(f"delete {name}")
