"""Parameters that several routes share, and cursors, which mark the end of a page of results."""

from __future__ import annotations

import base64
import json
from typing import Annotated, TypeAlias

from fastapi import Depends, File, Query, Request, UploadFile, params
from fastapi import Path as PathParameter
from fastapi.dependencies.utils import get_flat_params
from pydantic import Field, FiniteFloat, TypeAdapter, WithJsonSchema

from seesay.errors import QueryError, did_you_mean
from seesay.search.hits import PageEnd
from seesay.web.service import Served, Service

MAX_ANSWERS = 200
MAX_CHARACTERS = 500
_MAX_CURSOR = 200  # characters


async def _service(request: Request) -> Service:
    found: Service = request.app.state.service
    return found


async def check_parameters(request: Request) -> None:
    """Reject unknown query parameters, because a misspelt filter would otherwise match everything.

    Every route accepts `index`, which the page and clients send with each request.

    Raises:
        QueryError: a parameter is unknown.
    """
    fields = get_flat_params(request.scope["route"].dependant)
    known = ["index", *(field.alias for field in fields if isinstance(field.field_info, params.Query))]
    for name in request.query_params:
        if name not in known:
            there = did_you_mean(name, known) or f"; there are: {', '.join(dict.fromkeys(known))}."
            raise QueryError(f"There is no parameter '{name[:100]}'{there}")


TheService: TypeAlias = Annotated[Service, Depends(_service)]


async def _served(
    service: TheService,
    index: Annotated[
        str | None, Query(max_length=MAX_CHARACTERS, description="the name of an index; the first by default")
    ] = None,
) -> Served:
    return service.find(index)


TheIndex: TypeAlias = Annotated[Served, Depends(_served)]
Id: TypeAlias = Annotated[int, PathParameter(ge=1, le=2**63 - 1)]
Limit: TypeAlias = Annotated[int, Query(ge=1, le=MAX_ANSWERS, description="number of results of a page")]
Cursor: TypeAlias = Annotated[
    str | None,
    Query(max_length=_MAX_CURSOR, description="`next` of the page before; all else stays the same"),
]
Where: TypeAlias = Annotated[
    str,
    Query(
        max_length=MAX_CHARACTERS,
        description="a filter: taken:2019, folder:italy, name:IMG_2021, added:7d, text:invoice",
    ),
]
# As OpenAPI 3.0 has it: generators of clients know no other description of a file.
_BINARY = WithJsonSchema({"type": "string", "format": "binary"})
Upload: TypeAlias = Annotated[UploadFile, File(description="an encoded image"), _BINARY]

DEFAULT_LIMIT = 40

_Number = Annotated[int, Field(ge=0, le=2**62)]
_PAGE_END = TypeAdapter(tuple[FiniteFloat, _Number, Annotated[int, Field(ge=0, le=2**31)]])


def cursor_of(end: PageEnd) -> str:
    """Encode the end of a page as a cursor, which a client sends back with the same query."""
    values = (end.score, end.id, end.seen)
    return base64.urlsafe_b64encode(json.dumps(values).encode()).decode().rstrip("=")


def end_of(cursor: str) -> PageEnd:
    """Decode a cursor.

    Raises:
        QueryError: it is none.
    """
    try:
        text = base64.urlsafe_b64decode(cursor + "=" * (-len(cursor) % 4))
        return PageEnd(*_PAGE_END.validate_json(text, strict=True))
    except ValueError:
        raise QueryError("Invalid cursor; use `next` of the previous page.") from None
