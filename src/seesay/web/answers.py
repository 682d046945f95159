"""The JSON answers of the API, as OpenAPI describes them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Self

from pydantic import BaseModel, Field

from seesay.grounding.draw import colour
from seesay.grounding.ground import GroundedPhrase, Grounding, Place
from seesay.search.index import Hit
from seesay.search.rerank import Reranked


class _Answer(BaseModel):
    id: int
    score: float = Field(description="higher is a better match; a cosine, or the re-ranking run's score")
    shortlist_score: float | None = Field(None, description="the cosine, if the result was re-ranked")
    shortlist_rank: int | None = Field(None, description="the rank before re-ranking, from 1")

    @classmethod
    def from_hit(cls, hit: Hit, **more: str | int) -> Self:
        """Answer with a hit and more fields."""
        before = None if hit.shortlist_score is None else round(hit.shortlist_score, 6)
        values = {"id": hit.id, "score": round(hit.score, 6), "shortlist_score": before}
        return cls.model_validate(values | {"shortlist_rank": hit.shortlist_rank} | more)


class ImageAnswer(_Answer):
    """An image of the index and how well it matches."""

    path: str = Field(description="relative to the indexed folder")
    width: int = Field(description="in pixels, upright")
    height: int
    image: str = Field(description="URL of the original")
    thumbnail: str = Field(description="URL of a small JPEG")


class SentenceAnswer(_Answer):
    """A sentence of the index and how well it matches."""

    text: str


def _image(hit: Hit) -> ImageAnswer:
    url = f"/api/images/{hit.id}"
    size = {"width": hit.width or 1, "height": hit.height or 1}
    return ImageAnswer.from_hit(hit, path=hit.path or "", **size, image=url, thumbnail=f"{url}/thumbnail")


class Reranking(BaseModel):
    """What re-ranking did."""

    compared: int = Field(description="results of the shortlist that were re-ranked")
    left: int = Field(description="results whose image cannot be read; they come last, in their old order")
    milliseconds: float = Field(description="of the re-ranking, without the search for the shortlist")

    @classmethod
    def from_result(cls, result: Reranked) -> Reranking:
        """Summarise a re-ranking."""
        took = round(result.seconds * 1e3, 3)
        return cls(compared=result.compared, left=len(result.issues), milliseconds=took)


class _Answers(BaseModel):
    milliseconds: float = Field(description="time to embed, search and re-rank")
    reranking: Reranking | None = None


class Images(_Answers):
    """Images, best first."""

    results: list[ImageAnswer]

    @classmethod
    def from_hits(
        cls, hits: Sequence[Hit], milliseconds: float, reranking: Reranking | None = None
    ) -> Images:
        """Answer with hits among images."""
        results = [_image(hit) for hit in hits]
        return cls(results=results, milliseconds=milliseconds, reranking=reranking)


class Sentences(_Answers):
    """Sentences, best first."""

    results: list[SentenceAnswer]

    @classmethod
    def from_hits(
        cls, hits: Sequence[Hit], milliseconds: float, reranking: Reranking | None = None
    ) -> Sentences:
        """Answer with hits among sentences."""
        results = [SentenceAnswer.from_hit(hit, text=hit.text or "") for hit in hits]
        return cls(results=results, milliseconds=milliseconds, reranking=reranking)


class BoxAnswer(BaseModel):
    """A box in an image and how well it matches."""

    x1: float = Field(description="left edge, in pixels of the upright image")
    y1: float = Field(description="upper edge")
    x2: float = Field(description="right edge")
    y2: float = Field(description="lower edge")
    score: float = Field(description="higher is a better match")

    @classmethod
    def from_place(cls, place: Place) -> BoxAnswer:
        """Answer with a place."""
        x1, y1, x2, y2 = (round(value, 1) for value in place.box)
        return cls(x1=x1, y1=y1, x2=x2, y2=y2, score=round(place.score, 6))


class PhraseAnswer(BaseModel):
    """A phrase of the sentence and where it is."""

    text: str
    start: int = Field(description="of its first character in the sentence, in Unicode code points")
    end: int = Field(description="one past its last character")
    known: bool = Field(description="whether any of its words is known; if none is, it has no box")
    colour: str = Field(description="#rrggbb of the phrase and its boxes")
    boxes: list[BoxAnswer] = Field(description="best first")

    @classmethod
    def from_phrase(cls, phrase: GroundedPhrase, number: int) -> PhraseAnswer:
        """Answer with a phrase, which is the sentence's `number`-th."""
        boxes = [BoxAnswer.from_place(place) for place in phrase.places]
        span = {"start": phrase.start, "end": phrase.end}
        return cls(text=phrase.text, **span, known=phrase.known, colour=colour(number), boxes=boxes)


class GroundingAnswer(BaseModel):
    """The phrases of a sentence, in order, and where each is in an image."""

    width: int = Field(description="in pixels, upright")
    height: int
    phrases: list[PhraseAnswer]
    milliseconds: float = Field(description="time to find regions and to score them")

    @classmethod
    def from_grounding(cls, found: Grounding, milliseconds: float) -> GroundingAnswer:
        """Answer with a grounding."""
        phrases = [PhraseAnswer.from_phrase(phrase, i) for i, phrase in enumerate(found.phrases)]
        return cls(width=found.width, height=found.height, phrases=phrases, milliseconds=milliseconds)


class Status(BaseModel):
    """What is being served."""

    images: int
    sentences: int
    matcher: str
    generation: int = Field(description="grows with every change of the index")
    version: str = Field(description="of seesay")
    grounding: bool = Field(description="whether a grounding run is available")
    reranking: bool = Field(description="whether a re-ranking run is available")


class Failure(BaseModel):
    """The body of every answer whose status is 400 or above."""

    error: str


def failures(*statuses: int) -> dict[int | str, dict[str, Any]]:
    """Describe a route's failures for OpenAPI."""
    return {status: {"model": Failure} for status in statuses}
