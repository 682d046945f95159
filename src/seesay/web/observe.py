"""What an operator watches: a line of JSON a request, and counts and times as Prometheus reads them."""

from __future__ import annotations

import json
import sys
import threading
import time
from bisect import bisect_left
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from pathlib import Path

from starlette.types import ASGIApp, Message, Receive, Scope, Send

_BUCKETS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0)  # seconds
_OPERATIONS = ("GET", "HEAD", "POST")

Labels = tuple[tuple[str, str], ...]


def log_line(message: str) -> None:
    """Write to standard error what only those who run the server should read."""
    print(message, file=sys.stderr, flush=True)


class Metrics:
    """Requests by route, method and status, and the time until they were answered. Thread-safe."""

    def __init__(self) -> None:
        self._requests: Counter[Labels] = Counter()
        self._times: defaultdict[str, list[int]] = defaultdict(lambda: [0] * (len(_BUCKETS) + 1))
        self._seconds: Counter[str] = Counter()
        self._lock = threading.Lock()
        self.in_flight = 0

    def add(self, route: str, method: str, status: int, seconds: float) -> None:
        """Count an answered request."""
        method = method if method in _OPERATIONS else "other"
        with self._lock:
            self._requests[("route", route), ("method", method), ("status", str(status))] += 1
            self._times[route][bisect_left(_BUCKETS, seconds)] += 1
            self._seconds[route] += seconds  # type: ignore[assignment]  # a Counter sums floats, too

    def text(self, gauges: Mapping[str, tuple[str, Mapping[Labels, float]]]) -> str:
        """Return all in Prometheus' text format.

        Args:
            gauges: what is measured now, by name: what it is, and its values by labels.
        """
        with self._lock:
            lines = [*self._request_lines(), *self._time_lines()]
        lines += _head("seesay_requests_in_flight", "gauge", "Requests that are being answered.")
        lines.append(f"seesay_requests_in_flight {self.in_flight}")
        for name, (help_, values) in gauges.items():
            lines += _head(name, "gauge", help_)
            lines += [f"{name}{_written(labels)} {value:g}" for labels, value in values.items()]
        return "\n".join(lines) + "\n"

    def _request_lines(self) -> Iterator[str]:
        yield from _head("seesay_requests_total", "counter", "Requests that were answered.")
        for labels, count in sorted(self._requests.items()):
            yield f"seesay_requests_total{_written(labels)} {count}"

    def _time_lines(self) -> Iterator[str]:
        name = "seesay_request_seconds"
        yield from _head(name, "histogram", "Time until a request was answered, its body sent.")
        for route, counts in sorted(self._times.items()):
            total = 0
            for limit, count in zip((*_BUCKETS, None), counts, strict=True):
                total += count
                le = "+Inf" if limit is None else f"{limit:g}"
                yield f"{name}_bucket{_written((('route', route), ('le', le)))} {total}"
            yield f"{name}_sum{_written((('route', route),))} {self._seconds[route]:.6f}"
            yield f"{name}_count{_written((('route', route),))} {total}"


def _head(name: str, kind: str, help_: str) -> list[str]:
    return [f"# HELP {name} {help_}", f"# TYPE {name} {kind}"]


def _written(labels: Labels) -> str:
    def escaped(value: str) -> str:
        return value.replace("\\", r"\\").replace('"', r"\"").replace("\n", r"\n")

    return "{" + ",".join(f'{name}="{escaped(value)}"' for name, value in labels) + "}" if labels else ""


def resident_bytes() -> int | None:
    """Return the memory that this process has in RAM; None where the system does not tell."""
    try:
        with Path("/proc/self/statm").open() as file:
            pages = int(file.read().split()[1])
    except OSError:
        return None
    import resource

    return pages * resource.getpagesize()


class Observed:
    """ASGI middleware that counts requests, and logs them if asked to.

    A line holds no query and no header: what people search for is nobody's business.

    Args:
        app: what answers.
        metrics: that the requests are added to.
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

        self._metrics.in_flight += 1
        try:
            await self._app(scope, receive, sending)
        finally:
            self._metrics.in_flight -= 1
            seconds = time.perf_counter() - started
            self._metrics.add(_route(scope), method, status, seconds)
            if self._log:
                _write_line(scope, method, status, size, seconds)


def _route(scope: Scope) -> str:
    """The pattern of the route, so that there are few of them; "other" for what has none."""
    return str(getattr(scope.get("route"), "path", "other"))


def _write_line(scope: Scope, method: str, status: int, size: int, seconds: float) -> None:
    client = scope.get("client")
    line = {
        "time": datetime.now(UTC).isoformat(timespec="milliseconds"),
        "client": client[0] if client else None,
        "method": method,
        "path": scope["path"],
        "status": status,
        "bytes": size,
        "ms": round(seconds * 1e3, 1),
    }
    sys.stdout.write(json.dumps(line) + "\n")
    sys.stdout.flush()
