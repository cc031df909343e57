from __future__ import annotations

import asyncio
import io
import json
import logging
from collections.abc import Iterator

import aiohttp
import pytest
import structlog
from runtime_fakes import WIDGETS, TinyApi, widget

from grove.runtime import logs
from grove.runtime.client import Client
from grove.runtime.clock import LoopClock, SystemClock, parse_rfc3339, rfc3339, rfc3339_micro
from grove.runtime.health import Health
from grove.runtime.metrics import Metrics
from grove.runtime.queue import WorkQueue
from grove.runtime.scope import CURRENT, ReconcileScope
from grove.runtime.server import HttpServer, metrics_route
from grove.runtime.store import Store
from grove.runtime.worker import DONE, Controller, Result
from grove.testing.simloop import DEFAULT_START, SimClock, simulate


@pytest.fixture
def output() -> Iterator[io.StringIO]:
    """Logging as configured by the test, put back afterwards."""
    root = logging.getLogger()
    handlers, level = root.handlers[:], root.level
    yield io.StringIO()
    structlog.reset_defaults()
    root.handlers[:] = handlers
    root.setLevel(level)


def sample(metrics: Metrics, name: str, **labels: str) -> float | None:
    return metrics.registry.get_sample_value(name, labels)


def test_reconciles_requests_queues_and_caches_are_measured() -> None:
    async def scenario() -> Metrics:
        metrics = Metrics()
        client = Client(TinyApi(), on_request=metrics.api_request)
        store = Store(WIDGETS)
        metrics.watch_store(store)
        queue: WorkQueue[str] = WorkQueue()
        metrics.watch_queue("widgets", queue)

        async def reconcile(key: str) -> Result:
            from grove.runtime import requests

            made = await client.send(requests.create(WIDGETS, {"metadata": {"name": "a", "namespace": "ns"}}))
            store.overlay(made)
            return DONE

        controller = Controller("widgets", queue, reconcile, observer=metrics)
        running = asyncio.create_task(controller.run())
        queue.add("ns/a")
        await asyncio.sleep(1)
        assert sample(metrics, "grove_cache_pending_writes", resource="widgets.example.com") == 1
        store.apply(widget("a", 1, uid="uid-1"))
        controller.stop()
        await running
        return metrics

    metrics = simulate(scenario())
    assert sample(metrics, "grove_reconciles_total", controller="widgets", outcome="done") == 1
    assert sample(metrics, "grove_writes_per_reconcile_sum", controller="widgets") == 1
    assert sample(metrics, "grove_api_requests_total", verb="create", resource="widgets.example.com", code="201") == 1
    assert sample(metrics, "grove_queue_depth", controller="widgets") == 0
    assert sample(metrics, "grove_cache_objects", resource="widgets.example.com") == 1
    assert sample(metrics, "grove_cache_lag_seconds_count") == 1


def test_json_lines_carry_time_level_and_reconcile(output: io.StringIO) -> None:
    logs.configure("json", stream=output, clock=SimClock())
    token = CURRENT.set(ReconcileScope("widgets", "ns/a", "0badcafe"))
    structlog.get_logger().info("hello", count=3)
    structlog.get_logger().debug("too quiet")
    CURRENT.reset(token)
    assert json.loads(output.getvalue()) == {
        "event": "hello",
        "count": 3,
        "level": "info",
        "time": "2026-01-01T00:00:00.000000Z",
        "controller": "widgets",
        "key": "ns/a",
        "reconcile": "0badcafe",
    }


def test_exceptions_and_foreign_records_come_out_as_json_too(output: io.StringIO) -> None:
    logs.configure("json", stream=output)
    try:
        raise ValueError("broken")
    except ValueError:
        structlog.get_logger().exception("failed", thing=object)
    logging.getLogger("aiohttp").warning("careful %s", "now")
    first, second = (json.loads(line) for line in output.getvalue().splitlines())
    assert "ValueError: broken" in first["exception"]
    assert (second["event"], second["logger"], second["level"]) == ("careful now", "aiohttp", "warning")


def test_text_is_for_people(output: io.StringIO) -> None:
    logs.configure("text", "debug", stream=output)
    structlog.get_logger().debug("hello", count=3)
    assert "hello" in output.getvalue()
    assert "count=3" in output.getvalue()


def test_an_unknown_level_is_refused() -> None:
    with pytest.raises(ValueError, match="unknown log level 'loud'"):
        logs.configure(level="loud")


async def test_health_and_metrics_are_served() -> None:
    health = Health()
    ready = False

    def broken() -> bool:
        raise RuntimeError("cannot tell")

    health.live_when("loop", lambda: True)
    health.ready_when("caches", lambda: ready)
    server = HttpServer([*health.routes(), metrics_route(Metrics())], host="127.0.0.1")
    await server.start()
    try:
        async with aiohttp.ClientSession(f"http://127.0.0.1:{server.port}") as session:

            async def get(path: str) -> tuple[int, str]:
                async with session.get(path) as response:
                    return response.status, await response.text()

            assert (await get("/healthz"))[0] == 200
            code, text = await get("/readyz")
            assert code == 503
            assert "[-] caches" in text
            ready = True
            assert (await get("/readyz"))[0] == 200
            health.ready_when("odd", broken)
            code, text = await get("/readyz")
            assert code == 503
            assert "cannot tell" in text
            code, text = await get("/metrics")
            assert code == 200
            assert "grove_leader" in text
    finally:
        await server.stop()
    with pytest.raises(RuntimeError, match="not running"):
        _ = server.port


async def test_a_port_that_is_taken_is_an_error() -> None:
    first = HttpServer([], host="127.0.0.1")
    await first.start()
    second = HttpServer([], host="127.0.0.1", port=first.port)
    with pytest.raises(OSError, match="in use"):
        await second.start()
    assert not second.running
    await first.stop()


def test_dates_follow_the_loop_and_are_written_as_kubernetes_does() -> None:
    async def scenario() -> tuple[str, str, float]:
        clock = LoopClock(DEFAULT_START)
        before = clock.monotonic()
        await asyncio.sleep(90)
        return rfc3339(clock.now()), rfc3339_micro(clock.now()), clock.monotonic() - before

    seconds, micros, passed = simulate(scenario())
    assert seconds == "2026-01-01T00:01:30Z"
    assert micros == "2026-01-01T00:01:30.000000Z"
    assert passed == pytest.approx(90)
    assert parse_rfc3339(micros) == parse_rfc3339(seconds)
    assert SystemClock().now().tzinfo is not None
