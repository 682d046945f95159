"""Queries by sentences and images, and grounding of sentences in images."""

from __future__ import annotations

import re
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Annotated

from fastapi import APIRouter, File, HTTPException, Query, UploadFile

from seesay.data.images import DecodedImage
from seesay.encoders.regions import SIDE
from seesay.errors import QueryError
from seesay.grounding import Grounding
from seesay.search.filters import split_typed
from seesay.search.query import Image as QueryImage
from seesay.search.query import Part, Term, Text
from seesay.search.query import Query as SearchQuery
from seesay.web.answers import GroundingAnswer, Images, SentenceAnswers, Typed, failures
from seesay.web.routes.parameters import (
    BINARY,
    DEFAULT_LIMIT,
    MAX_CHARACTERS,
    Cursor,
    Id,
    Limit,
    TheIndex,
    TheService,
    Upload,
    Where,
    cursor_of,
    place_of,
)
from seesay.web.security import API
from seesay.web.served import Served
from seesay.web.service import Service, clocked

_MAX_UPLOADS = 4  # images of one query
_SYNTAX = (
    'a sentence, or several with signs and weights, such as "2*beach - people"; id:12 is an indexed image'
)
_Text = Annotated[str, Query(max_length=MAX_CHARACTERS, description=_SYNTAX)]
# Longer, because `q` in the response to uploads names them by their hash and spells out signs.
_Again = Annotated[str, Query(max_length=2 * MAX_CHARACTERS, description=_SYNTAX)]
_Uploads = Annotated[
    list[Annotated[UploadFile, BINARY]],
    File(description="encoded images, which q may name image:1, image:2, …; the others are added to it"),
]

router = APIRouter(prefix=API, tags=["queries"])


@router.get("/typed", responses=failures(422))
async def typed(q: _Again) -> Typed:
    """Split what was typed into one box into a query and a filter: "dog taken:2021" is "dog" in 2021."""
    query, where = split_typed(q)
    return Typed(q=query, where=where)


@router.get("/search", responses=failures(404, 410, 422))
async def search(
    service: TheService,
    served: TheIndex,
    q: _Again,
    limit: Limit = DEFAULT_LIMIT,
    cursor: Cursor = None,
    where: Where = "",
) -> Images:
    """Find the images that fit a query best: a sentence, or sentences and images of the index."""
    query = served.recalled(with_uploads(q, []))
    return await _found(service, served, query, limit, where, cursor)


@router.post("/search", responses=failures(404, 410, 413, 422, 507))
async def search_with_images(
    service: TheService,
    served: TheIndex,
    image: _Uploads,
    q: _Text = "",
    limit: Limit = DEFAULT_LIMIT,
    where: Where = "",
) -> Images:
    """Find the images that best fit uploaded images and a query; use GET for further pages."""
    if len(image) > _MAX_UPLOADS:
        raise HTTPException(422, f"{len(image)} images; send at most {_MAX_UPLOADS}.")
    with_uploads(q, [QueryImage(b"")] * len(image))  # checks the query before any is decoded
    terms = [await service.with_upload(each, served.remember) for each in image]
    query = served.recalled(with_uploads(q, terms))
    return await _found(service, served, query, limit, where, None)


@router.post("/sentences", responses=failures(404, 413, 422, 507))
async def sentences(
    service: TheService, served: TheIndex, image: Upload, limit: Limit = 10
) -> SentenceAnswers:
    """Find the sentences that describe an uploaded image best."""
    index = served.index

    def work(photo: DecodedImage) -> SentenceAnswers:
        return SentenceAnswers.of(served.name, *clocked(lambda: index.sentences_for(photo, limit)))

    return await service.with_upload(image, work)


async def _found(
    service: Service, served: Served, query: SearchQuery, limit: int, where: str, cursor: str | None
) -> Images:
    after = None if cursor is None else place_of(cursor)
    started = time.perf_counter()
    prepared = await service.run(lambda: served.prepared(query))
    found = await service.run(lambda: served.index.search(prepared, limit, where, after))
    answer = Images.of(served.name, found, (time.perf_counter() - started) * 1e3).to(query)
    if found.end is not None:
        answer.next = cursor_of(found.end.score, found.end.id, found.end.seen)
    return answer


def with_uploads(text: str, uploads: Sequence[Term]) -> SearchQuery:
    """Parse a query whose images are uploads: `image:2` is the second, and those not named are added.

    Raises:
        QueryError: the query is malformed, or names an image that was not uploaded, such as a file of the
            server.
    """
    added = [f"image:{number}" for number in range(1, len(uploads) + 1)]
    written = [text, *added] if text.strip() or not uploads else added
    parts = SearchQuery.parse(" + ".join(written)).parts
    if len(parts) == 1 and not uploads and (name := _file_name(parts[0])):
        return SearchQuery((replace(parts[0], term=Text(name)),))
    own = parts[: len(parts) - len(uploads)]
    named = {str(part.term.source) for part in own if isinstance(part.term, QueryImage)}
    kept = [*own, *(part for part in parts[len(own) :] if str(part.term).removeprefix("image:") not in named)]
    return SearchQuery(tuple(_with_upload(part, uploads) for part in kept))


def _file_name(part: Part) -> str:
    """Return the name of a file, such as IMG_2021.jpg, which is looked for in the index; else ""."""
    source = part.term.source if isinstance(part.term, QueryImage) else b""
    is_name = isinstance(source, Path) and source.suffix and not re.search(r"[/\\]", str(source))
    return str(source) if is_name else ""


def _with_upload(part: Part, uploads: Sequence[Term]) -> Part:
    if not isinstance(part.term, QueryImage):
        return part
    for number, term in enumerate(uploads, start=1):
        if str(part.term.source) == str(number):
            return replace(part, term=term)
    raise QueryError(
        f"{part.term}: the server opens no files; upload the image or name its id. "
        'Put a sentence that ends like the name of an image in "quotes".'
    )


_Phrases = Annotated[
    str, Query(max_length=MAX_CHARACTERS, description="a phrase, or a sentence whose noun phrases are found")
]
_Boxes = Annotated[int, Query(ge=1, le=20, description="maximum number of boxes of a phrase")]


@router.post("/ground", tags=["grounding"], responses=failures(413, 422, 507))
async def ground(service: TheService, image: Upload, q: _Phrases, limit: _Boxes = 1) -> GroundingAnswer:
    """Find the boxes of the phrases of a sentence in an uploaded image."""
    _check(q)

    def work(photo: DecodedImage) -> tuple[Grounding, float]:
        return clocked(lambda: service.ground(photo, q, limit))

    return GroundingAnswer.from_grounding(*await service.with_upload(image, work, SIDE))


@router.get("/images/{id}/ground", tags=["grounding"], responses=failures(404, 422))
async def ground_indexed(
    service: TheService, served: TheIndex, id: Id, q: _Phrases, limit: _Boxes = 1
) -> GroundingAnswer:
    """Find the boxes of the phrases of a sentence in an image of the index."""
    _check(q)

    def work() -> Grounding:
        item = served.image(id)
        try:
            data = served.index.read_image(item)
        except OSError:
            raise HTTPException(404, f"The file of image {id} cannot be read.") from None
        photo = service.decoders.decode(data, item.path or "the image", SIDE)
        return service.ground(photo, q, limit)

    found, took = await service.run(lambda: clocked(work), service.pictures)
    return GroundingAnswer.from_grounding(found, took, served.name)


def _check(sentence: str) -> None:
    if not sentence.strip():
        raise HTTPException(422, "The sentence is empty; name what to find.")
