"""A small blocking client of the API server, enough to set a cluster up: JSON in, JSON out, many requests at once.

Idle connections are kept for the next request and closed with the client. One that the server has closed meanwhile is
noticed before it is used: a request that fails has really been refused. Proxies of the environment are never used: the
server is on this machine.
"""

from __future__ import annotations

import http.client
import json
import select
import ssl
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar
from urllib.parse import urlsplit

from grove.localcluster.errors import LocalClusterError

Document = dict[str, Any]
Item = TypeVar("Item")

_FIELD_MANAGER = "grove-local"
_CONCURRENCY = 16
_TIMEOUT = 30.0
# The server closes a connection that was idle for longer than it likes; well before that it is not used again.
_IDLE = 30.0
# Bookmarks keep a living watch from being silent for so long.
_SILENCE = 120.0


class ApiError(LocalClusterError):
    """The API server refused; carries its status code and message."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status


class ApiServer:
    """Requests to one API server under one client certificate."""

    def __init__(self, url: str, pki: Path, identity: str) -> None:
        self._host = urlsplit(url).netloc
        self._context = ssl.create_default_context(cafile=str(pki / "ca.crt"))
        self._context.load_cert_chain(pki / f"{identity}.crt", pki / f"{identity}.key")
        # A deque's ends are safe to use from several threads.
        self._idle: deque[tuple[http.client.HTTPSConnection, float]] = deque()

    def __enter__(self) -> ApiServer:
        return self

    def __exit__(self, *_: object) -> None:
        while self._idle:
            self._idle.pop()[0].close()

    def get(self, path: str) -> Document:
        return self._request("GET", path)

    def create(self, path: str, document: Mapping[str, Any]) -> Document:
        return self._request("POST", path, document)

    def merge(self, path: str, changes: Mapping[str, Any]) -> Document:
        return self._request("PATCH", path, changes, "application/merge-patch+json")

    def apply(self, path: str, document: Mapping[str, Any]) -> Document:
        """Server-side apply: create the object or bring our fields of it up to date."""
        target = f"{path}?fieldManager={_FIELD_MANAGER}&force=true"
        return self._request("PATCH", target, document, "application/apply-patch+yaml")

    def delete(self, path: str) -> None:
        self._request("DELETE", path)

    def lines(self, path: str) -> Iterator[bytes]:
        """The lines of an answer that goes on, such as a watch, as they come; over a connection of its own."""
        connection = http.client.HTTPSConnection(self._host, context=self._context, timeout=_SILENCE)
        try:
            connection.request("GET", path)
            response = connection.getresponse()
            if response.status >= 400:
                raise ApiError(response.status, f"GET {path}: {_message(response.status, response.read())}")
            while line := response.readline():
                yield line
        finally:
            connection.close()

    def each(self, act: Callable[[Item], object], items: Iterable[Item]) -> None:
        """Do something for every item, several at a time; the first failure is raised."""
        with ThreadPoolExecutor(_CONCURRENCY) as pool:
            for future in [pool.submit(act, item) for item in items]:
                future.result()

    def _request(
        self, method: str, path: str, body: Mapping[str, Any] | None = None, media_type: str = "application/json"
    ) -> Document:
        content = None if body is None else json.dumps(body).encode()
        with self._connection() as connection:
            connection.request(method, path, content, {"Content-Type": media_type})
            response = connection.getresponse()
            text = response.read()
        if response.status >= 400:
            raise ApiError(response.status, f"{method} {path}: {_message(response.status, text)}")
        answer: Document = json.loads(text)
        return answer

    @contextmanager
    def _connection(self) -> Iterator[http.client.HTTPSConnection]:
        """A connection for one exchange; it is used again only when the exchange went well."""
        connection = self._idle_connection()
        if connection is None:
            connection = http.client.HTTPSConnection(self._host, context=self._context, timeout=_TIMEOUT)
        try:
            yield connection
        except BaseException:
            connection.close()
            raise
        self._idle.append((connection, time.monotonic()))

    def _idle_connection(self) -> http.client.HTTPSConnection | None:
        while True:
            try:
                connection, since = self._idle.pop()
            except IndexError:
                return None
            if time.monotonic() - since < _IDLE and not _hung_up(connection):
                return connection
            connection.close()


def _hung_up(connection: http.client.HTTPSConnection) -> bool:
    """Whether the other end has closed: nobody asked for anything, so all there can be to read is the end."""
    if connection.sock is None:
        return True
    # Not select(): it knows no file descriptors above 1023.
    poll = select.poll()
    poll.register(connection.sock, select.POLLIN)
    return bool(poll.poll(0))


def _message(status: int, text: bytes) -> str:
    try:
        return str(json.loads(text)["message"])
    except (ValueError, KeyError, TypeError):
        return f"status {status}: {text[:200].decode(errors='replace')}"
