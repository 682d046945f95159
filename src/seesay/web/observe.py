"""Monitoring: a line of JSON for each request, and Prometheus metrics."""

from __future__ import annotations

import json
import sys
import time
from datetime import UTC, datetime

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, Info, ProcessCollector
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from seesay import __version__

_BUCKETS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0)  # seconds
_METHODS = ("GET", "HEAD", "POST")


def log_line(message: str) -> None:
    """Write a message for the operator to standard error."""
    print(message, file=sys.stderr, flush=True)


class Metrics:
    """Requests by route, method and status, and the time until they were answered.

    Attributes:
        registry: of this server's metrics alone, to which others can be added.
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

    The log has no queries and no headers: what people search for is private.

    Args:
        app: the application.
        metrics: to update.
        log: whether to write a line of JSON for each request to standard output.
    """

    def __init__(self, app: ASGIApp, metrics: Metrics, log: bool = False) -> None:
        self._app, self._metrics, self._log = app, metrics, log

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle a request."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        method, started = scope["method"], time.perf_counter()  # which a later layer may change
        status, size = 500, 0

        async def sending(message: Message) -> None:
            nonlocal status, size
            if message["type"] == "http.response.start":
                status = message["status"]
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
