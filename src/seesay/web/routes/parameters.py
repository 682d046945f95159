"""Parameters that several routes take."""

from __future__ import annotations

from typing import Annotated, TypeAlias

from fastapi import Depends, File, Query, Request, UploadFile
from fastapi import Path as PathParameter

from seesay.web.options import MAX_ANSWERS, MAX_CHARACTERS
from seesay.web.served import Served
from seesay.web.service import Service

_MAX_CURSOR = 200  # characters


async def _service(request: Request) -> Service:
    found: Service = request.app.state.service
    return found


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
        description="a filter: taken:2019, folder:italy, orientation:portrait, width:>3000, added:7d",
    ),
]
Rerank: TypeAlias = Annotated[
    bool, Query(description="true to re-rank the best results by the server's second run")
]
Upload: TypeAlias = Annotated[UploadFile, File(description="an encoded image")]

DEFAULT_LIMIT = 40
