"""The JSON responses of the API, for OpenAPI."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from http import HTTPStatus
from typing import Annotated, Self, TypeAlias

from pydantic import AfterValidator, BaseModel, ConfigDict, Field
from starlette.responses import JSONResponse

from seesay.grounding import Grounding, colour
from seesay.search.hits import Answer, Certainty
from seesay.search.query import Indexed, Query

_Score = Annotated[float, AfterValidator(lambda score: round(score, 6))]
_Probability = Annotated[float, Field(ge=0, le=1), AfterValidator(lambda value: round(value, 4))]
_Pixels = Annotated[float, AfterValidator(lambda pixels: round(pixels, 1))]
_Milliseconds = Annotated[float, AfterValidator(lambda value: round(value, 3))]
_CORNERS = ("x1", "y1", "x2", "y2")


class _OfIndex(BaseModel):
    """An answer that names the index which gave it."""

    index: str = Field(description="the name of the index that answers, as in the parameter `index`")


class _HitAnswer(BaseModel):
    model_config = ConfigDict(from_attributes=True)

    id: int
    score: _Score = Field(description="a cosine; higher is a better match")
    probability: _Probability | None = Field(
        None,
        description="the probability of being right; null if undefined, as for a sentence",
    )
    fits: bool = Field(description="false if the result is probably wrong")


class _IndexedImage(BaseModel):
    model_config = ConfigDict(from_attributes=True)

    id: int
    path: str = Field(description="relative to the indexed folder; with its name if there are several")
    width: int = Field(description="in pixels, upright")
    height: int


class ImageAnswer(_IndexedImage, _HitAnswer):
    """An image of the index and how well it matches."""


class SentenceAnswer(_HitAnswer):
    """A sentence of the index and how well it matches."""

    text: str


class _Answers(_OfIndex):
    milliseconds: _Milliseconds = Field(description="time to embed and search")
    certainty: Certainty = Field(
        description="whether the best result on this page is sure, perhaps right, or probably nothing fits; "
        "the first page has the most probable results"
    )

    @classmethod
    def of(cls, index: str, answer: Answer, milliseconds: float) -> Self:
        """Create the response from an answer of the index of that name."""
        return cls.model_validate(
            {
                "index": index,
                "results": list(answer),
                "unknown_words": answer.unknown_words,
                "corrected_words": answer.corrected_words,
                "certainty": answer.certainty,
                "where_meant": answer.where_meant,
                "query_meant": answer.query_meant,
                "milliseconds": milliseconds,
            }
        )


class PartAnswer(BaseModel):
    """A part of the parsed query."""

    text: str = Field(description="with its sign, as in a query")
    weight: float = Field(description="negative for unwanted parts")
    id: int | None = Field(None, description="of an image of the index")


class Images(_Answers):
    """Images, best first."""

    results: list[ImageAnswer]
    next: str | None = Field(None, description="the cursor of the next page; null after the last one")
    q: str = Field(
        "", description="the query for GET; uploads are named by their hash, which is valid for a while"
    )
    unknown_words: list[str] = Field(description="words of the query that the run does not know")
    corrected_words: dict[str, str] = Field(
        {}, description="misspelt words of the query and their corrections"
    )
    query: list[PartAnswer] = Field([], description="the parts of the query")
    where_meant: str | None = Field(
        None,
        description="a filter for files or folders that have the query's name, if nothing fits it",
    )
    query_meant: str | None = Field(
        None, description="the English name of what a query in German, Spanish, French or Chinese names"
    )

    def to(self, query: Query) -> Self:
        """Add the query."""
        self.q = str(query)
        self.query = [
            PartAnswer(
                text=str(part),
                weight=part.weight,
                id=part.term.id if isinstance(part.term, Indexed) else None,
            )
            for part in query.parts
        ]
        return self


class SentenceAnswers(_Answers):
    """Sentences, best first."""

    results: list[SentenceAnswer]


class BoxAnswer(BaseModel):
    """A box in an image and how well it matches."""

    x1: _Pixels = Field(description="left edge, in pixels of the upright image")
    y1: _Pixels = Field(description="upper edge")
    x2: _Pixels = Field(description="right edge")
    y2: _Pixels = Field(description="lower edge")
    score: _Score = Field(description="higher is a better match")
    probability: _Probability | None = Field(
        None, description="the probability that the box is right; null if the run has no fitted probabilities"
    )


class PhraseAnswer(BaseModel):
    """A phrase of the sentence and where it is."""

    text: str
    start: int = Field(description="offset of its first character in the sentence, in Unicode code points")
    end: int = Field(description="one past its last character")
    known: bool = Field(description="true if any of its words is known; otherwise it has no boxes")
    colour: str = Field(description="colour of the phrase and its boxes, #rrggbb")
    fits: bool = Field(description="false if the image probably does not show it")
    boxes: list[BoxAnswer] = Field(description="best first")


class GroundingAnswer(BaseModel):
    """The phrases of a sentence, in order, and where each is in an image."""

    index: str | None = Field(None, description="the name of the index of the image; null for an upload")
    width: int = Field(description="in pixels, upright")
    height: int
    phrases: list[PhraseAnswer]
    corrected_words: dict[str, str] = Field(
        {}, description="misspelt words of the sentence and their corrections"
    )
    milliseconds: _Milliseconds = Field(description="time to find and score regions")

    @classmethod
    def from_grounding(
        cls, found: Grounding, milliseconds: float, index: str | None = None
    ) -> GroundingAnswer:
        """Create the response from a grounding in an upload, or in an image of that index."""
        phrases = []
        for i, phrase in enumerate(found.phrases):
            boxes = [
                {**place._asdict(), **dict(zip(_CORNERS, place.box, strict=True))} for place in phrase.places
            ]
            phrases.append(asdict(phrase) | {"colour": colour(i), "boxes": boxes})
        about = {"phrases": phrases, "milliseconds": milliseconds, "index": index}
        return cls.model_validate(asdict(found) | about)


class DatedImage(_IndexedImage):
    """An image of the index and its time."""

    time: str = Field(description="such as 2019-06-30T12:00:00")
    dated_by: str = Field(
        description='what the time is of: the "camera" that took it, the "name" of its file, or else the '
        '"file", which was changed then'
    )


class DatedImages(_OfIndex):
    """Images, newest first."""

    results: list[DatedImage]
    next: str | None = Field(description="the cursor of the next page; null after the last one")


class Month(BaseModel):
    """The number of images of a month."""

    month: str = Field(description="such as 2019-06")
    images: int


class Months(_OfIndex):
    """The months of the images, newest first."""

    months: list[Month]


class Typed(BaseModel):
    """What was typed into one box, split."""

    q: str = Field(description="the query; empty if there are only conditions")
    where: str = Field(description="the filter")


class Folder(BaseModel):
    """The number of images in a folder and its subfolders."""

    folder: str = Field(description="the beginning of the paths of its images")
    images: int


class Folders(_OfIndex):
    """The folders with the most images."""

    folders: list[Folder]


class ImageFacts(_OfIndex, DatedImage):
    """What is known of an image."""

    bytes: int = Field(description="of the file")
    type: str | None = Field(
        description="media type of the file by its content; null if it cannot be read now"
    )
    facts: dict[str, str] = Field(
        description="EXIF data: taken, camera, lens, exposure, aperture, iso, focal"
    )


class Duplicates(_OfIndex):
    """Groups of copies of one picture, and of burst shots."""

    groups: list[list[DatedImage]] = Field(description="the largest groups first")


class Fault(BaseModel):
    """A file that could not be indexed."""

    path: str
    reason: str


class Faults(_OfIndex):
    """The files that could not be indexed."""

    faults: list[Fault]


class UpdateState(_OfIndex):
    """How far the update of an index is."""

    running: bool
    images: int = Field(0, description="number of images in the index now")
    generation: int = Field(0, description="as in the status of the index")
    done: int = Field(description="files processed")
    total: int = Field(description="files to process; 0 before they are counted")
    added: int = Field(0, description="number of images added by the last update")
    deleted: int = 0
    seconds: float | None = Field(None, description="of the last update; null before the first")
    error: str | None = Field(
        None, description="message if the last update failed or was stopped; details are in the server's log"
    )


class Status(_OfIndex):
    """A served index."""

    images: int
    sentences: int
    not_read: list[str] = Field(description="numbers of unsupported files by kind, and what to do")
    absent: list[str] = Field(
        description="names of unavailable folders, such as on an unmounted drive; their images are kept"
    )
    faults: int = Field(description="number of files that could not be indexed")
    matcher: str
    generation: int = Field(description="increases with every change of the index")
    version: str = Field(description="of seesay")
    is_default: bool = Field(description="true if it answers requests that name no index")
    grounding: bool = Field(description="true if a grounding run is available")
    updating: bool = Field(description="true if clients may start an update")
    login: bool = Field(description="true if clients must send a token")


MEDIA_TYPE = "application/problem+json"

Responses: TypeAlias = dict[int | str, dict[str, object]]


class Problem(BaseModel):
    """The body of every response with a status of 400 or above (RFC 9457)."""

    type: str = Field("about:blank", description="always about:blank")
    title: str = Field(description="name of the status, such as Not Found")
    status: int
    detail: str = Field(description="what was wrong, where, and what to do")


class ProblemResponse(JSONResponse):
    """The response to a failure."""

    media_type = MEDIA_TYPE


def problem(status: int, detail: str, headers: Mapping[str, str] | None = None) -> ProblemResponse:
    """Return the response to a failure."""
    body = Problem(title=HTTPStatus(status).phrase, status=status, detail=detail)
    return ProblemResponse(body.model_dump(), status, headers)


def failures(*statuses: int) -> Responses:
    """Describe the failures of a route for OpenAPI."""
    schema = {"$ref": "#/components/schemas/Problem"}
    return {
        status: {"description": HTTPStatus(status).phrase, "content": {MEDIA_TYPE: {"schema": schema}}}
        for status in statuses
    }
