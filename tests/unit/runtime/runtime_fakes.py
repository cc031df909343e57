"""Stand-ins for an API server, small enough to see through: one that plays a script and one that keeps objects."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import msgspec

from grove.runtime.objects import ObjectMeta
from grove.runtime.resource import Resource
from grove.runtime.transport import HttpRequest, HttpResponse, HttpStream, TransportError

JSON = {"content-type": "application/json"}


class Widget(msgspec.Struct, kw_only=True, frozen=True):
    metadata: ObjectMeta
    spec: dict[str, Any] = msgspec.field(default_factory=dict)


WIDGETS = Resource("example.com", "v1", "widgets", "Widget", Widget)


def widget(name: str, version: int, *, uid: str = "", namespace: str = "ns", **labels: str) -> Widget:
    metadata = ObjectMeta(
        name=name, namespace=namespace, uid=uid or f"uid-{name}", resource_version=str(version), labels=labels
    )
    return Widget(metadata=metadata)


def event(kind: str, obj: Widget) -> bytes:
    return msgspec.json.encode({"type": kind, "object": obj}) + b"\n"


def bookmark(version: int, *, ends: bool = False) -> bytes:
    metadata: dict[str, Any] = {"resourceVersion": str(version)}
    if ends:
        metadata["annotations"] = {"k8s.io/initial-events-end": "true"}
    return msgspec.json.encode({"type": "BOOKMARK", "object": {"metadata": metadata}}) + b"\n"


def status(code: int, reason: str, **details: Any) -> HttpResponse:
    body = {"kind": "Status", "apiVersion": "v1", "status": "Failure", "code": code, "reason": reason}
    return HttpResponse(code, JSON, msgspec.json.encode({**body, "message": f"{reason}!", "details": details}))


def error_event(code: int, reason: str) -> bytes:
    return msgspec.json.encode({"type": "ERROR", "object": {"kind": "Status", "code": code, "reason": reason}}) + b"\n"


def ok(body: Any, code: int = 200) -> HttpResponse:
    return HttpResponse(code, JSON, msgspec.json.encode(body))


@dataclass
class FakeStream:
    """Plays chunks; an exception among them is raised, "wait" never continues."""

    script: list[bytes | Exception | str]
    status: int = 200
    headers: Mapping[str, str] = field(default_factory=lambda: JSON)

    async def chunks(self) -> AsyncIterator[bytes]:
        for step in self.script:
            if isinstance(step, Exception):
                raise step
            if isinstance(step, str):
                await asyncio.get_running_loop().create_future()
            else:
                await asyncio.sleep(0)
                yield step


class ScriptedTransport:
    """Answers requests and streams from lists, in order, and remembers what was asked."""

    def __init__(
        self,
        answers: list[HttpResponse | Exception] | None = None,
        streams: list[FakeStream | HttpResponse | Exception] | None = None,
    ) -> None:
        self.answers = answers or []
        self.streams = streams or []
        self.asked: list[HttpRequest] = []
        self.opened: list[dict[str, str]] = []
        self.exhausted = asyncio.Event()

    async def request(self, request: HttpRequest) -> HttpResponse:
        self.asked.append(request)
        answer = self.answers.pop(0) if self.answers else TransportError("down")
        if isinstance(answer, Exception):
            raise answer
        return answer

    def stream(self, request: HttpRequest) -> AbstractAsyncContextManager[HttpStream]:
        return self._open(request)

    @asynccontextmanager
    async def _open(self, request: HttpRequest) -> AsyncIterator[HttpStream]:
        self.opened.append(dict(request.query))
        if not self.streams:
            self.exhausted.set()
            yield FakeStream(["wait"])
            return
        stream = self.streams.pop(0)
        if isinstance(stream, Exception):
            raise stream
        if isinstance(stream, HttpResponse):
            stream = FakeStream([stream.body], stream.status, stream.headers)
        yield stream

    async def close(self) -> None:
        pass


class TinyApi:
    """Keeps objects of any kind by path, with versions, preconditions and watches. A `fault` may answer instead."""

    def __init__(self) -> None:
        self.objects: dict[str, dict[str, Any]] = {}
        self.version = 0
        self.writes: list[HttpRequest] = []
        self.fault: Callable[[HttpRequest], HttpResponse | Exception | None] = lambda _: None
        self._watchers: list[tuple[str, asyncio.Queue[bytes]]] = []

    async def request(self, request: HttpRequest) -> HttpResponse:
        await asyncio.sleep(0)
        fault = self.fault(request)
        if isinstance(fault, Exception):
            raise fault
        return fault or self._answer(request)

    def _answer(self, request: HttpRequest) -> HttpResponse:
        if request.method == "GET":
            held = self.objects.get(request.path)
            return ok(held) if held is not None else status(404, "NotFound")
        self.writes.append(request)
        body = msgspec.json.decode(request.body or b"{}")
        if request.method == "POST":
            path = f"{request.path}/{body['metadata']['name']}"
            if path in self.objects:
                return status(409, "AlreadyExists")
            return ok(self._store(path, body, "ADDED"), 201)
        held = self.objects.get(request.path)
        if held is None:
            return status(404, "NotFound")
        expected = body.get("metadata", {}).get("resourceVersion")
        if expected and expected != held["metadata"]["resourceVersion"]:
            return status(409, "Conflict")
        if request.method == "DELETE":
            del self.objects[request.path]
            return ok({"kind": "Status", "status": "Success"})
        return ok(self._store(request.path, _merged(held, body), "MODIFIED"))

    def _store(self, path: str, body: dict[str, Any], kind: str) -> dict[str, Any]:
        self.version += 1
        metadata = {"uid": f"uid-{self.version}", **body["metadata"], "resourceVersion": str(self.version)}
        body = {**body, "metadata": metadata}
        self.objects[path] = body
        line = msgspec.json.encode({"type": kind, "object": body}) + b"\n"
        for collection, queue in self._watchers:
            if path.startswith(collection):
                queue.put_nowait(line)
        return body

    def stream(self, request: HttpRequest) -> AbstractAsyncContextManager[HttpStream]:
        return self._open(request)

    @asynccontextmanager
    async def _open(self, request: HttpRequest) -> AsyncIterator[HttpStream]:
        fault = self.fault(request)
        if isinstance(fault, Exception):
            raise fault
        queue: asyncio.Queue[bytes] = asyncio.Queue()
        for path, body in self.objects.items():
            if path.startswith(request.path):
                queue.put_nowait(msgspec.json.encode({"type": "ADDED", "object": body}) + b"\n")
        queue.put_nowait(bookmark(max(self.version, 1), ends=True))
        entry = (request.path, queue)
        self._watchers.append(entry)
        try:
            yield _Endless(queue, self, request)
        finally:
            self._watchers.remove(entry)

    async def close(self) -> None:
        pass


@dataclass
class _Endless:
    queue: asyncio.Queue[bytes]
    api: TinyApi
    request: HttpRequest
    status: int = 200
    headers: Mapping[str, str] = field(default_factory=lambda: JSON)

    async def chunks(self) -> AsyncIterator[bytes]:
        while True:
            line = await self.queue.get()
            if isinstance(self.api.fault(self.request), Exception):
                raise TransportError("cut")
            yield line


def _merged(held: Any, patch: Any) -> Any:
    if not isinstance(patch, dict) or not isinstance(held, dict):
        return patch
    result = dict(held)
    for key, value in patch.items():
        if value is None:
            result.pop(key, None)
        else:
            result[key] = _merged(held.get(key), value)
    return result
