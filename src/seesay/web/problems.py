"""Failures as RFC 9457 describes them: `application/problem+json` with status, title and detail."""

from __future__ import annotations

from http import HTTPStatus
from typing import TypeAlias

from pydantic import BaseModel, Field
from starlette.responses import JSONResponse

MEDIA_TYPE = "application/problem+json"

Responses: TypeAlias = dict[int | str, dict[str, object]]


class Problem(BaseModel):
    """The body of every answer whose status is 400 or above (RFC 9457)."""

    type: str = Field("about:blank", description="about:blank: the status says what kind of failure it is")
    title: str = Field(description="of the status, such as Not Found")
    status: int
    detail: str = Field(description="what was wrong, where, and what to do")


class ProblemResponse(JSONResponse):
    """The response of a failure."""

    media_type = MEDIA_TYPE


def problem(status: int, detail: str, close: bool = False) -> ProblemResponse:
    """Return the response of a failure, after which the connection may be closed."""
    body = Problem(title=HTTPStatus(status).phrase, status=status, detail=detail)
    return ProblemResponse(body.model_dump(), status, {"Connection": "close"} if close else None)


def failures(*statuses: int) -> Responses:
    """Describe a route's failures for OpenAPI."""
    schema = {"$ref": "#/components/schemas/Problem"}
    return {
        status: {"description": HTTPStatus(status).phrase, "content": {MEDIA_TYPE: {"schema": schema}}}
        for status in statuses
    }
