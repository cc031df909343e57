"""A watch stream as typed events: bytes in pieces, lines cut by hand, each decoded in one pass into its model.

The API server writes the event type first, so a tagged union decodes an event and its object together. A half line at
the end of a stream is dropped: its event was not delivered, and the next watch starts before it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import cache
from typing import Any, Generic, TypedDict, TypeVar

import msgspec

from grove.runtime import errors
from grove.runtime.codec import detacher
from grove.runtime.objects import PartialObject, Status
from grove.runtime.requests import Query
from grove.runtime.resource import Resource
from grove.runtime.transport import HttpRequest

T = TypeVar("T")

INITIAL_EVENTS_END = "k8s.io/initial-events-end"


class Added(msgspec.Struct, Generic[T], tag="ADDED", tag_field="type", frozen=True, gc=False):
    object: T


class Modified(msgspec.Struct, Generic[T], tag="MODIFIED", tag_field="type", frozen=True, gc=False):
    object: T


class Deleted(msgspec.Struct, Generic[T], tag="DELETED", tag_field="type", frozen=True, gc=False):
    object: T


class Bookmark(msgspec.Struct, tag="BOOKMARK", tag_field="type", frozen=True, gc=False):
    """Everything up to this version has been delivered."""

    object: PartialObject

    @property
    def resource_version(self) -> str:
        return self.object.metadata.resource_version

    @property
    def ends_initial_events(self) -> bool:
        return self.object.metadata.annotations.get(INITIAL_EVENTS_END) == "true"


class _Failure(msgspec.Struct, tag="ERROR", tag_field="type", frozen=True):
    object: Status


class Unreadable(msgspec.Struct, frozen=True):
    """An event whose object does not fit the model. Its identity is known, its content is not."""

    object: PartialObject
    problem: str


class _Envelope(msgspec.Struct):
    type: str
    object: PartialObject


Event = Added[T] | Modified[T] | Deleted[T] | Bookmark | Unreadable


class WatchOptions(TypedDict, total=False):
    """What to watch, from where, and for how long (`timeout` is the server's, `idle` is ours)."""

    namespace: str | None
    label_selector: str
    field_selector: str
    resource_version: str
    bookmarks: bool
    send_initial_events: bool
    timeout: int
    idle: float


def watch_request(resource: Resource[Any], options: WatchOptions, *, connect_timeout: float) -> HttpRequest:
    """The HTTP request that opens a watch."""
    query: Query = (("watch", "true"),)
    for name, value in (
        ("labelSelector", options.get("label_selector", "")),
        ("fieldSelector", options.get("field_selector", "")),
        ("resourceVersion", options.get("resource_version", "")),
    ):
        if value:
            query += ((name, value),)
    if options.get("bookmarks", True):
        query += (("allowWatchBookmarks", "true"),)
    if options.get("send_initial_events", False):
        query += (("sendInitialEvents", "true"), ("resourceVersionMatch", "NotOlderThan"))
    if timeout := options.get("timeout", 0):
        query += (("timeoutSeconds", str(timeout)),)
    path = resource.path(options.get("namespace"))
    return HttpRequest("GET", path, query, {"accept": "application/json"}, timeout=connect_timeout)


class LineSplitter:
    """Cuts a byte stream into lines, of any length, without copying a long line more than once."""

    __slots__ = ("_parts",)

    def __init__(self) -> None:
        self._parts: list[bytes] = []

    def feed(self, chunk: bytes) -> list[bytes]:
        """The lines this chunk completes."""
        lines = chunk.split(b"\n")
        if len(lines) == 1:
            self._parts.append(chunk)
            return []
        if self._parts:
            self._parts.append(lines[0])
            lines[0] = b"".join(self._parts)
            self._parts = []
        if rest := lines.pop():
            self._parts.append(rest)
        return lines


@cache
def event_decoder(model: Any) -> Callable[[bytes], Any]:
    """Decodes one line of a watch on `model`. An ERROR event is raised as the error it carries."""
    decode = msgspec.json.Decoder(Added[model] | Modified[model] | Deleted[model] | Bookmark | _Failure).decode
    detach = detacher(model)
    with_object = (Added, Modified, Deleted)

    def decode_line(line: bytes) -> Any:
        try:
            event = decode(line)
        except msgspec.ValidationError as problem:
            return _unreadable(line, problem)
        except msgspec.DecodeError as problem:
            raise errors.Unreachable(f"the watch sent a line that is not JSON: {problem}: {line[:80]!r}") from problem
        kind = type(event)
        if kind is _Failure:
            raise errors.from_status(event.object)
        if detach is not None and kind in with_object:
            detach(event.object)
        return event

    return decode_line


def _unreadable(line: bytes, problem: msgspec.ValidationError) -> Any:
    """A deletion needs no content, so it is always readable; anything else is reported and skipped."""
    try:
        envelope = msgspec.json.decode(line, type=_Envelope)
    except msgspec.MsgspecError as cause:
        raise errors.Unreachable(f"the watch sent a line that is not an event ({cause}): {line[:80]!r}") from cause
    if envelope.type == "DELETED":
        return Deleted(envelope.object)
    return Unreadable(envelope.object, str(problem))


def events_in(decode: Callable[[bytes], Any], lines: list[bytes]) -> Iterator[Any]:
    """The events of complete lines; servers may send empty ones to keep a connection open."""
    for line in lines:
        if line and not line.isspace():
            yield decode(line)
