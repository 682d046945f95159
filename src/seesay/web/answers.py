"""What the API answers, as OpenAPI describes it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from pydantic import BaseModel, Field

from seesay.grounding.draw import colour
from seesay.grounding.ground import GroundedPhrase, Place
from seesay.search.index import Hit
from seesay.search.rerank import Reranked

_SCORE = "higher is a better match; a cosine, or what the re-ranking run gives"


def _scores(hit: Hit) -> dict[str, Any]:
    before = None if hit.shortlist_score is None else round(hit.shortlist_score, 6)
    return {
        "score": round(hit.score, 6),
        "shortlist_score": before,
        "shortlist_rank": hit.shortlist_rank,
    }


class ImageAnswer(BaseModel):
    """An image of the index and how well it fits."""

    id: int
    score: float = Field(description=_SCORE)
    shortlist_score: float | None = Field(None, description="cosine, where the image was re-ranked")
    shortlist_rank: int | None = Field(None, description="place before that, from 1")
    path: str = Field(description="relative to the indexed folder")
    width: int = Field(description="pixels, upright")
    height: int
    image: str = Field(description="address of the original")
    thumbnail: str = Field(description="address of a small JPEG")

    @classmethod
    def of(cls, hit: Hit) -> ImageAnswer:
        """The answer that a hit among images is."""
        address = f"/api/images/{hit.id}"
        return cls(
            id=hit.id,
            **_scores(hit),
            path=hit.path or "",
            width=hit.width or 1,
            height=hit.height or 1,
            image=address,
            thumbnail=f"{address}/thumbnail",
        )


class SentenceAnswer(BaseModel):
    """A sentence of the index and how well it fits."""

    id: int
    score: float = Field(description=_SCORE)
    shortlist_score: float | None = Field(None, description="cosine, where the sentence was re-ranked")
    shortlist_rank: int | None = Field(None, description="place before that, from 1")
    text: str

    @classmethod
    def of(cls, hit: Hit) -> SentenceAnswer:
        """The answer that a hit among sentences is."""
        return cls(id=hit.id, **_scores(hit), text=hit.text or "")


class Reranking(BaseModel):
    """What a re-ranking did."""

    compared: int = Field(description="answers of the shortlist that were re-ranked")
    left: int = Field(description="those whose image cannot be read: they stand behind, as they were")
    milliseconds: float = Field(description="what it took, without the search for the shortlist")

    @classmethod
    def of(cls, found: Reranked) -> Reranking:
        """The answer that a re-ranked shortlist is."""
        took = round(found.seconds * 1e3, 3)
        return cls(compared=found.compared, left=len(found.left), milliseconds=took)


class Images(BaseModel):
    """Images, best first."""

    results: list[ImageAnswer]
    milliseconds: float = Field(description="time to embed, to search and to re-rank")
    reranking: Reranking | None = None

    @classmethod
    def of(cls, hits: Sequence[Hit], milliseconds: float) -> Images:
        """The answer that hits are."""
        return cls(results=[ImageAnswer.of(hit) for hit in hits], milliseconds=milliseconds)

    @classmethod
    def reranked(cls, found: Reranked, milliseconds: float) -> Images:
        """The answer that re-ranked hits are."""
        return cls.of(found.hits, milliseconds).model_copy(update={"reranking": Reranking.of(found)})


class Sentences(BaseModel):
    """Sentences, best first."""

    results: list[SentenceAnswer]
    milliseconds: float = Field(description="time to embed, to search and to re-rank")
    reranking: Reranking | None = None

    @classmethod
    def of(cls, hits: Sequence[Hit], milliseconds: float) -> Sentences:
        """The answer that hits are."""
        return cls(results=[SentenceAnswer.of(hit) for hit in hits], milliseconds=milliseconds)

    @classmethod
    def reranked(cls, found: Reranked, milliseconds: float) -> Sentences:
        """The answer that re-ranked hits are."""
        return cls.of(found.hits, milliseconds).model_copy(update={"reranking": Reranking.of(found)})


class BoxAnswer(BaseModel):
    """A place in an image and how well it fits."""

    x1: float = Field(description="left edge, in pixels of the upright image")
    y1: float = Field(description="upper edge")
    x2: float = Field(description="right edge")
    y2: float = Field(description="lower edge")
    score: float = Field(description="higher is a better match")

    @classmethod
    def of(cls, place: Place) -> BoxAnswer:
        """The answer that a place is."""
        x1, y1, x2, y2 = (round(value, 1) for value in place.box)
        return cls(x1=x1, y1=y1, x2=x2, y2=y2, score=round(place.score, 6))


class PhraseAnswer(BaseModel):
    """A phrase of the sentence and where it is."""

    text: str
    start: int = Field(description="of its first character in the sentence, in Unicode code points")
    end: int = Field(description="behind its last character")
    known: bool = Field(description="whether any of its words is known; without one it has no box")
    colour: str = Field(description="#rrggbb that the phrase and its boxes are shown in")
    boxes: list[BoxAnswer] = Field(description="best first")

    @classmethod
    def of(cls, phrase: GroundedPhrase, number: int) -> PhraseAnswer:
        """The answer that the phrase of that number is."""
        boxes = [BoxAnswer.of(place) for place in phrase.places]
        return cls(
            text=phrase.text,
            start=phrase.start,
            end=phrase.end,
            known=phrase.known,
            colour=colour(number),
            boxes=boxes,
        )


class GroundingAnswer(BaseModel):
    """The phrases of a sentence, in order, and where each is in an image."""

    width: int = Field(description="pixels, upright")
    height: int
    phrases: list[PhraseAnswer]
    milliseconds: float = Field(description="time to look and to match")


class Status(BaseModel):
    """What is being served."""

    images: int
    sentences: int
    matcher: str
    generation: int = Field(description="grows with every change of the index")
    version: str = Field(description="of seesay")
    grounding: bool = Field(description="whether there is a run that points at phrases")
    reranking: bool = Field(description="whether there is a run that re-ranks")


class Failure(BaseModel):
    """The body of every answer whose status is 400 or above."""

    error: str
