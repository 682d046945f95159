"""What the API answers, as OpenAPI describes it."""

from __future__ import annotations

from pydantic import BaseModel, Field

from seesay.search.index import Hit


class ImageAnswer(BaseModel):
    """An image of the index and how well it fits."""

    id: int
    score: float = Field(description="cosine; higher is a better match")
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
            score=round(hit.score, 6),
            path=hit.path or "",
            width=hit.width or 1,
            height=hit.height or 1,
            image=address,
            thumbnail=f"{address}/thumbnail",
        )


class SentenceAnswer(BaseModel):
    """A sentence of the index and how well it fits."""

    id: int
    score: float = Field(description="cosine; higher is a better match")
    text: str

    @classmethod
    def of(cls, hit: Hit) -> SentenceAnswer:
        """The answer that a hit among sentences is."""
        return cls(id=hit.id, score=round(hit.score, 6), text=hit.text or "")


class Images(BaseModel):
    """Images, best first."""

    results: list[ImageAnswer]
    milliseconds: float = Field(description="time to embed and to search")


class Sentences(BaseModel):
    """Sentences, best first."""

    results: list[SentenceAnswer]
    milliseconds: float = Field(description="time to embed and to search")


class Status(BaseModel):
    """What is being served."""

    images: int
    sentences: int
    matcher: str
    generation: int = Field(description="grows with every change of the index")
    version: str = Field(description="of seesay")


class Failure(BaseModel):
    """The body of every answer whose status is 400 or above."""

    error: str
