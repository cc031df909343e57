"""Reading pods from the API server: pages of a list, events of a watch, nothing else.

Token and CA are read from their files for every connection, since both are renewed while the program waits. Each
exchange has a connection of its own, and `close` ends the one in use from another thread.
"""

from __future__ import annotations

import http.client
import json
import socket
import ssl
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import urlencode, urlsplit

from grove.api.labels import POD_CLIQUE, POD_GANG
from grove.initc.arguments import Task

Document = dict[str, Any]

_ANSWER_SECONDS = 30.0
# Bookmarks come every minute or so: a watch that is silent for longer may be dead without knowing.
_SILENCE_SECONDS = 90.0
_WATCH_SECONDS = 600
# Small pages keep the memory of the program small, however many pods the parents have.
_PAGE = 100
GONE = 410


class Refused(Exception):
    """The server answered with an error; carries its status code."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(f"{status} {message}")
        self.status = status


class Interrupted(Exception):
    """A watch ended before its end."""


class Page(NamedTuple):
    """A part of a list, and the version of the whole: where to watch from."""

    pods: list[Document]
    version: str


class ApiServer:
    """The pods of one gang that belong to the parents, as the API server knows them."""

    def __init__(self, task: Task) -> None:
        self._task = task
        self._address = urlsplit(task.server)
        cliques = ",".join(parent.name for parent in task.parents)
        self._selector = f"{POD_GANG}={task.gang},{POD_CLIQUE} in ({cliques})"
        self._open: http.client.HTTPConnection | None = None
        self._closed = False

    def pages(self) -> Iterator[Page]:
        """All pods now; there is always at least one page."""
        following = {"limit": str(_PAGE)}
        while True:
            with self._get(following, _ANSWER_SECONDS) as response:
                page: Document = json.loads(response.read())
            yield Page(page.get("items") or [], page["metadata"]["resourceVersion"])
            if not page["metadata"].get("continue"):
                return
            following["continue"] = page["metadata"]["continue"]

    def changes(self, version: str) -> Iterator[tuple[str, Document]]:
        """Events since a version, until the server ends the watch. Raises Refused with 410 when that is too old."""
        options = {
            "watch": "true",
            "allowWatchBookmarks": "true",
            "resourceVersion": version,
            "timeoutSeconds": str(_WATCH_SECONDS),
        }
        with self._get(options, _SILENCE_SECONDS) as response:
            while line := response.readline():
                if not line.endswith(b"\n"):
                    raise Interrupted("the watch broke off in the middle of an event")
                event: Document = json.loads(line)
                if event["type"] == "ERROR":
                    raise _refusal(int(event["object"].get("code") or 500), event["object"])
                yield event["type"], event["object"]

    def close(self) -> None:
        """End the exchange in progress and allow no other; whoever is in it sees a broken connection."""
        self._closed = True
        connection = self._open
        if connection is not None and connection.sock is not None:
            with suppress(OSError):
                # Below TLS: the thread that reads is in the middle of it.
                socket.socket.shutdown(connection.sock, socket.SHUT_RDWR)

    @contextmanager
    def _get(self, options: Mapping[str, str], timeout: float) -> Iterator[http.client.HTTPResponse]:
        path = f"{self._address.path.rstrip('/')}/api/v1/namespaces/{self._task.namespace}/pods"
        query = urlencode({"labelSelector": self._selector, **options})
        token = Path(self._task.token_file).read_text().strip()
        headers = {"Accept": "application/json", "Authorization": f"Bearer {token}", "User-Agent": "grove-initc"}
        connection = self._connection(timeout)
        self._open = connection
        try:
            connection.connect()
            if self._closed:
                raise Interrupted("closed while connecting")
            connection.request("GET", f"{path}?{query}", headers=headers)
            response = connection.getresponse()
            if response.status != 200:
                raise _refusal(response.status, _status(response.read()))
            yield response
        finally:
            self._open = None
            connection.close()

    def _connection(self, timeout: float) -> http.client.HTTPConnection:
        host = self._address.hostname or ""
        if self._address.scheme == "http":
            return http.client.HTTPConnection(host, self._address.port, timeout=timeout)
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.load_verify_locations(self._task.ca_file)
        return http.client.HTTPSConnection(host, self._address.port, timeout=timeout, context=context)


def _refusal(status: int, answer: Document) -> Refused:
    return Refused(status, str(answer.get("message") or answer.get("reason") or "without a reason"))


def _status(body: bytes) -> Document:
    try:
        answer: Document = json.loads(body)
    except ValueError:
        return {"message": body[:200].decode(errors="replace").strip()}
    return answer if isinstance(answer, dict) else {}
