"""Grounding: where in an image the phrases of a sentence are."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated

from fastapi import APIRouter, HTTPException, Query

from seesay.data.images import FileSource
from seesay.errors import ImageError
from seesay.grounding.ground import Grounding
from seesay.web.answers import GroundingAnswer
from seesay.web.limits import MAX_CHARACTERS
from seesay.web.problems import failures
from seesay.web.routes.parameters import API, Id, TheIndex, TheService, Upload
from seesay.web.service import Service

_Phrases = Annotated[
    str, Query(max_length=MAX_CHARACTERS, description="a phrase, or a sentence whose noun phrases are found")
]
_Boxes = Annotated[int, Query(ge=1, le=20, description="maximum number of boxes of a phrase")]

router = APIRouter(prefix=API, tags=["grounding"])


@router.post("/ground", responses=failures(413, 422))
async def ground(service: TheService, image: Upload, q: _Phrases, limit: _Boxes = 1) -> GroundingAnswer:
    """Find the boxes of what a sentence names in an uploaded image."""
    data = await service.uploaded(image, whole=True)
    return await _grounding(service, lambda: (data, "the image"), q, limit)


@router.get("/images/{id}/ground", responses=failures(404, 422))
async def ground_indexed(
    service: TheService, served: TheIndex, id: Id, q: _Phrases, limit: _Boxes = 1
) -> GroundingAnswer:
    """Find the boxes of what a sentence names in an image of the index."""

    def read() -> tuple[bytes, str]:
        item, file = served.image(id)
        try:
            return FileSource(file).read(), item.path or "the image"
        except ImageError as error:
            raise HTTPException(404, f"The file of image {id} cannot be read.") from error

    return await _grounding(service, read, q, limit)


async def _grounding(
    service: Service, read: Callable[[], tuple[bytes, str]], text: str, limit: int
) -> GroundingAnswer:
    if not text.strip():
        raise HTTPException(422, "The sentence is empty; name what to point at.")

    def work() -> Grounding:
        image, name = read()
        return service.grounder.get().ground(image, name, text, limit)

    return GroundingAnswer.from_grounding(*await service.timed(work, service.pictures))
