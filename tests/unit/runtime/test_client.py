from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from contextlib import aclosing
from typing import Any, TypeVar, cast

import msgspec
import pytest
from runtime_fakes import (
    JSON,
    WIDGETS,
    FakeStream,
    ScriptedTransport,
    TinyApi,
    Widget,
    bookmark,
    error_event,
    event,
    ok,
    status,
    widget,
)

from grove.runtime import errors, requests
from grove.runtime.client import Client
from grove.runtime.codec import decoder
from grove.runtime.limiter import InFlightLimiter
from grove.runtime.objects import ObjectMeta
from grove.runtime.resource import Resource
from grove.runtime.scope import CURRENT, ReconcileScope
from grove.runtime.transport import HttpRequest, HttpResponse, TransportError
from grove.runtime.watch import Added, LineSplitter, Unreadable
from grove.testing.simloop import simulate

T = TypeVar("T")
GET = requests.get(WIDGETS, "ns", "a")
CREATE = requests.create(WIDGETS, {"metadata": {"name": "a", "namespace": "ns"}})
APPLY = requests.apply(WIDGETS, {"metadata": {"name": "a", "namespace": "ns"}})
LOST = TransportError("connection reset")


def attempt(request: requests.Request[Any], *answers: HttpResponse | Exception) -> tuple[Any, int, float]:
    """What sending gives, how often it was tried, and how long that took in simulated time."""

    async def scenario() -> tuple[Any, int, float]:
        transport = ScriptedTransport(list(answers))
        result: Any
        try:
            result = await Client(transport).send(request)
        except errors.ApiError as error:
            result = error
        return result, len(transport.asked), asyncio.get_running_loop().time()

    return simulate(scenario())


@pytest.mark.parametrize(
    ("code", "reason", "kind"),
    [
        (400, "BadRequest", errors.BadRequest),
        (401, "Unauthorized", errors.Unauthorized),
        (403, "Forbidden", errors.Forbidden),
        (404, "NotFound", errors.NotFound),
        (409, "AlreadyExists", errors.AlreadyExists),
        (409, "Conflict", errors.Conflict),
        (410, "Expired", errors.Gone),
        (422, "Invalid", errors.Invalid),
        (500, "InternalError", errors.ServerError),
        (418, "Teapot", errors.ApiError),
    ],
)
def test_each_status_is_its_error(code: int, reason: str, kind: type[errors.ApiError]) -> None:
    causes = [{"field": "spec.x", "message": "bad", "reason": "FieldValueInvalid"}]
    error, tries, _ = attempt(CREATE, status(code, reason, causes=causes))
    assert type(error) is kind
    assert isinstance(error, errors.ApiError)
    assert (error.status, error.reason, error.message) == (code, reason, f"{reason}!")
    assert error.causes == (errors.Cause("spec.x", "bad", "FieldValueInvalid"),)
    assert error.has_cause("FieldValueInvalid")
    assert tries == 1


def test_a_read_is_repeated_until_it_succeeds() -> None:
    result, tries, _ = attempt(GET, LOST, status(500, "InternalError"), ok(widget("a", 1)))
    assert isinstance(result, Widget)
    assert tries == 3


def test_a_create_with_unknown_outcome_is_never_repeated() -> None:
    error, tries, _ = attempt(CREATE, LOST)
    assert isinstance(error, errors.Unreachable)
    assert tries == 1
    error, tries, _ = attempt(CREATE, status(504, "Timeout"))
    assert isinstance(error, errors.ServerError)
    assert tries == 1


def test_an_apply_with_unknown_outcome_is_repeated() -> None:
    result, tries, _ = attempt(APPLY, LOST, ok(widget("a", 1)))
    assert isinstance(result, Widget)
    assert tries == 2


def test_throttling_is_waited_out_even_for_a_create() -> None:
    refused = HttpResponse(429, {**JSON, "retry-after": "7"}, status(429, "TooManyRequests").body)
    result, tries, seconds = attempt(CREATE, refused, ok(widget("a", 1)))
    assert isinstance(result, Widget)
    assert tries == 2
    assert seconds >= 7


def test_a_refused_eviction_is_the_callers_business() -> None:
    error, tries, _ = attempt(requests.evict(WIDGETS, "ns", "a"), status(429, "TooManyRequests"))
    assert isinstance(error, errors.Throttled)
    assert tries == 1


def test_repeating_ends() -> None:
    error, tries, _ = attempt(GET, *[LOST] * 20)
    assert isinstance(error, errors.Unreachable)
    assert 1 < tries < 20


@pytest.mark.parametrize("code", [200, 404, 503])
def test_a_page_of_html_is_a_clear_error(code: int) -> None:
    page = HttpResponse(code, {"content-type": "text/html"}, b"<html>please log in</html>")
    error, _, _ = attempt(CREATE, page)
    assert isinstance(error, errors.NotFound if code == 404 else errors.ServerError)
    assert "please log in" in error.message


def test_a_deleted_object_is_none_and_a_marked_one_is_returned() -> None:
    delete = requests.delete(WIDGETS, "ns", "a")
    assert attempt(delete, ok({"kind": "Status", "status": "Success"}))[0] is None
    marked = attempt(delete, ok({"kind": "Widget", "metadata": {"name": "a", "deletionTimestamp": "now"}}))[0]
    assert isinstance(marked, Widget)
    assert marked.metadata.terminating


async def test_writes_carry_the_field_manager_and_media_type() -> None:
    transport = ScriptedTransport([ok(widget("a", 1)), ok(widget("a", 1))])
    client = Client(transport, field_manager="us")
    await client.send(APPLY)
    await client.send(requests.merge_patch(WIDGETS, "ns", "a", {}, field_manager="them"))
    apply, patch = transport.asked
    assert dict(apply.query)["fieldManager"] == "us"
    assert apply.headers["content-type"] == "application/apply-patch+yaml"
    assert dict(patch.query)["fieldManager"] == "them"
    assert patch.method == "PATCH"


async def test_the_fence_stops_writes_and_lets_reads_pass() -> None:
    transport = ScriptedTransport([ok(widget("a", 1))])
    client = Client(transport, fence=lambda: False)
    with pytest.raises(errors.Fenced):
        await client.send(CREATE)
    assert transport.asked == []
    assert (await client.send(GET)).metadata.name == "a"


async def test_requests_are_reported_and_writes_counted_for_their_reconcile() -> None:
    reports: list[tuple[str, str, int]] = []
    transport = ScriptedTransport([ok(widget("a", 1)), status(404, "NotFound")])
    client = Client(transport, on_request=lambda verb, resource, code, _: reports.append((verb, str(resource), code)))
    scope = ReconcileScope("c", "k", "id")
    token = CURRENT.set(scope)
    await asyncio.gather(client.send(CREATE))  # in a task of its own, as controllers do
    CURRENT.reset(token)
    with pytest.raises(errors.NotFound):
        await client.send(GET)
    assert reports == [("create", "widgets.example.com", 200), ("get", "widgets.example.com", 404)]
    assert scope.writes == 1


async def test_lists_are_read_page_by_page() -> None:
    transport = ScriptedTransport(
        [
            ok({"metadata": {"resourceVersion": "9", "continue": "more"}, "items": [widget("a", 1)]}),
            ok({"metadata": {"resourceVersion": "9"}, "items": [widget("b", 2)]}),
        ]
    )
    everything = await Client(transport).list_all(WIDGETS, namespace="ns", label_selector="x=y")
    assert [obj.metadata.name for obj in everything.items] == ["a", "b"]
    assert everything.metadata.resource_version == "9"
    assert dict(transport.asked[0].query) == {"labelSelector": "x=y", "limit": "500"}
    assert dict(transport.asked[1].query)["continue"] == "more"


async def test_one_unreadable_object_does_not_hide_the_others() -> None:
    items = [widget("a", 1), {"metadata": {"name": "bad"}, "spec": "not a mapping"}]
    page = await Client(ScriptedTransport([ok({"metadata": {}, "items": items})])).list_all(WIDGETS)
    assert [obj.metadata.name for obj in page.items] == ["a"]


async def test_no_more_than_the_limit_is_in_flight() -> None:
    class Slow(TinyApi):
        now = peak = 0

        async def request(self, request: HttpRequest) -> HttpResponse:
            self.now += 1
            self.peak = max(self.peak, self.now)
            await asyncio.sleep(0)
            self.now -= 1
            return ok(widget("a", 1))

    api = Slow()
    client = Client(api, in_flight=5)
    await asyncio.gather(*(client.send(GET) for _ in range(50)))
    assert api.peak == 5
    assert client.limiter.in_flight == 0


def test_the_limit_halves_once_per_overload_and_grows_back() -> None:
    async def scenario() -> list[float]:
        limiter = InFlightLimiter(64)
        limits = []
        limiter.refused()
        limiter.refused()
        limits.append(limiter.limit)
        await asyncio.sleep(1)
        limiter.refused()
        limits.append(limiter.limit)
        for _ in range(10_000):
            limiter.succeeded()
        limits.append(limiter.limit)
        return limits

    assert simulate(scenario()) == [32, 16, 64]


async def test_a_cancelled_waiter_does_not_block_the_next() -> None:
    limiter = InFlightLimiter(1)
    await limiter.acquire()
    first = asyncio.create_task(limiter.acquire())
    second = asyncio.create_task(limiter.acquire())
    await asyncio.sleep(0)
    first.cancel()
    limiter.release()
    await second
    assert limiter.in_flight == 1


async def events_of(*script: bytes | Exception | str, idle: float = 5.0) -> list[Any]:
    client = Client(ScriptedTransport(streams=[FakeStream(list(script))]))
    async with aclosing(client.watch(WIDGETS, idle=idle)) as events:
        return [each async for each in events]


async def test_lines_are_put_together_from_any_pieces() -> None:
    whole = event("ADDED", widget("a", 1)) + event("MODIFIED", widget("a", 2)) + bookmark(3)
    for size in (1, 7, 100, len(whole)):
        pieces = [whole[start : start + size] for start in range(0, len(whole), size)]
        seen = await events_of(*pieces)
        assert [each.object.metadata.resource_version for each in seen] == ["1", "2", "3"]


async def test_a_half_line_at_the_end_is_not_an_event() -> None:
    seen = await events_of(event("ADDED", widget("a", 1)), event("ADDED", widget("b", 2))[:-20])
    assert [each.object.metadata.name for each in seen] == ["a"]


async def test_an_error_event_is_raised_as_its_error() -> None:
    with pytest.raises(errors.Gone):
        await events_of(event("ADDED", widget("a", 1)), error_event(410, "Expired"))


async def test_a_line_that_is_not_json_breaks_the_watch() -> None:
    with pytest.raises(errors.Unreachable, match="not JSON"):
        await events_of(b"<html>\n")


async def test_an_object_that_does_not_fit_is_reported_not_raised() -> None:
    line = b'{"type":"ADDED","object":{"metadata":{"name":"bad","resourceVersion":"4"},"spec":7}}\n'
    (seen,) = await events_of(line)
    assert isinstance(seen, Unreadable)
    assert seen.object.metadata.resource_version == "4"


def test_a_silent_watch_is_hung_up() -> None:
    async def scenario() -> tuple[int, float]:
        seen = await events_of(event("ADDED", widget("a", 1)), "wait", idle=30)
        return len(seen), asyncio.get_running_loop().time()

    seen, seconds = simulate(scenario())
    assert seen == 1
    assert seconds == pytest.approx(30)


def test_the_splitter_keeps_only_the_unfinished_line() -> None:
    splitter = LineSplitter()
    assert splitter.feed(b"a\nb") == [b"a"]
    assert splitter.feed(b"c") == []
    assert splitter.feed(b"d\n\ne\n") == [b"bcd", b"", b"e"]


class Template(msgspec.Struct):
    spec: msgspec.Raw = msgspec.Raw(b"{}")


class Holder(msgspec.Struct, frozen=True):
    metadata: ObjectMeta
    template: Template
    more: list[Template] = msgspec.field(default_factory=list)
    named: dict[str, Template] = msgspec.field(default_factory=dict)
    maybe: Template | None = None


def whole_size(raw: msgspec.Raw) -> int:
    """The size of the buffer that a raw part keeps alive."""
    return len(cast("bytes", memoryview(raw).obj))


def test_raw_parts_do_not_keep_the_message_alive() -> None:
    part = {"spec": {"x": 1}}
    message = msgspec.json.encode(
        {"metadata": {}, "template": part, "more": [part], "named": {"n": part}, "maybe": part, "rest": "y" * 5000}
    )
    held: Holder = decoder(Holder)(message)
    assert held.maybe is not None
    for template in (held.template, held.more[0], held.named["n"], held.maybe):
        raw = template.spec
        assert bytes(raw) == b'{"x":1}'
        assert whole_size(raw) < 100


def test_watched_raw_parts_do_not_keep_the_line_alive() -> None:
    async def scenario() -> Any:
        line = b'{"type":"ADDED","object":{"metadata":{},"template":{"spec":{"x":1}},"pad":"' + b"y" * 5000 + b'"}}\n'
        client = Client(ScriptedTransport(streams=[FakeStream([line])]))
        async with aclosing(client.watch(Resource("g", "v1", "holders", "Holder", Holder))) as events:
            return await anext(events)

    seen = run(scenario())
    assert isinstance(seen, Added)
    assert whole_size(seen.object.template.spec) < 100


def run(main: Coroutine[Any, Any, T]) -> T:
    return asyncio.run(main)
