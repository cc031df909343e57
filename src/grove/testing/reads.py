"""Get, list and watch: pages, selectors, versions, and the encoded answers.

A list in pages is one consistent state: the first page keeps what the later ones will show, until history is compacted.
"""

from __future__ import annotations

import base64
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import msgspec

from grove.testing import failures, selectors
from grove.testing.failures import Cause
from grove.testing.kinds import Resource
from grove.testing.objects import Key
from grove.testing.requests import ApiRequest
from grove.testing.selectors import Predicate
from grove.testing.storage import Stored, Table
from grove.testing.watch import Watch, WatchOptions

if TYPE_CHECKING:
    from grove.testing.state import State

_KEPT_PAGES = 64
_EXPIRED_CONTINUE = (
    "The provided continue parameter is too old to display a consistent list result. You can start a new list without "
    "the continue parameter"
)
AS_OF = "asOf"
"""A query parameter of this server alone: a list (or the start of a watch) from an older state, as a cache has it."""


@dataclass(frozen=True, slots=True)
class _Remainder:
    """What is left of a paged list after a page."""

    resource: Resource
    version: int
    items: Sequence[Stored]


class Reads:
    """The read side of the server."""

    def __init__(self, state: State, *, show_managed_fields: bool) -> None:
        self._state = state
        self._show_managed_fields = show_managed_fields
        self._remainders: dict[str, _Remainder] = {}
        self._token = 0

    def encode(self, resource: Resource, stored: Stored) -> bytes:
        """An object as it is answered, under the version that was asked for."""
        obj = stored.obj
        other_version = resource.custom and obj.get("apiVersion") != resource.api_version
        if not other_version and not self._show_managed_fields:
            return stored.encoded()
        if other_version:
            obj = {**obj, "apiVersion": resource.api_version}
        if self._show_managed_fields:
            obj = {**obj, "metadata": {**obj["metadata"], "managedFields": stored.ownership.rendered()}}
        return msgspec.json.encode(obj)

    def get(self, request: ApiRequest) -> bytes:
        return self.encode(request.target.resource, self._state.find(request.target))

    def forget_pages(self) -> None:
        self._remainders.clear()

    def list(self, request: ApiRequest) -> bytes:
        resource = request.target.resource
        token = request.query.get("continue", "")
        if token:
            _check_token(token)
            remainder = self._remainders.get(token)
            if remainder is None or remainder.resource is not resource:
                raise failures.expired(_EXPIRED_CONTINUE)
            version, items = remainder.version, remainder.items
        else:
            version, items = self.select(request)
        return self._page(request, version, items)

    def select(self, request: ApiRequest) -> tuple[int, Sequence[Stored]]:
        """The objects a list or delete-collection request means, and the version they are from."""
        table = self._state.storage.table(request.target.resource.group_resource)
        version = self._version_for_list(request, table)
        namespace = request.target.namespace
        if version is None:
            version, items = self._state.storage.version, table.sorted(namespace)
        else:
            items = table.sorted_as_of(version, namespace)
        predicate = _predicate(request)
        return version, items if predicate is selectors.everything else [s for s in items if predicate(s.obj)]

    def _version_for_list(self, request: ApiRequest, table: Table) -> int | None:
        """The past version to answer from, or None for the present."""
        wanted = request.query.get("resourceVersion", "")
        if AS_OF in request.query:
            return max(int(request.query[AS_OF]), table.compacted)
        if not wanted or wanted == "0":
            return None
        if not wanted.isdigit():
            raise failures.bad_request(f"Invalid value: {wanted!r}: strconv.ParseUint: invalid syntax")
        if request.query.get("resourceVersionMatch") != "Exact":
            self._refuse_future(int(wanted))
            return None
        if int(wanted) < table.compacted:
            raise failures.expired(f"The resourceVersion for the provided list is too old: {wanted}")
        return int(wanted)

    def _refuse_future(self, version: int) -> None:
        if version > self._state.storage.version:
            message = f"Too large resource version: {version}, current: {self._state.storage.version}"
            details = {"causes": [{"reason": "ResourceVersionTooLarge", "message": "Too large resource version"}]}
            raise failures.ApiError(504, "Timeout", message, {**details, "retryAfterSeconds": 1})

    def _page(self, request: ApiRequest, version: int, items: Sequence[Stored]) -> bytes:
        resource = request.target.resource
        limit = int(request.query.get("limit") or 0)
        meta = {"resourceVersion": str(version)}
        left = ""
        if limit and len(items) > limit:
            left = self._keep(_Remainder(resource, version, items[limit:]), items[limit].key)
            meta["continue"] = left
            remaining = len(items) - limit
            items = items[:limit]
        encoded_meta = msgspec.json.encode({**meta, "remainingItemCount": remaining} if left else meta)
        encode = self.encode
        body = b",".join([encode(resource, stored) for stored in items])
        head = f'{{"kind":"{resource.list_kind}","apiVersion":"{resource.api_version}","metadata":'.encode()
        return b"".join((head, encoded_meta, b',"items":[', body, b"]}"))

    def _keep(self, remainder: _Remainder, start: Key) -> str:
        self._token += 1
        text = {"v": "meta.k8s.io/v1", "rv": remainder.version, "start": "/".join(start), "n": self._token}
        token = base64.urlsafe_b64encode(msgspec.json.encode(text)).decode()
        self._remainders[token] = remainder
        while len(self._remainders) > _KEPT_PAGES:
            del self._remainders[next(iter(self._remainders))]
        return token

    def watch(self, request: ApiRequest) -> Watch:
        resource = request.target.resource
        table = self._state.storage.table(resource.group_resource)
        version = request.query.get("resourceVersion", "")
        initial_events = self._wants_initial_events(request)
        start = None if initial_events or version in ("", "0") else int(version)
        bookmarks = request.flag("allowWatchBookmarks")
        listed: tuple[int, Sequence[Stored]] = (0, ())
        if start is None:
            listed = self.select(request)
        else:
            self._refuse_future(start)
        options = WatchOptions(
            resource=resource,
            namespace=request.target.namespace,
            selects=_predicate(request),
            start=start,
            bookmarks=bookmarks,
            mark_initial_end=initial_events and bookmarks,
            initial=tuple(listed[1]),
            initial_version=listed[0],
        )
        return Watch(table, options, lambda stored: self.encode(resource, stored))

    @staticmethod
    def _wants_initial_events(request: ApiRequest) -> bool:
        if "sendInitialEvents" not in request.query:
            return False
        if request.query.get("resourceVersionMatch") != "NotOlderThan":
            message = (
                "Forbidden: resourceVersionMatch is required and must be NotOlderThan when sendInitialEvents is set"
            )
            subject = failures.Subject("", "meta.k8s.io", "", "ListOptions")
            raise failures.invalid(subject, [Cause("FieldValueForbidden", "resourceVersionMatch", message)])
        return request.flag("sendInitialEvents")


def _check_token(token: str) -> None:
    try:
        text = msgspec.json.decode(base64.urlsafe_b64decode(token + "=" * (-len(token) % 4)))
    except (ValueError, msgspec.DecodeError):
        text = None
    if not isinstance(text, dict) or text.get("v") != "meta.k8s.io/v1":
        raise failures.bad_request("continue key is not valid: encoding is not valid")


def _predicate(request: ApiRequest) -> Predicate:
    labels, fields = request.query.get("labelSelector", ""), request.query.get("fieldSelector", "")
    if request.target.name:
        fields = f"metadata.name={request.target.name}" + (f",{fields}" if fields else "")
    by_label = selectors.label_selector(labels) if labels else selectors.everything
    by_field = selectors.field_selector(fields) if fields else selectors.everything
    if by_field is selectors.everything:
        return by_label
    if by_label is selectors.everything:
        return by_field
    return lambda obj: by_label(obj) and by_field(obj)
