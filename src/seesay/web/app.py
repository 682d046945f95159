"""The HTTP API and the search page, and their server."""

from __future__ import annotations

import asyncio
import re
import socket
import sys
import threading
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

import segno
import uvicorn
from fastapi import APIRouter, Depends, FastAPI, Form, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import FileResponse, RedirectResponse, Response
from fastapi.security import HTTPBearer
from fastapi.staticfiles import StaticFiles
from prometheus_client import CollectorRegistry, ProcessCollector
from starlette.exceptions import HTTPException as StarletteHTTPException
from starlette.responses import JSONResponse

from seesay import __version__
from seesay.errors import ImageError, QueryError, SeesayError
from seesay.grounding import GROUND_RUN, can_ground
from seesay.paths import failure_of_disk
from seesay.search.index import Index, is_address
from seesay.web import log_line
from seesay.web.answers import Problem, failures, problem
from seesay.web.observe import IndexMetrics, Observed, probe_routes
from seesay.web.routes import check_parameters, images, indexes, queries
from seesay.web.security import (
    COOKIE,
    COOKIE_SECONDS,
    MAX_HEADER_BYTES,
    AccessTokens,
    Guard,
    check_hosts,
    check_proxies,
    client_of,
    is_local,
    login_page,
)
from seesay.web.service import ServerOptions, Service

_STATIC = Path(__file__).with_name("static")
_SHUTDOWN_SECONDS = 10  # for open requests to finish


def create_app(served: Index | Mapping[str, Index], options: ServerOptions | None = None) -> FastAPI:
    """Create the application for indexes, which it closes when it shuts down.

    Changes of an index by other processes are visible immediately.

    Args:
        served: an index, or several by their names for clients.
        options: how they are served.

    Raises:
        SeesayError: the prefix or the token file is invalid, or an index was made elsewhere, see
            `Index.check_roots`.
    """
    options = options or ServerOptions()
    if not re.fullmatch(r"(/[\w-]+)*", options.prefix, re.ASCII):
        raise SeesayError(f"{options.prefix}: not a path prefix; write one such as /photos.")
    by_name = {name_of(served.place): served} if isinstance(served, Index) else dict(served)
    for index in by_name.values():
        index.check_roots()
    service = Service(by_name, options)
    tokens = AccessTokens(options.token_file) if options.token_file is not None else None
    registry = CollectorRegistry()
    ProcessCollector(registry=registry)
    registry.register(IndexMetrics(service))

    @asynccontextmanager
    async def lifespan(_app: FastAPI) -> AsyncIterator[None]:
        service.is_ready = not options.warm_up
        warming = threading.Thread(target=service.warm_up, name="seesay-warm-up", daemon=True)
        if options.warm_up:
            warming.start()
        for each in service.served.values():
            if options.watch:
                each.updates.watch()
            elif options.photos.get(each.name):
                each.updates.start()
        yield
        service.is_closing = True
        if options.warm_up:  # a session that is being created aborts the process if Python ends before it
            await asyncio.to_thread(warming.join, _SHUTDOWN_SECONDS)
        service.close()

    app = _Application(
        title="seesay",
        version=__version__,
        docs_url=None,  # FastAPI's own documentation pages load scripts from elsewhere
        redoc_url=None,
        lifespan=lifespan,
        responses=failures(400, 401, 403, 429, 431, 500, 503),
        generate_unique_id_function=lambda route: route.name,
    )
    app.state.service = service
    app.add_middleware(
        Guard, limits=options.limits, hosts=options.hosts, prefix=options.prefix, tokens=tokens
    )
    app.add_middleware(Observed, registry=registry, log=options.access_log)
    _add_error_handlers(app)
    # `Guard` asks for the token; this names it in the schema.
    named = [Depends(HTTPBearer(scheme_name="token", auto_error=False))] if tokens else []
    for module in (queries, images, indexes):
        checked = [Depends(check_parameters), *named]
        app.include_router(module.router, dependencies=checked, responses=failures(422))
    app.include_router(probe_routes(registry))
    app.include_router(_page_routes(tokens))
    app.mount("/static", StaticFiles(directory=_STATIC))
    return app


class _Application(FastAPI):
    def openapi(self) -> dict[str, Any]:
        """Return the schema, with the body of responses to failures."""
        schema = super().openapi()
        schema["components"]["schemas"].setdefault("Problem", Problem.model_json_schema())
        return schema


def name_of(place: str | Path) -> str:
    """Return the name of an index for clients: the folder's without its suffix, or that in a database."""
    return str(place).rpartition("#")[2] if is_address(place) else Path(place).resolve().stem


def _add_error_handlers(app: FastAPI) -> None:
    def logged(request: Request, failure: Exception, status: int = 503) -> JSONResponse:
        log_line(f"{request.scope['id']}: {failure}")  # which may name paths of this machine
        return problem(status, "This cannot be answered now; the log of the server says why.")

    @app.exception_handler(StarletteHTTPException)
    async def http(request: Request, failure: StarletteHTTPException) -> JSONResponse:
        if isinstance(failure.__cause__, OSError):  # such as a full temporary folder, which holds uploads
            return logged(request, failure.__cause__, 507)
        response = problem(failure.status_code, str(failure.detail))
        response.headers.update(failure.headers or {})
        return response

    @app.exception_handler(RequestValidationError)
    async def validation(_request: Request, failure: RequestValidationError) -> JSONResponse:
        first = failure.errors()[0]
        *_, name = first["loc"][:2]  # where the parameter is, its name, the number of a value
        return problem(422, f"{name}: {first['msg']}.")

    @app.exception_handler(SeesayError)
    async def ours(request: Request, failure: SeesayError) -> JSONResponse:
        if isinstance(failure, ImageError | QueryError):
            return problem(422, str(failure))
        return logged(request, failure)

    @app.exception_handler(OSError)
    async def of_system(request: Request, failure: OSError) -> JSONResponse:
        if failure_of_disk(failure):
            return logged(request, failure)
        if "id" not in request.path_params:  # of a route that reads the file of an image
            raise failure
        return problem(404, "The file of this image is gone, or its disk is not connected.")

    @app.exception_handler(Exception)
    async def unforeseen(_request: Request, _failure: Exception) -> JSONResponse:
        return problem(500, "Internal server error; see the server's log.")


def _page_routes(tokens: AccessTokens | None) -> APIRouter:
    """Build `/`, `/login` and `/logout`."""
    router = APIRouter(include_in_schema=False)

    @router.get("/")
    async def page() -> FileResponse:
        return FileResponse(_STATIC / "index.html")

    @router.get("/login")
    async def form(request: Request) -> RedirectResponse:
        """Redirect to the page, which asks for the token; a rejected one leaves the browser at /login."""
        return RedirectResponse(f"{request.scope['root_path']}/?{request.url.query}".rstrip("?"), 303)

    @router.post("/login")
    async def login(request: Request, token: Annotated[str, Form(max_length=1000)] = "") -> Response:
        response = await form(request)
        if tokens is None:
            return response
        if not tokens.is_token(token):
            await tokens.slow_down(client_of(request.client.host) if request.client else "")
            return login_page(refused=True)
        response.set_cookie(
            COOKIE,
            tokens.cookie(token),
            max_age=COOKIE_SECONDS,
            path=f"{request.scope['root_path']}/",
            secure=request.url.scheme == "https",
            httponly=True,
            samesite="lax",  # a link from elsewhere opens the page; `Guard` refuses other requests
        )
        return response

    @router.post("/logout")
    async def logout(request: Request) -> RedirectResponse:
        page = f"{request.scope['root_path']}/"
        response = RedirectResponse(page, 303)
        response.delete_cookie(COOKIE, path=page)
        response.headers["Clear-Site-Data"] = '"cache"'  # thumbnails
        return response

    return router


def announce(address: str) -> None:
    """Print the page's address at once, also where standard output is a file."""
    print(address, flush=True)


def serve(
    served: Index | Mapping[str, Index],
    host: str = "127.0.0.1",
    port: int = 8000,
    options: ServerOptions | None = None,
    ready: Callable[[str], object] = announce,
) -> None:
    """Serve indexes until interrupted, then finish open requests and close them.

    Args:
        served: an index, or several by their names for clients; their runs are loaded at once.
        host: address to listen on.
        port: port to listen on; 0 chooses a free one.
        options: as in `create_app`; the names of this machine are added to the hosts.
        ready: called with the page's address.

    Raises:
        SeesayError: a run is missing or of the wrong kind, the address or port cannot be used, or as for
            `create_app`.
    """
    options = options or ServerOptions()
    check_proxies(options.proxies)
    check_hosts(options.hosts)
    if options.ground_run != GROUND_RUN and not can_ground(options.ground_run):
        raise SeesayError(
            f"{options.ground_run}: not a run of a grounding recipe (ground-…); name one with --ground, "
            f"or omit it to use {GROUND_RUN}."
        )
    for index in [served] if isinstance(served, Index) else served.values():
        _ = index.run  # a missing run is an error now, not at the first query
    machine = socket.gethostname().lower()
    hosts = {"localhost", host.lower(), machine, f"{machine}.local", *map(str.lower, options.hosts)}
    app = create_app(served, replace(options, hosts=hosts))
    config = uvicorn.Config(
        app,
        http="h11",
        forwarded_allow_ips=list(options.proxies),
        h11_max_incomplete_event_size=MAX_HEADER_BYTES,
        ws="none",
        log_level="error",  # it warns of each malformed request
        server_header=False,
        access_log=False,  # `Observed` has one without queries
        limit_concurrency=2 * options.limits.requests,  # connections, also idle ones; `Guard` limits requests
        timeout_graceful_shutdown=_SHUTDOWN_SECONDS,
    )
    with _listen(host, port) as listening:
        if options.token_file is None and not is_local(host):
            log_line(
                f"Warning: Whoever reaches {host} can see these images. Make a token, seesay token > token, "
                "and name it with --token-file token; or listen on 127.0.0.1 alone."
            )
        rest = f":{listening.getsockname()[1]}{options.prefix}"
        is_all = host in ("0.0.0.0", "::")
        opens = "localhost" if is_all else host
        ready(f"http://[{opens}]{rest}" if ":" in opens else f"http://{opens}{rest}")
        if is_all and (here := _address_in_network()):
            log_line(f"On a phone in the same network: http://{here}{rest}")
            if sys.stderr.isatty():
                segno.make(f"http://{here}{rest}").terminal(sys.stderr, border=2, compact=True)
        with suppress(KeyboardInterrupt):  # which uvicorn raises again when it has ended
            uvicorn.Server(config).run(sockets=[listening])


def _address_in_network() -> str | None:
    """Return this machine's address for other devices, None without a network; nothing is sent."""
    with suppress(OSError), socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as towards:
        towards.connect(("192.0.2.1", 9))  # an address of no machine: only chooses the interface
        return str(towards.getsockname()[0])
    return None


def _listen(host: str, port: int) -> socket.socket:
    if not 0 <= port <= 65535:
        raise SeesayError(f"There is no port {port}; choose one from 1 to 65535.")
    try:
        family, *_, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
    except (OSError, UnicodeError) as error:
        raise SeesayError(f"{host}: not an address of this machine; try --host 127.0.0.1.") from error
    both = family == socket.AF_INET6 and socket.has_dualstack_ipv6()
    try:
        made = socket.create_server(address, family=family, backlog=256, dualstack_ipv6=both)
    except OSError as error:
        other = max(8000, port % 65535 + 1)  # those below 1024 need more privileges
        raise SeesayError(f"Port {port} on {host}: {error.strerror}; try --port {other}.") from error
    # Only for sockets that name their protocol does asyncio disable Nagle's algorithm, which holds the body
    # back until the client has acknowledged the headers, for 40 ms.
    return socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP, made.detach())
