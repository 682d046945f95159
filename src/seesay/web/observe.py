"""Monitoring: JSON log lines of requests, probes and Prometheus metrics."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Iterator
from contextlib import suppress
from datetime import UTC, datetime
from secrets import token_hex

from fastapi import APIRouter
from fastapi.responses import PlainTextResponse
from prometheus_client import CONTENT_TYPE_PLAIN_0_0_4, CollectorRegistry, Histogram, Metric, generate_latest
from prometheus_client.core import GaugeMetricFamily
from prometheus_client.registry import Collector
from starlette.datastructures import Headers, MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from seesay.errors import SeesayError
from seesay.web.answers import failures, problem
from seesay.web.routes import TheService
from seesay.web.service import Service

_BUCKETS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0)  # seconds
_ID = re.compile("[A-Za-z0-9._-]{1,64}")  # that a proxy or client may give a request
_METHODS = ("GET", "HEAD", "POST")
_GAUGES = {
    "readable": "0 if an index cannot be read; its counts are missing.",
    "images": "Images of an index.",
    "faults": "Files that could not be indexed, or whose text could not be read.",
    "updating": "1 while an index is being updated.",
    "update_failed": "1 if the last update of an index failed.",
}
_HEADERS = {
    "Content-Security-Policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' blob:; "
        "connect-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
    ),
    # Pages of other sites may neither show these images nor frame this page.
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cache-Control": "private, no-cache",  # otherwise browsers run old scripts for days after an upgrade
    # Not no-referrer, with which browsers send the origin "null" with the page's own forms.
    "Referrer-Policy": "same-origin",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
}


class Observed:
    """ASGI middleware that counts requests, logs them if wanted, and adds headers to responses.

    The log contains no queries or headers, because searches are private.

    Args:
        app: the application; it gets HEAD as GET, and the server sends no body.
        registry: the metrics to which those of requests are added.
        log: whether to write a line of JSON for each request to standard output.
    """

    def __init__(self, app: ASGIApp, registry: CollectorRegistry, log: bool = False) -> None:
        self._app, self._log = app, log
        self._seconds = Histogram(
            "seesay_request_seconds",
            "Time until a request was answered, its body sent.",
            ("route", "method", "status"),
            registry=registry,
            buckets=_BUCKETS,
        )

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle a request."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        method, started = scope["method"], time.perf_counter()
        given = Headers(scope=scope).get("x-request-id", "")
        scope = {**scope, "id": given if _ID.fullmatch(given) else token_hex(8), "is_head": method == "HEAD"}
        if scope["is_head"]:
            scope["method"] = "GET"
        status, size = 500, 0

        async def sending(message: Message) -> None:
            nonlocal status, size
            if message["type"] == "http.response.start":
                status = message["status"]
                headers = MutableHeaders(scope=message)
                headers["X-Request-ID"] = scope["id"]
                for name, value in _HEADERS.items():
                    headers.setdefault(name, value)
            elif message["type"] == "http.response.body":
                size += len(message.get("body", b""))
            await send(message)

        try:
            await self._app(scope, receive, sending)
        finally:
            seconds = time.perf_counter() - started
            # The pattern of the route, so that there are few labels.
            route = getattr(scope.get("route"), "path", "other")
            counted = method if method in _METHODS else "other"
            self._seconds.labels(route, counted, status).observe(seconds)
            if self._log:
                line = {
                    "time": datetime.now(UTC).isoformat(timespec="milliseconds"),
                    "id": scope["id"],
                    "client": scope["client"][0] if scope.get("client") else None,
                    "method": method,
                    "path": scope["path"],
                    "status": status,
                    "bytes": size,
                    "ms": round(seconds * 1e3, 1),
                }
                print(json.dumps(line), flush=True)


def probe_routes(registry: CollectorRegistry) -> APIRouter:
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
        text = await service.run(lambda: generate_latest(registry))
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
        for index, served in self._service.served.items():
            updates = served.updates
            values = {"readable": 0.0, "updating": updates.running, "update_failed": updates.failed}
            with suppress(SeesayError):  # its counts are missing if it cannot be read
                served.index.check_readable()
                counts = {"images": served.index.count("image"), "faults": len(updates.faults())}
                values |= counts | {"readable": 1.0}
            for name, value in values.items():
                gauges[name].add_metric([index], value)
        yield from gauges.values()
