"""Monitoring: JSON log lines of requests, probes and Prometheus metrics."""

from __future__ import annotations

import json
import re
import sys
import time
from collections.abc import Iterator
from datetime import UTC, datetime
from secrets import token_hex

from fastapi import APIRouter
from fastapi.responses import PlainTextResponse
from prometheus_client import (
    CONTENT_TYPE_PLAIN_0_0_4,
    CollectorRegistry,
    Counter,
    Gauge,
    Histogram,
    Info,
    Metric,
    ProcessCollector,
    generate_latest,
)
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.registry import Collector
from starlette.datastructures import Headers, MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from seesay import __version__
from seesay.errors import SeesayError
from seesay.web.answers import failures, problem
from seesay.web.routes.parameters import TheService
from seesay.web.served import Served
from seesay.web.service import Service

_BUCKETS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0)  # seconds
_ID = re.compile("[A-Za-z0-9._-]{1,64}")  # that a proxy or client may give a request
_METHODS = ("GET", "HEAD", "POST")
_GAUGES = {
    "readable": "0 if an index cannot be read; its counts are missing.",
    "images": "Images of an index.",
    "updating": "1 while an index is being updated.",
    "faults": "Files that could not be indexed.",
    "changed_timestamp_seconds": "When an index was last written, by any process.",
}


class Metrics:
    """Requests by route, method and status, and their durations.

    Attributes:
        registry: the registry of this server's metrics, to which others can be added.
    """

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        ProcessCollector(registry=self.registry)
        Info("seesay", "The version of seesay.", registry=self.registry).info({"version": __version__})
        self.requests = Counter(
            "seesay_requests",
            "Requests that were answered.",
            ("route", "method", "status"),
            registry=self.registry,
        )
        self.seconds = Histogram(
            "seesay_request_seconds",
            "Time until a request was answered, its body sent.",
            ("route",),
            registry=self.registry,
            buckets=_BUCKETS,
        )
        self.in_flight = Gauge(
            "seesay_requests_in_flight", "Requests that are being answered.", registry=self.registry
        )


class Observed:
    """ASGI middleware that counts requests, and optionally logs them.

    The log contains no queries or headers, because searches are private.

    Args:
        app: the application.
        metrics: the metrics to update.
        log: whether to write a line of JSON for each request to standard output.
    """

    def __init__(self, app: ASGIApp, metrics: Metrics, log: bool = False) -> None:
        self._app, self._metrics, self._log = app, metrics, log

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle a request."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        method, started = scope["method"], time.perf_counter()  # a later layer may change the method
        given = Headers(scope=scope).get("x-request-id", "")
        scope["id"] = given if _ID.fullmatch(given) else token_hex(8)
        status, size = 500, 0

        async def sending(message: Message) -> None:
            nonlocal status, size
            if message["type"] == "http.response.start":
                status = message["status"]
                MutableHeaders(scope=message)["X-Request-ID"] = scope["id"]
            elif message["type"] == "http.response.body":
                size += len(message.get("body", b""))
            await send(message)

        try:
            with self._metrics.in_flight.track_inprogress():
                await self._app(scope, receive, sending)
        finally:
            seconds, route = time.perf_counter() - started, _route(scope)
            counted = method if method in _METHODS else "other"
            self._metrics.requests.labels(route, counted, status).inc()
            self._metrics.seconds.labels(route).observe(seconds)
            if self._log:
                _write_line(scope, method, status, size, seconds)


def _route(scope: Scope) -> str:
    """Return the pattern of the route, so that metrics have few labels; "other" without a route."""
    return str(getattr(scope.get("route"), "path", "other"))


def _write_line(scope: Scope, method: str, status: int, size: int, seconds: float) -> None:
    client = scope.get("client")
    line = {
        "time": datetime.now(UTC).isoformat(timespec="milliseconds"),
        "id": scope["id"],
        "client": client[0] if client else None,
        **({"user": scope["user"]} if scope.get("user") else {}),
        "method": method,
        "path": scope["path"],
        "status": status,
        "bytes": size,
        "ms": round(seconds * 1e3, 1),
    }
    sys.stdout.write(json.dumps(line) + "\n")
    sys.stdout.flush()


def probe_routes(metrics: Metrics) -> APIRouter:
    """Build `/healthz`, `/readyz` and `/metrics`."""
    router = APIRouter(tags=["operation"], default_response_class=PlainTextResponse)

    @router.get("/healthz")
    async def healthz() -> PlainTextResponse:
        """Answer while the server is running."""
        return PlainTextResponse("ok\n")

    @router.get("/readyz", responses=failures(503))
    async def readyz(service: TheService) -> PlainTextResponse:
        """Answer with 200 once the indexes are loaded and can be read."""
        if not service.is_ready:
            return problem(503, "Still loading; try again.")  # type: ignore[return-value]
        for served in service.served.values():
            await service.run(served.index.check_readable)
        return PlainTextResponse("ok\n")

    @router.get("/metrics")
    async def measured(service: TheService) -> PlainTextResponse:
        """Return counts and times in Prometheus' text format."""
        text = await service.run(lambda: generate_latest(metrics.registry))
        return PlainTextResponse(text, media_type=CONTENT_TYPE_PLAIN_0_0_4)

    return router


class IndexMetrics(Collector):
    """Metrics of each index, collected on request."""

    def __init__(self, service: Service) -> None:
        self._service = service

    def collect(self) -> Iterator[Metric]:
        """Yield the metrics of all indexes."""
        gauges = {
            name: GaugeMetricFamily(f"seesay_index_{name}", about, labels=["index"])
            for name, about in _GAUGES.items()
        }
        updates = CounterMetricFamily(
            "seesay_index_updates", "Updates that this server ended.", labels=["index", "outcome"]
        )
        ended = GaugeMetricFamily(
            "seesay_index_update_timestamp_seconds",
            "When an update last ended with that outcome; 0 for never.",
            labels=["index", "outcome"],
        )
        for served in self._service.served.values():
            values = {"updating": served.updates.running, "readable": 0.0} | _counts(served)
            for name, value in values.items():
                gauges[name].add_metric([served.name], value)
            for outcome, times in served.updates.outcomes().items():
                updates.add_metric([served.name, outcome], times.often)
                ended.add_metric([served.name, outcome], times.last)
        yield from (*gauges.values(), updates, ended)


def _counts(served: Served) -> dict[str, float]:
    """Return the metrics that are read from an index; empty if it cannot be read."""
    index = served.index
    try:
        index.check_readable()
        counts = {"images": index.count("image"), "faults": len(served.updates.faults())}
        return {"readable": 1.0, "changed_timestamp_seconds": index.store.changed(), **counts}
    except SeesayError:
        return {}
