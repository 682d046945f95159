"""Probes and metrics for an operator's tools."""

from __future__ import annotations

from collections.abc import Iterator

from fastapi import APIRouter
from fastapi.responses import PlainTextResponse
from prometheus_client import CONTENT_TYPE_PLAIN_0_0_4, Metric, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.registry import Collector

from seesay.web.observe import Metrics
from seesay.web.problems import failures, problem
from seesay.web.routes.parameters import TheService
from seesay.web.service import Service


def probe_routes(metrics: Metrics) -> APIRouter:
    """Build `/healthz`, `/readyz` and `/metrics`."""
    router = APIRouter(tags=["operation"], default_response_class=PlainTextResponse)

    @router.get("/healthz")
    async def healthz() -> PlainTextResponse:
        """Answer while the server is running."""
        return PlainTextResponse("ok\n")

    @router.get("/readyz", responses=failures(503))
    async def readyz(service: TheService) -> PlainTextResponse:
        """Answer with 200 once everything is loaded and the indexes can be read."""
        if not service.is_ready:
            return problem(503, "Still loading; ask again.")  # type: ignore[return-value]
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
        images = GaugeMetricFamily("seesay_index_images", "Images of an index.", labels=["index"])
        updating = GaugeMetricFamily(
            "seesay_index_updating", "1 while an index is being updated.", labels=["index"]
        )
        batches = CounterMetricFamily(
            "seesay_query_batches",
            "Batches of queries that were embedded together, by their size.",
            labels=["index", "queries"],
        )
        for served in self._service.served.values():
            images.add_metric([served.name], served.index.count("image"))
            updating.add_metric([served.name], served.updates.state().running)
            for size, count in sorted(served.queries.sizes.items()):
                batches.add_metric([served.name, str(size)], count)
        yield from (images, updating, batches)
