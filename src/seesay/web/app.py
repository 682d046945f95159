"""The HTTP API and the page over an index."""

from __future__ import annotations

from collections.abc import AsyncIterator, Collection
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import FileResponse, HTMLResponse, JSONResponse
from fastapi.staticfiles import StaticFiles
from starlette.exceptions import HTTPException as StarletteHTTPException

from seesay import __version__
from seesay.errors import ImageError, SeesayError
from seesay.grounding.ground import SHIPPED
from seesay.search.index import Index
from seesay.search.rerank import check_reranks, open_reranker
from seesay.web.docs import docs_page
from seesay.web.limits import Guard, Limits, error
from seesay.web.routes import grounding_routes, image_routes, query_routes
from seesay.web.service import Lazy, LazyGrounder, Service

_STATIC = Path(__file__).parent / "static"


def create_app(
    index: Index,
    hosts: Collection[str] = ("localhost",),
    limits: Limits | None = None,
    ground_run: str = SHIPPED,
    rerank_run: str | None = None,
) -> FastAPI:
    """Create the application over an index, which it closes at its end.

    What another process writes to the index shows with the next query.

    Args:
        index: to serve.
        hosts: names that the server answers to, besides numeric addresses.
        limits: of one request.
        ground_run: the run that points at phrases.
        rerank_run: the run that re-ranks results for those who ask for it.

    Raises:
        SeesayError: no such run to re-rank with.
    """
    if rerank_run is not None:
        check_reranks(rerank_run)
    reranker = Lazy(partial(open_reranker, rerank_run)) if rerank_run is not None else None
    service = Service(index, limits or Limits(), LazyGrounder(ground_run), reranker)

    @asynccontextmanager
    async def lifespan(_app: FastAPI) -> AsyncIterator[None]:
        yield
        index.close()

    # FastAPI's own documentation pages load scripts from elsewhere.
    app = FastAPI(title="seesay", version=__version__, docs_url=None, redoc_url=None, lifespan=lifespan)
    app.add_middleware(Guard, limits=service.limits, hosts=hosts)
    _add_error_handlers(app)
    for routes in (query_routes, image_routes, grounding_routes):
        app.include_router(routes(service))

    @app.get("/docs", include_in_schema=False)
    async def docs() -> HTMLResponse:
        return HTMLResponse(docs_page(app.openapi()))

    @app.get("/", include_in_schema=False)
    async def page() -> FileResponse:
        return FileResponse(_STATIC / "index.html", headers={"Cache-Control": "no-cache"})

    app.mount("/static", StaticFiles(directory=_STATIC))
    return app


def _add_error_handlers(app: FastAPI) -> None:
    @app.exception_handler(StarletteHTTPException)
    async def http(_request: Request, failure: StarletteHTTPException) -> JSONResponse:
        response = error(failure.status_code, str(failure.detail))
        response.headers.update(failure.headers or {})
        return response

    @app.exception_handler(RequestValidationError)
    async def validation(_request: Request, failure: RequestValidationError) -> JSONResponse:
        first = failure.errors()[0]
        return error(422, f"{first['loc'][-1]}: {first['msg']}.")

    @app.exception_handler(SeesayError)
    async def ours(_request: Request, failure: SeesayError) -> JSONResponse:
        return error(422 if isinstance(failure, ImageError) else 503, str(failure))

    @app.exception_handler(Exception)
    async def unforeseen(_request: Request, _failure: Exception) -> JSONResponse:
        return error(500, "Something failed in the server; see its log.")
