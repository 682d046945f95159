"""The HTTP API and the page over an index, and their server."""

from __future__ import annotations

import errno
import socket
from collections.abc import AsyncIterator, Callable, Collection
from contextlib import asynccontextmanager
from functools import partial
from html import escape
from importlib.resources import files
from pathlib import Path
from string import Template
from typing import Any, TypeAlias

import uvicorn
from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import FileResponse, HTMLResponse, JSONResponse
from fastapi.staticfiles import StaticFiles
from starlette.exceptions import HTTPException as StarletteHTTPException

from seesay import __version__
from seesay.errors import ImageError, QueryError, SeesayError
from seesay.grounding.ground import SHIPPED, can_ground
from seesay.search.index import Index
from seesay.search.rerank import check_reranks, open_reranker
from seesay.web.answers import failures
from seesay.web.connections import Connection
from seesay.web.limits import MAX_CONNECTIONS, Guard, Limits, error
from seesay.web.routes import grounding_routes, image_routes, query_routes
from seesay.web.service import Lazy, Service

_STATIC = Path(__file__).parent / "static"
_Schema: TypeAlias = dict[str, Any]  # of OpenAPI, which has no types of its own


def create_app(
    index: Index,
    hosts: Collection[str] = ("localhost",),
    limits: Limits | None = None,
    ground_run: str = SHIPPED,
    rerank_run: str | None = None,
) -> FastAPI:
    """Create the application over an index, which it closes at its end.

    Queries see at once what another process writes to the index.

    Args:
        index: to serve.
        hosts: names that the server answers to, besides numeric addresses.
        limits: of requests and connections; `serve` alone limits connections.
        ground_run: the run that grounds phrases.
        rerank_run: the run that re-ranks results on request.

    Raises:
        SeesayError: no such run to re-rank with, or the index was made elsewhere, see `Index.check_root`.
    """
    index.check_root()
    if rerank_run is not None:
        check_reranks(rerank_run)
    reranker = Lazy(partial(open_reranker, rerank_run)) if rerank_run is not None else None
    service = Service(index, limits or Limits(), ground_run, reranker)

    @asynccontextmanager
    async def lifespan(_app: FastAPI) -> AsyncIterator[None]:
        yield
        service.close()

    app = FastAPI(
        title="seesay",
        version=__version__,
        docs_url=None,  # FastAPI's own documentation pages load scripts from elsewhere
        redoc_url=None,
        lifespan=lifespan,
        responses=failures(400, 503),
    )
    app.add_middleware(Guard, limits=service.limits, hosts=hosts)
    _add_error_handlers(app)
    for routes in (query_routes, image_routes, grounding_routes):
        app.include_router(routes(service))

    @app.get("/docs", include_in_schema=False)
    async def docs() -> HTMLResponse:
        return HTMLResponse(_docs_page(app.openapi()))

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
        return error(422 if isinstance(failure, ImageError | QueryError) else 503, str(failure))

    @app.exception_handler(Exception)
    async def unforeseen(_request: Request, _failure: Exception) -> JSONResponse:
        return error(500, "Something failed in the server; see its log.")


def _announce(address: str) -> None:
    print(address, flush=True)  # at once, also where standard output is a file


def serve(
    index: Index,
    host: str = "127.0.0.1",
    port: int = 8000,
    ground_run: str = SHIPPED,
    rerank_run: str | None = None,
    ready: Callable[[str], None] = _announce,
    limits: Limits | None = None,
) -> None:
    """Serve an index until interrupted, then close it.

    Args:
        index: to serve; its run is loaded at once.
        host: address to listen on.
        port: to listen on; 0 chooses a free one.
        ground_run: as in `create_app`.
        rerank_run: as in `create_app`.
        ready: called with the page's address.
        limits: of requests and connections.

    Raises:
        SeesayError: a run is missing or of another kind, the port cannot be used, or the index was made
            elsewhere.
    """
    if ground_run != SHIPPED and not can_ground(ground_run):
        raise SeesayError(
            f"{ground_run}: no run of a grounding recipe (ground-…); name one with --ground, or omit it "
            f"to use {SHIPPED}."
        )
    _ = index.run  # a missing run is an error now, not at the first query
    names = {"localhost", host.lower(), socket.gethostname().lower(), f"{socket.gethostname().lower()}.local"}
    limits = limits or Limits()
    app = create_app(index, names, limits, ground_run, rerank_run)
    config = uvicorn.Config(
        app,
        http=partial(Connection, limits),  # type: ignore[arg-type]  # called like a class
        log_level="warning",
        server_header=False,
        limit_concurrency=MAX_CONNECTIONS + 1,
        timeout_graceful_shutdown=3,
    )
    with _listen(host, port) as listening:
        shown = f"[{host}]" if ":" in host else host
        ready(f"http://{shown}:{listening.getsockname()[1]}")
        uvicorn.Server(config).run(sockets=[listening])


def _listen(host: str, port: int) -> socket.socket:
    if not 0 <= port <= 65535:
        raise SeesayError(f"There is no port {port}; choose one from 1 to 65535.")
    try:
        family, *_, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
    except (OSError, UnicodeError) as error:
        raise SeesayError(f"{host}: not an address of this machine; try --host 127.0.0.1.") from error
    both = family == socket.AF_INET6 and socket.has_dualstack_ipv6()
    try:
        return socket.create_server(address, family=family, backlog=256, dualstack_ipv6=both)
    except OSError as error:
        refusals = {
            errno.EADDRINUSE: f"is taken; stop what runs there, or try --port {port % 65535 + 1}.",
            errno.EACCES: "needs more privileges; choose one above 1023, such as --port 8000.",
        }
        why = refusals.get(error.errno or 0, f"cannot be used ({error.strerror}); try --host 127.0.0.1.")
        raise SeesayError(f"Port {port} on {host} {why}") from error


def _docs_page(schema: _Schema) -> str:
    """A page that needs no other file: each route of an OpenAPI schema with its parameters."""
    routes = [
        _route(path, method, operation)
        for path, operations in schema["paths"].items()
        for method, operation in operations.items()
    ]
    template = Template(files(__package__).joinpath("docs.html").read_text(encoding="utf-8"))
    return template.substitute(version=escape(schema["info"]["version"]), routes="\n".join(routes))


def _route(path: str, method: str, operation: _Schema) -> str:
    rows = "".join(_parameter(parameter) for parameter in operation.get("parameters", []))
    if "requestBody" in operation:
        types = ", ".join(operation["requestBody"]["content"])
        rows += f"<tr><td><code>image</code></td><td>body</td><td>the file as {escape(types)}</td></tr>"
    table = f"<table>{rows}</table>" if rows else ""
    description = escape(operation.get("description", ""))
    return f"<section><h2><b>{method.upper()}</b> {escape(path)}</h2><p>{description}</p>{table}</section>"


def _parameter(parameter: _Schema) -> str:
    schema = parameter["schema"]
    names = {
        "minimum": "from {}",
        "maximum": "to {}",
        "maxLength": "at most {} characters",
        "default": "default {}",
    }
    facts = [parameter["description"]] if "description" in parameter else []
    facts += [text.format(schema[key]) for key, text in names.items() if key in schema]
    cells = (f"<code>{escape(parameter['name'])}</code>", parameter["in"], escape(", ".join(facts)))
    return "<tr>" + "".join(f"<td>{cell}</td>" for cell in cells) + "</tr>"
