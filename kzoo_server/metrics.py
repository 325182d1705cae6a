"""What ``/metrics`` shows: calls measured as they happen, everything else when it is asked."""

from __future__ import annotations

from typing import TYPE_CHECKING

from prometheus_client import (
    CONTENT_TYPE_LATEST,
    CollectorRegistry,
    Counter,
    Gauge,
    Histogram,
    ProcessCollector,
    generate_latest,
)

from kzoo_core.queue.records import Outcome

if TYPE_CHECKING:
    from collections.abc import Mapping

CONTENT_TYPE = CONTENT_TYPE_LATEST

_METHODS = frozenset({"GET", "HEAD", "POST", "PATCH", "PUT", "DELETE", "OPTIONS"})
_SECONDS = (
    0.001,
    0.0025,
    0.005,
    0.01,
    0.025,
    0.05,
    0.1,
    0.25,
    0.5,
    1.0,
    2.5,
    5.0,
    15.0,
    30.0,
    60.0,
)


class Metrics:
    """The measures of one server, in a registry of its own.

    Labels are bounded: routes by their template, methods by a list, outcomes by their enum.
    """

    def __init__(self) -> None:
        self._registry = CollectorRegistry(auto_describe=False)
        ProcessCollector(registry=self._registry)
        self._requests = Counter(
            "kzoo_http_requests",
            "Calls answered",
            ("method", "route", "status"),
            registry=self._registry,
        )
        self._latency = Histogram(
            "kzoo_http_request_seconds",
            "Time from a call to its answer; held calls include their wait",
            ("method", "route"),
            buckets=_SECONDS,
            registry=self._registry,
        )
        self._finished = Counter(
            "kzoo_submissions_finished",
            "Submissions that ended since the server started",
            ("outcome",),
            registry=self._registry,
        )
        for outcome in Outcome:
            self._finished.labels(outcome.value)
        self._lag = Histogram(
            "kzoo_event_loop_lag_seconds",
            "How late the event loop woke a timer",
            buckets=_SECONDS,
            registry=self._registry,
        )
        self._queue = Gauge(
            "kzoo_queue_submissions",
            "Submissions by state; done ones as far as they are kept",
            ("state",),
            registry=self._registry,
        )
        self._runners = Gauge(
            "kzoo_runners",
            "Runners known, and of those the ones up",
            ("which",),
            registry=self._registry,
        )
        self._index_age = Gauge(
            "kzoo_index_age_seconds", "Age of the index that is served", registry=self._registry
        )
        self._held = Gauge("kzoo_held_requests", "Long polls held now", registry=self._registry)
        self._free = Gauge(
            "kzoo_disk_free_bytes", "Free disk under the state directory", registry=self._registry
        )

    def request(self, method: str, route: str, status: int, took_s: float) -> None:
        """Count one call."""
        verb = method if method in _METHODS else "other"
        self._requests.labels(verb, route, str(status)).inc()
        self._latency.labels(verb, route).observe(took_s)

    def finished(self, outcome: Outcome) -> None:
        """Count one submission that ended."""
        self._finished.labels(outcome.value).inc()

    def lag(self, late_s: float) -> None:
        """Note how late a timer was."""
        self._lag.observe(max(0.0, late_s))

    def exposition(
        self,
        *,
        queue: Mapping[str, int],
        runners: Mapping[str, int],
        index_age_s: float | None,
        held: int,
        free_bytes: int,
    ) -> bytes:
        """Return the text format, with the gauges set to what is true now."""
        for state, number in queue.items():
            self._queue.labels(state).set(number)
        for which, number in runners.items():
            self._runners.labels(which).set(number)
        self._index_age.set(float("nan") if index_age_s is None else index_age_s)
        self._held.set(held)
        self._free.set(free_bytes)
        return generate_latest(self._registry)
