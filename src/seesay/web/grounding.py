"""Phrases and boxes: where what a sentence names is in one image, uploaded or of the index."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, Any

from fastapi import APIRouter, HTTPException, Query

from seesay.data.sources import FileSource
from seesay.errors import ImageError
from seesay.grounding.ground import Grounding
from seesay.web.answers import Failure, GroundingAnswer, PhraseAnswer
from seesay.web.images import Id
from seesay.web.limits import MAX_CHARACTERS
from seesay.web.questions import Upload
from seesay.web.service import Service

Text = Annotated[
    str,
    Query(max_length=MAX_CHARACTERS, description="a phrase, or a sentence whose noun phrases are pointed at"),
]
Many = Annotated[int, Query(ge=1, le=20, description="how many boxes a phrase, at most")]


def grounding_routes(service: Service) -> APIRouter:
    """`/api/ground` and `/api/images/{id}/ground`."""
    failures: dict[int | str, dict[str, Any]] = {422: {"model": Failure}, 503: {"model": Failure}}
    router = APIRouter(prefix="/api", tags=["grounding"])

    async def answer(read: Callable[[], tuple[bytes, str]], text: str, k: int) -> GroundingAnswer:
        if not text.strip():
            raise HTTPException(422, "The sentence is empty: name what to point at.")

        def work() -> Grounding:
            image, name = read()
            return service.grounder.get().ground(image, name, text, k)

        found, took = await service.timed(work)
        phrases = [PhraseAnswer.of(phrase, i) for i, phrase in enumerate(found.phrases)]
        return GroundingAnswer(width=found.width, height=found.height, phrases=phrases, milliseconds=took)

    @router.post("/ground", responses=failures | {413: {"model": Failure}})
    async def ground(image: Upload, q: Text, k: Many = 1) -> GroundingAnswer:
        """Where an uploaded image shows what a sentence names."""
        data = await service.uploaded(image)
        return await answer(lambda: (data, "the image"), q, k)

    @router.get("/images/{id}/ground", responses=failures | {404: {"model": Failure}})
    async def ground_indexed(id: Id, q: Text, k: Many = 1) -> GroundingAnswer:
        """Where an image of the index shows what a sentence names."""

        def read() -> tuple[bytes, str]:
            item, file = service.image(id)
            try:
                return FileSource(file).read(), item.path or "the image"
            except ImageError as error:
                raise HTTPException(404, f"The file of image {id} cannot be read.") from error

        return await answer(read, q, k)

    return router
