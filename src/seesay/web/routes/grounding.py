"""Grounding: where the phrases of a sentence are in an image."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, HTTPException, Query

from seesay.data.images import Photo
from seesay.data.sources import FileSource
from seesay.encoders.regions.base import SIDE
from seesay.errors import ImageError
from seesay.grounding.ground import Grounding
from seesay.web.answers import GroundingAnswer, failures
from seesay.web.options import API, MAX_CHARACTERS
from seesay.web.routes.parameters import Id, TheIndex, TheService, Upload
from seesay.web.service import clocked

_Phrases = Annotated[
    str, Query(max_length=MAX_CHARACTERS, description="a phrase, or a sentence whose noun phrases are found")
]
_Boxes = Annotated[int, Query(ge=1, le=20, description="maximum number of boxes of a phrase")]

router = APIRouter(prefix=API, tags=["grounding"])


@router.post("/ground", responses=failures(413, 422))
async def ground(service: TheService, image: Upload, q: _Phrases, limit: _Boxes = 1) -> GroundingAnswer:
    """Find the boxes of what a sentence names in an uploaded image."""
    _check(q)

    def work(photo: Photo) -> tuple[Grounding, float]:
        return clocked(lambda: service.grounder.get().ground(photo, photo.name, q, limit))

    return GroundingAnswer.from_grounding(*await service.with_upload(image, work, SIDE))


@router.get("/images/{id}/ground", responses=failures(404, 422))
async def ground_indexed(
    service: TheService, served: TheIndex, id: Id, q: _Phrases, limit: _Boxes = 1
) -> GroundingAnswer:
    """Find the boxes of what a sentence names in an image of the index."""
    _check(q)

    def work() -> Grounding:
        item, file = served.image(id)
        try:
            data = FileSource(file).read()
        except ImageError as error:
            raise HTTPException(404, f"The file of image {id} cannot be read.") from error
        photo = service.decoders.decode(data, item.path or "the image", SIDE)
        return service.grounder.get().ground(photo, photo.name, q, limit)

    return GroundingAnswer.from_grounding(*await service.run(lambda: clocked(work), service.pictures))


def _check(sentence: str) -> None:
    if not sentence.strip():
        raise HTTPException(422, "The sentence is empty; name what to find.")
