"""The search page, and the page that asks for the token."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from fastapi import APIRouter, Form, Request
from fastapi.responses import FileResponse, RedirectResponse, Response

from seesay.web.security import COOKIE, COOKIE_SECONDS, AccessTokens, client_of, login_page

STATIC = Path(__file__).parents[1] / "static"


def page_routes(tokens: AccessTokens | None) -> APIRouter:
    """Build `/`, `/login` and `/logout`."""
    router = APIRouter(include_in_schema=False)

    @router.get("/")
    async def page() -> FileResponse:
        return FileResponse(STATIC / "index.html")

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
