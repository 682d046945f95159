"""The routes of the API: queries, grounding, and images by their id, the only way a client can name one."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Annotated

from fastapi import APIRouter, File, Header, HTTPException, Query, UploadFile
from fastapi import Path as PathParameter
from fastapi.responses import FileResponse, Response
from PIL import Image

from seesay import __version__
from seesay.data.images import FileSource, file_format
from seesay.data.suffixes import unread_lines
from seesay.errors import ImageError, QueryError
from seesay.grounding.ground import Grounding, can_ground
from seesay.search.query import Image as QueryImage
from seesay.search.query import Part
from seesay.search.query import Query as SearchQuery
from seesay.web.answers import GroundingAnswer, Images, Sentences, Status, failures
from seesay.web.limits import MAX_ANSWERS, MAX_CHARACTERS, MAX_UPLOADS
from seesay.web.service import Service

_QueryText = Annotated[
    str,
    Query(
        max_length=MAX_CHARACTERS,
        description='a sentence, or several with signs and weights, such as "2*beach - people"; id:12 is an '
        "image of the index",
    ),
]
_Phrases = Annotated[
    str, Query(max_length=MAX_CHARACTERS, description="a phrase, or a sentence whose noun phrases are found")
]
_Count = Annotated[int, Query(ge=1, le=MAX_ANSWERS, description="number of results")]
_Boxes = Annotated[int, Query(ge=1, le=20, description="maximum number of boxes of a phrase")]
_Rerank = Annotated[bool, Query(description="true to re-rank the best results by the server's second run")]
_Where = Annotated[
    str,
    Query(
        max_length=MAX_CHARACTERS,
        description="a filter: taken:2019, folder:italy, orientation:portrait, width:>3000, added:7d",
    ),
]
_Uploads = Annotated[
    list[UploadFile],
    File(description="encoded images, which q may name image:1, image:2, …; the others are added to it"),
]
_Upload = Annotated[UploadFile, File(description="an encoded image")]
_Id = Annotated[int, PathParameter(ge=1, le=2**63 - 1)]

_DEFAULT_COUNT = 40
_REVALIDATE = "private, no-cache"  # an id keeps its meaning, but its file may change
_UNKNOWN_TYPE = "application/octet-stream"
# Formats that browsers show; of an MPO, several JPEGs in one file, they show the first.
_SHOWN = ("JPEG", "MPO", "PNG", "GIF", "WEBP", "AVIF", "BMP", "TIFF", "JPEG2000")


def query_routes(service: Service) -> APIRouter:
    """Build `/api/search`, `/api/similar`, `/api/sentences` and `/api/status`."""
    index = service.index
    router = APIRouter(prefix="/api", tags=["queries"])

    async def answer(query: SearchQuery, k: int, where: str, rerank: bool = False) -> Images:
        if rerank:
            found = await service.reranked(lambda by: by.search(index, query, k, where))
            return Images.of(*found).to(query)
        return Images.of(*await service.timed(lambda: index.search(query, k, where))).to(query)

    @router.get("/search", responses=failures(422, 503))
    async def search(
        q: _QueryText, k: _Count = _DEFAULT_COUNT, where: _Where = "", rerank: _Rerank = False
    ) -> Images:
        """Find the images that fit a query best: a sentence, or sentences and images of the index."""
        return await answer(with_uploads(q, []), k, where, rerank)

    @router.post("/search", responses=failures(422, 503, 413))
    async def search_with_images(
        image: _Uploads,
        q: _QueryText = "",
        k: _Count = _DEFAULT_COUNT,
        where: _Where = "",
        rerank: _Rerank = False,
    ) -> Images:
        """Find the images that fit uploaded ones best, together with a query."""
        if len(image) > MAX_UPLOADS:
            raise HTTPException(422, f"{len(image)} images; send at most {MAX_UPLOADS}.")
        with_uploads(q, [b""] * len(image))  # before any is decoded
        query = with_uploads(q, [await service.uploaded(each) for each in image])
        return await answer(query, k, where, rerank)

    @router.post("/similar", responses=failures(422, 503, 413))
    async def similar(image: _Upload, k: _Count = _DEFAULT_COUNT, where: _Where = "") -> Images:
        """Find the images most similar to an uploaded one."""
        return await answer(with_uploads("", [await service.uploaded(image)]), k, where)

    @router.post("/sentences", responses=failures(422, 503, 413))
    async def sentences(image: _Upload, k: _Count = 10, rerank: _Rerank = False) -> Sentences:
        """Find the sentences that describe an uploaded image best."""
        data = await service.uploaded(image)
        if rerank:
            return Sentences.of(*await service.reranked(lambda by: by.sentences_for(index, data, k)))
        return Sentences.of(*await service.timed(lambda: index.sentences_for(data, k)))

    @router.get("/status")
    async def status() -> Status:
        """Describe what is being served."""

        def work() -> Status:
            return Status(
                images=index.count("image"),
                sentences=index.count("sentence"),
                not_read=unread_lines(index.store.not_read()),
                matcher=index.run_name,
                generation=index.store.generation(),
                version=__version__,
                grounding=can_ground(service.ground_run),
                reranking=service.reranker is not None,
            )

        return await service.run(work)

    return router


def with_uploads(text: str, uploads: Sequence[bytes]) -> SearchQuery:
    """Read a query whose images are uploads: `image:2` is the second, and those not named are added.

    Raises:
        QueryError: the query is against the grammar, or names an image that was not uploaded. A client can
            have no file of the server opened.
    """
    added = [f"image:{number}" for number in range(1, len(uploads) + 1)]
    written = [text, *added] if text.strip() or not uploads else added
    parts = SearchQuery.parse(" + ".join(written)).parts
    own = parts[: len(parts) - len(uploads)]
    named = {str(part.term.source) for part in own if isinstance(part.term, QueryImage)}
    kept = [*own, *(part for part in parts[len(own) :] if str(part.term).removeprefix("image:") not in named)]
    return SearchQuery(tuple(_with_upload(part, uploads) for part in kept))


def _with_upload(part: Part, uploads: Sequence[bytes]) -> Part:
    if not isinstance(part.term, QueryImage):
        return part
    for number, image in enumerate(uploads, start=1):
        if str(part.term.source) == str(number):
            return replace(part, term=QueryImage(image))
    raise QueryError(f"{part.term}: the server opens no files; upload the image, or name its id.")


def grounding_routes(service: Service) -> APIRouter:
    """Build `/api/ground` and `/api/images/{id}/ground`."""
    router = APIRouter(prefix="/api", tags=["grounding"])

    async def answer(read: Callable[[], tuple[bytes, str]], text: str, k: int) -> GroundingAnswer:
        if not text.strip():
            raise HTTPException(422, "The sentence is empty; name what to point at.")

        def work() -> Grounding:
            image, name = read()
            return service.grounder.get().ground(image, name, text, k)

        return GroundingAnswer.from_grounding(*await service.timed(work, service.pictures))

    @router.post("/ground", responses=failures(422, 503, 413))
    async def ground(image: _Upload, q: _Phrases, k: _Boxes = 1) -> GroundingAnswer:
        """Find the boxes of what a sentence names in an uploaded image."""
        data = await service.uploaded(image, whole=True)
        return await answer(lambda: (data, "the image"), q, k)

    @router.get("/images/{id}/ground", responses=failures(422, 503, 404))
    async def ground_indexed(id: _Id, q: _Phrases, k: _Boxes = 1) -> GroundingAnswer:
        """Find the boxes of what a sentence names in an image of the index."""

        def read() -> tuple[bytes, str]:
            item, file = service.image(id)
            try:
                return FileSource(file).read(), item.path or "the image"
            except ImageError as error:
                raise HTTPException(404, f"The file of image {id} cannot be read.") from error

        return await answer(read, q, k)

    return router


def image_routes(service: Service) -> APIRouter:
    """Build `/api/images/{id}` and its thumbnail."""
    router = APIRouter(prefix="/api/images", tags=["images"], responses=failures(404, 422))

    @router.get("/{id}", response_class=FileResponse, responses=failures(416))
    async def image(id: _Id) -> FileResponse:
        """Return the original file of an image."""

        def work() -> tuple[Path, str]:
            _, file = service.image(id)
            type_ = _media_type(file)
            if type_ is None:  # an index can name any file
                raise HTTPException(404, f"The file of image {id} is no image; update the index.")
            return file, type_

        file, type_ = await service.run(work, service.pictures)
        return FileResponse(
            file,
            media_type=type_,
            filename=file.name,
            content_disposition_type="attachment" if type_ == _UNKNOWN_TYPE else "inline",
            headers={"Cache-Control": _REVALIDATE},
        )

    @router.get("/{id}/thumbnail", response_class=Response)
    async def thumbnail(id: _Id, if_none_match: Annotated[str | None, Header()] = None) -> Response:
        """Return a small JPEG of an image, made at the first request."""

        def work() -> Response:
            item, file = service.image(id)
            headers = {"ETag": f'"{item.key}"', "Cache-Control": _REVALIDATE}
            if if_none_match is not None and item.key in if_none_match:
                return Response(status_code=304, headers=headers)
            try:
                content = service.index.thumbnails.get(item.key, file)
            except OSError as error:
                raise HTTPException(404, f"The file of image {id} cannot be read.") from error
            return Response(content, media_type="image/jpeg", headers=headers)

        return await service.run(work, service.pictures)

    return router


def _media_type(file: Path) -> str | None:
    """The type by content, since suffixes lie; one that browsers save if they cannot show the format."""
    kind = file_format(file)
    if kind is None:
        return None
    return Image.MIME["JPEG" if kind == "MPO" else kind] if kind in _SHOWN else _UNKNOWN_TYPE
