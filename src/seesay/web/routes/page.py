"""The search page, the page that asks for the token, and the page about the API."""

from __future__ import annotations

from html import escape
from importlib.resources import files
from pathlib import Path
from string import Template
from typing import Annotated, Any, TypeAlias

from fastapi import APIRouter, Form, Request
from fastapi.responses import FileResponse, HTMLResponse, RedirectResponse, Response

from seesay.web.security import COOKIE, COOKIE_SECONDS, AccessTokens, client_of, login_page

STATIC = Path(__file__).parents[1] / "static"
_Schema: TypeAlias = dict[str, Any]  # of OpenAPI, which has no types of its own


def page_routes(tokens: AccessTokens | None, prefix: str) -> APIRouter:
    """Build `/`, `/login`, `/logout` and `/docs`."""
    router = APIRouter(include_in_schema=False)

    @router.get("/")
    async def page() -> FileResponse:
        return FileResponse(STATIC / "index.html")

    @router.get("/docs")
    async def docs(request: Request) -> HTMLResponse:
        return HTMLResponse(_docs_page(request.app.openapi()))

    @router.get("/login")
    async def form(request: Request) -> RedirectResponse:
        """Redirect to the page, which asks for the token; a rejected one leaves the browser at /login."""
        return RedirectResponse(_page_of(request, prefix), 303)

    @router.post("/login")
    async def login(request: Request, token: Annotated[str, Form(max_length=1000)] = "") -> Response:
        if tokens is not None and not tokens.is_token(token):
            await tokens.slow_down(client_of(request.client.host) if request.client else "")
            return login_page(refused=True)
        response = RedirectResponse(_page_of(request, prefix), 303)
        if tokens is not None:
            response.set_cookie(
                COOKIE,
                tokens.cookie(token),
                max_age=COOKIE_SECONDS,
                path=f"{prefix}/",
                secure=request.url.scheme == "https",
                httponly=True,
                samesite="lax",  # a link from elsewhere opens the page; `Guard` refuses other requests
            )
        return response

    @router.post("/logout")
    async def logout() -> RedirectResponse:
        response = RedirectResponse(f"{prefix}/", 303)
        response.delete_cookie(COOKIE, path=f"{prefix}/")
        response.headers["Clear-Site-Data"] = '"cache"'  # thumbnails
        return response

    return router


def _page_of(request: Request, prefix: str) -> str:
    """Return the address of the page with the request's query."""
    return f"{prefix}/?{request.url.query}" if request.url.query else f"{prefix}/"


def _docs_page(schema: _Schema) -> str:
    """Return a page with the routes of an OpenAPI schema and their parameters."""
    routes = [
        _route(path, method, operation)
        for path, operations in schema["paths"].items()
        for method, operation in operations.items()
    ]
    template = Template(files("seesay.web").joinpath("docs.html").read_text(encoding="utf-8"))
    return template.substitute(version=escape(schema["info"]["version"]), routes="\n".join(routes))


def _route(path: str, method: str, operation: _Schema) -> str:
    rows = "".join(_parameter(parameter) for parameter in operation.get("parameters", []))
    if "requestBody" in operation:
        types = ", ".join(operation["requestBody"]["content"])
        rows += f"<tr><td><code>image</code></td><td>body</td><td>the file as {escape(types)}</td></tr>"
    table = f"<table>{rows}</table>" if rows else ""
    description = escape(operation.get("description", ""))
    shown = escape(path).replace("/", "<wbr>/")  # may be broken there on a narrow screen
    return f"<section><h2><b>{method.upper()}</b> {shown}</h2><p>{description}</p>{table}</section>"


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
