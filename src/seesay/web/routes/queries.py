"""Queries by sentences and images, and grounding of sentences in images."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Query

from seesay.encoders.regions import SIDE
from seesay.grounding import Grounding
from seesay.search.filters import split_typed
from seesay.web.answers import (
    ImageAnswer,
    Images,
    PartAnswer,
    SentenceAnswer,
    SentenceAnswers,
    TextHitAnswer,
    Typed,
    failures,
)
from seesay.web.routes import (
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
    end_of,
)
from seesay.web.security import API
from seesay.web.service import Served, Service

_SYNTAX = (
    'a sentence, or several with signs and weights, such as "2*beach - people"; id:12 is an indexed image'
)
_Text = Annotated[str, Query(max_length=MAX_CHARACTERS, description=_SYNTAX)]
# Longer, because `q` in the response to uploads names them by their hash and spells out signs.
_Again = Annotated[str, Query(max_length=2 * MAX_CHARACTERS, description=_SYNTAX)]

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
    return await _found(service, served, q, limit, where, cursor)


@router.post("/search", responses=failures(404, 410, 413, 422, 507))
async def search_with_image(
    service: TheService,
    served: TheIndex,
    image: Upload,
    q: _Text = "",
    limit: Limit = DEFAULT_LIMIT,
    where: Where = "",
) -> Images:
    """Find the images that best fit an uploaded image and a query; use GET for further pages."""
    uploaded = await service.with_upload(image, served.remember)
    text = f"{q} + {uploaded}" if q.strip() else uploaded
    return await _found(service, served, text, limit, where, None)


@router.post("/sentences", responses=failures(404, 413, 422, 507))
async def sentences(
    service: TheService, served: TheIndex, image: Upload, limit: Limit = 10
) -> SentenceAnswers:
    """Find the sentences that describe an uploaded image best."""
    found = await service.with_upload(image, lambda photo: served.index.sentences_for(photo, limit))
    results = [SentenceAnswer.model_validate(hit) for hit in found]
    return SentenceAnswers(index=served.name, results=results)


async def _found(
    service: Service, served: Served, q: str, limit: int, where: str, cursor: str | None
) -> Images:
    query = served.parsed(q)
    after = None if cursor is None else end_of(cursor)
    prepared = await service.run(lambda: served.prepared(query))
    found = await service.run(lambda: served.index.search(prepared, limit, where, after))
    return Images(
        index=served.name,
        results=[ImageAnswer.model_validate(hit) for hit in found],
        next=cursor_of(found.end) if found.end else None,
        certainty=found.certainty,
        q=str(query),
        query=[PartAnswer(text=str(part), weight=part.weight) for part in query.parts],
        unknown_words=list(found.unknown_words),
        corrected_words=found.corrected_words,
        where_meant=found.where_meant,
        text_hits=[TextHitAnswer.model_validate(hit) for hit in found.text_hits],
        query_meant=found.query_meant,
    )


_Phrases = Annotated[
    str,
    Query(
        max_length=MAX_CHARACTERS,
        pattern=r"\S",
        description="a phrase, or a sentence whose noun phrases are found",
    ),
]
_Boxes = Annotated[int, Query(ge=1, le=20, description="maximum number of boxes of a phrase")]


@router.post("/ground", tags=["grounding"], responses=failures(413, 422, 507))
async def ground(service: TheService, image: Upload, q: _Phrases, limit: _Boxes = 1) -> Grounding:
    """Find the boxes of the phrases of a sentence in an uploaded image."""
    return await service.with_upload(image, lambda photo: service.ground(photo, q, limit), SIDE)


@router.get("/images/{id}/ground", tags=["grounding"], responses=failures(404, 422))
async def ground_indexed(
    service: TheService, served: TheIndex, id: Id, q: _Phrases, limit: _Boxes = 1
) -> Grounding:
    """Find the boxes of the phrases of a sentence in an image of the index."""

    def work() -> Grounding:
        item = served.image(id)
        photo = service.decoders.decode(served.index.read_image(item), item.path or "the image", SIDE)
        return service.ground(photo, q, limit)

    return await service.run(work, service.pictures)
