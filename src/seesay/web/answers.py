"""The JSON responses of the API, for OpenAPI."""

from __future__ import annotations

from collections.abc import Mapping
from http import HTTPStatus
from typing import Annotated, TypeAlias

from pydantic import AfterValidator, BaseModel, ConfigDict, Field
from starlette.responses import JSONResponse

from seesay.search.hits import Certainty

_Score = Annotated[float, AfterValidator(lambda score: round(score, 4))]


class _OfIndex(BaseModel):
    """An answer that names the index which gave it."""

    index: str = Field(description="the name of the index that answers, as in the parameter `index`")


class _IndexedImage(BaseModel):
    model_config = ConfigDict(from_attributes=True)

    id: int
    path: str = Field(description="relative to the indexed folder; with its name if there are several")
    width: int = Field(description="in pixels, upright")
    height: int


class ImageAnswer(_IndexedImage):
    """An image of the index and how well it matches."""

    score: _Score = Field(description="higher is a better match; for most runs, a cosine")
    probability: _Score | None = Field(description="the probability of being right; null if undefined")
    fits: bool = Field(description="false if the result is probably wrong")


class TextHitAnswer(_IndexedImage):
    """An image in which words of the query were read, which says nothing about what it shows."""

    words: int = Field(description="how many words of the query were read")
    of: int = Field(description="how many words of the query were looked for: those that have a content")


class PartAnswer(BaseModel):
    """A part of the parsed query."""

    text: str = Field(description="with its sign, as in a query")
    weight: float = Field(description="negative for unwanted parts")


class Images(_OfIndex):
    """Images, best first."""

    results: list[ImageAnswer]
    next: str | None = Field(description="the cursor of the next page; null after the last one")
    certainty: Certainty = Field(
        description="whether the best result on this page is sure, perhaps right, or probably nothing fits; "
        "the first page has the most probable results"
    )
    q: str = Field(
        description="the query for GET; an upload is named by its hash, which is valid for a while"
    )
    query: list[PartAnswer] = Field(description="the parts of the query")
    unknown_words: list[str] = Field(description="words of the query that the run does not know")
    corrected_words: dict[str, str] = Field(description="misspelt words of the query and their corrections")
    where_meant: str | None = Field(
        description="a filter for files or folders that have the query's name, if nothing fits it"
    )
    text_hits: list[TextHitAnswer] = Field(
        description="the images in which most words of the query were read, at most `limit` of them, those "
        "with the most words first; only with the first page"
    )
    query_meant: str | None = Field(
        description="the English name of what a query in German, Spanish, French or Chinese names"
    )


class SentenceAnswer(BaseModel):
    """A sentence of the index and how well it matches."""

    model_config = ConfigDict(from_attributes=True)

    id: int
    text: str
    score: _Score


class SentenceAnswers(_OfIndex):
    """Sentences, best first."""

    results: list[SentenceAnswer]


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


class Count(BaseModel):
    """A month or a folder, and the number of its images."""

    name: str = Field(description="such as 2019-06, or the beginning of the paths of a folder's images")
    images: int


class Counts(_OfIndex):
    """The months of the images, newest first, or the folders with the most images."""

    counts: list[Count]


class Typed(BaseModel):
    """What was typed into one box, split."""

    q: str = Field(description="the query; empty if there are only conditions")
    where: str = Field(description="the filter")


class TextAnswer(BaseModel):
    """A line of text read in a picture: its box is in fractions of the upright picture's size."""

    text: str
    x1: float
    y1: float
    x2: float
    y2: float


class ImageFacts(_OfIndex, DatedImage):
    """What is known of an image."""

    bytes: int = Field(description="of the file")
    type: str | None = Field(
        description="media type of the file by its content; null if it cannot be read now"
    )
    text: list[TextAnswer] = Field(description="the lines of text read in the picture")
    facts: dict[str, str] = Field(
        description="EXIF data: taken, camera, lens, exposure, aperture, iso, focal"
    )


class Duplicates(_OfIndex):
    """Groups of copies of one picture, and of burst shots."""

    groups: list[list[DatedImage]] = Field(description="the largest groups first")


class Faults(_OfIndex):
    """The files that could not be indexed, or whose text could not be read."""

    faults: dict[str, str] = Field(description="why, by the path of the file")


class UpdateState(_OfIndex):
    """How far the update of an index is."""

    running: bool = False
    images: int = Field(0, description="number of images in the index now")
    generation: int = Field(0, description="increases with every change of the index")
    done: int = Field(0, description="files processed")
    total: int = Field(0, description="files to process; 0 before they are counted")
    added: int = Field(0, description="number of images added or changed by the last update")
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
    faults: int = Field(
        description="number of files that could not be indexed, or whose text could not be read"
    )
    matcher: str
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


def problem(status: int, detail: str, headers: Mapping[str, str] | None = None) -> JSONResponse:
    """Return the response to a failure."""
    body = Problem(title=HTTPStatus(status).phrase, status=status, detail=detail)
    return JSONResponse(body.model_dump(), status, headers, MEDIA_TYPE)


def failures(*statuses: int) -> Responses:
    """Describe the failures of a route for OpenAPI."""
    schema = {"$ref": "#/components/schemas/Problem"}
    return {
        status: {"description": HTTPStatus(status).phrase, "content": {MEDIA_TYPE: {"schema": schema}}}
        for status in statuses
    }
