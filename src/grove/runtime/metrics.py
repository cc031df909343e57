"""What can be measured about any controller, as Prometheus metrics in a registry of our own.

Label children are bound once and kept, which makes an observation cost well under a microsecond; depths and ages are
read when they are scraped. An app adds its own metrics to `Metrics.registry`.
"""

from __future__ import annotations

from typing import Any

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest
from prometheus_client.exposition import CONTENT_TYPE_LATEST

from grove.runtime.queue import WorkQueue
from grove.runtime.resource import Resource
from grove.runtime.scope import ReconcileScope
from grove.runtime.store import Store

CONTENT_TYPE = CONTENT_TYPE_LATEST
_SECONDS = (0.001, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60)
_WRITES = (0, 1, 2, 3, 5, 10, 25, 50, 100, 250, 500, 1000)


class Metrics:
    """The metrics of one process. Implements what Client (`api_request`) and Controller (`reconciled`) report to."""

    def __init__(self, prefix: str = "grove") -> None:
        self.registry = CollectorRegistry()
        common: dict[str, Any] = {"namespace": prefix, "registry": self.registry}
        by_controller = ("controller",)
        self._reconciles = Counter("reconciles", "Reconciles by outcome.", ("controller", "outcome"), **common)
        self._durations = Histogram(
            "reconcile_seconds", "How long reconciles take.", by_controller, buckets=_SECONDS, **common
        )
        self._writes = Histogram(
            "writes_per_reconcile", "API writes made by one reconcile.", by_controller, buckets=_WRITES, **common
        )
        self._requests = Counter(
            "api_requests", "Requests by outcome; code 0 is no answer.", ("verb", "resource", "code"), **common
        )
        self._latencies = Histogram(
            "api_request_seconds", "How long requests take.", ("verb", "resource"), buckets=_SECONDS, **common
        )
        self._depth = Gauge("queue_depth", "Keys ready and waiting.", by_controller, **common)
        self._age = Gauge("queue_oldest_seconds", "How long the oldest ready key has waited.", by_controller, **common)
        self._objects = Gauge("cache_objects", "Objects held.", ("resource",), **common)
        self._pending = Gauge(
            "cache_pending_writes", "Own writes that the watch has not confirmed yet.", ("resource",), **common
        )
        self._lag = Histogram(
            "cache_lag_seconds", "From the answer to a write until the watch tells of it.", buckets=_SECONDS, **common
        )
        self._synced = Gauge("cache_synced", "Whether the cache is complete.", ("resource",), **common)
        self._leading = Gauge("leader", "Whether this process leads.", **common)
        self._bound: dict[Any, tuple[Any, ...]] = {}

    def api_request(self, verb: str, resource: Resource[Any], code: int, seconds: float) -> None:
        """What Client's `on_request` wants."""
        key = (verb, resource.plural, resource.group, code)
        bound = self._bound.get(key)
        if bound is None:
            name = str(resource)
            bound = (self._requests.labels(verb, name, str(code)), self._latencies.labels(verb, name))
            self._bound[key] = bound
        bound[0].inc()
        bound[1].observe(seconds)

    def reconciled(self, scope: ReconcileScope, outcome: str, seconds: float) -> None:
        """What Controller's observer wants."""
        key = (scope.controller, outcome)
        bound = self._bound.get(key)
        if bound is None:
            bound = (
                self._reconciles.labels(scope.controller, outcome),
                self._durations.labels(scope.controller),
                self._writes.labels(scope.controller),
            )
            self._bound[key] = bound
        bound[0].inc()
        bound[1].observe(seconds)
        bound[2].observe(scope.writes)

    def watch_queue(self, controller: str, queue: WorkQueue[Any]) -> None:
        self._depth.labels(controller).set_function(lambda: len(queue))
        self._age.labels(controller).set_function(lambda: queue.oldest_age)

    def watch_store(self, store: Store[Any]) -> None:
        name = str(store.resource)
        self._objects.labels(name).set_function(lambda: len(store))
        self._pending.labels(name).set_function(lambda: store.pending)
        self._synced.labels(name).set_function(lambda: float(store.synced))
        store.on_lag = self._lag.observe

    def leading(self, leads: bool) -> None:
        self._leading.set(float(leads))

    def render(self) -> bytes:
        """The scrape."""
        return generate_latest(self.registry)
