"""What an operator's tools ask: whether the server lives, whether it is ready, and what it did."""

from __future__ import annotations

from fastapi import APIRouter
from fastapi.responses import PlainTextResponse

from seesay import __version__
from seesay.web.observe import Labels, Metrics, resident_bytes
from seesay.web.problems import failures, problem
from seesay.web.routes.parameters import TheService
from seesay.web.service import Service

PROMETHEUS = "text/plain; version=0.0.4; charset=utf-8"


def probe_routes(metrics: Metrics) -> APIRouter:
    """Build `/healthz`, `/readyz` and `/metrics`."""
    router = APIRouter(tags=["operation"], default_response_class=PlainTextResponse)

    @router.get("/healthz")
    async def healthz() -> PlainTextResponse:
        """Answer as long as the server lives."""
        return PlainTextResponse("ok\n")

    @router.get("/readyz", responses=failures(503))
    async def readyz(service: TheService) -> PlainTextResponse:
        """Answer with 200 once queries need not wait for anything to be loaded, and the index can be read."""
        if not service.is_ready:
            return problem(503, "Still loading; ask again.")  # type: ignore[return-value]
        await service.run(lambda: [each.index.store.generation() for each in service.served.values()])
        return PlainTextResponse("ok\n")

    @router.get("/metrics")
    async def measured(service: TheService) -> PlainTextResponse:
        """Return counts and times in Prometheus' text format."""
        gauges = await service.run(lambda: _gauges(service))
        return PlainTextResponse(metrics.text(gauges), media_type=PROMETHEUS)

    return router


def _gauges(service: Service) -> dict[str, tuple[str, dict[Labels, float]]]:
    images: dict[Labels, float] = {}
    updating: dict[Labels, float] = {}
    batches: dict[Labels, float] = {}
    for served in service.served.values():
        label = (("index", served.name),)
        images[label] = served.index.count("image")
        updating[label] = served.updates.state().running
        for size, count in sorted(served.vectors.sizes.items()):
            batches[*label, ("queries", str(size))] = count
    gauges: dict[str, tuple[str, dict[Labels, float]]] = {
        "seesay_info": ("The version of seesay.", {(("version", __version__),): 1.0}),
        "seesay_index_images": ("Images of an index.", images),
        "seesay_index_updating": ("1 while an index is being updated.", updating),
        "seesay_query_batches": ("Batches of queries that were embedded together, by their size.", batches),
    }
    if (resident := resident_bytes()) is not None:
        gauges["process_resident_memory_bytes"] = ("Memory of the process in RAM.", {(): float(resident)})
    return gauges
