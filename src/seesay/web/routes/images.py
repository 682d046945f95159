"""Images of an index: the newest ones, and single images by id."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Annotated

import simplejpeg
from fastapi import APIRouter, Header, HTTPException, Query
from fastapi.responses import FileResponse, Response, StreamingResponse
from pydantic import Field
from starlette.types import Receive, Scope, Send
from zipstream import ZipStream

from seesay.data.decoders import PHOTOS, facts_of
from seesay.data.headers import file_format
from seesay.data.images import Photo
from seesay.errors import ImageError
from seesay.search.filters import Filter
from seesay.search.store import Item
from seesay.web import log_line
from seesay.web.answers import (
    DatedImage,
    DatedImages,
    Duplicates,
    Folder,
    Folders,
    ImageFacts,
    Month,
    Months,
    Responses,
    failures,
)
from seesay.web.routes.parameters import (
    DEFAULT_LIMIT,
    Cursor,
    Id,
    Limit,
    TheIndex,
    TheService,
    Upload,
    Where,
    cursor_of,
    time_of,
)
from seesay.web.security import API
from seesay.web.served import Served

_REVALIDATE = "private, no-cache"  # an id keeps its meaning, but its file may change
_MAX_ARCHIVED = 500
_SomeId = Annotated[int, Field(ge=1, le=2**63 - 1)]
_Offset = Annotated[int, Query(ge=0, le=2**31, description="number of images to skip")]
_IfNoneMatch = Annotated[str | None, Header()]
_LONGEST_JPEG = 65_500  # pixels; the longest side that libjpeg writes
_UNKNOWN_TYPE = "application/octet-stream"
# Formats that browsers show; of an MPO, several JPEGs in one file, they show the first.
_SHOWN = {kind: f"image/{kind.lower()}" for kind in ("JPEG", "PNG", "GIF", "WEBP", "AVIF", "BMP", "TIFF")}
_SHOWN |= {"MPO": "image/jpeg", "JPEG2000": "image/jp2"}


def _sent(*types: str) -> Responses:
    """Describe a file response for OpenAPI."""
    content: dict[str, object] = {
        type_: {"schema": {"type": "string", "format": "binary"}} for type_ in types
    }
    return {200: {"description": "the file", "content": content}}


router = APIRouter(prefix=f"{API}/images", tags=["images"])


@router.get("", responses=failures(404, 422))
async def newest(
    service: TheService,
    served: TheIndex,
    limit: Limit = DEFAULT_LIMIT,
    cursor: Cursor = None,
    where: Where = "",
    offset: _Offset = 0,
) -> DatedImages:
    """List the images, newest first."""
    after = None if cursor is None else time_of(cursor)

    def work() -> DatedImages:
        found = served.index.store.newest(limit + 1, Filter.parse(where), after, offset)
        page = found[:limit]
        return DatedImages(
            index=served.name,
            results=[DatedImage.model_validate(each) for each in page],
            next=cursor_of(page[-1].time, page[-1].id) if len(found) > limit else None,
            where_meant=served.index.filter_meant(where) if where and not (found or cursor) else None,
        )

    return await service.run(work)


@router.get("/months", responses=failures(404, 422))
async def months(service: TheService, served: TheIndex, where: Where = "") -> Months:
    """Count the images of each month, newest first."""
    found = await service.run(lambda: served.index.store.months(Filter.parse(where)))
    counted = [Month(month=month, images=images) for month, images in found.items()]
    return Months(index=served.name, months=counted)


@router.get("/folders", responses=failures(404, 422))
async def folders(service: TheService, served: TheIndex) -> Folders:
    """Count the images in each of the thousand largest folders, subfolders included."""
    found = await service.run(served.index.store.folders)
    counted = [Folder(folder=folder, images=images) for folder, images in found.items()]
    return Folders(index=served.name, folders=counted)


@router.get("/duplicates", responses=failures(404, 422))
async def duplicates(service: TheService, served: TheIndex) -> Duplicates:
    """Group copies of one picture, and shots of one burst."""
    groups = await service.run(served.stacks, service.comparisons)
    shown = [[DatedImage.model_validate(each) for each in group] for group in groups]
    return Duplicates(index=served.name, groups=shown)


@router.get(
    "/archive", response_class=StreamingResponse, responses=_sent("application/zip") | failures(404, 422)
)
async def archive(
    service: TheService,
    served: TheIndex,
    id: Annotated[list[_SomeId], Query(min_length=1, max_length=_MAX_ARCHIVED, description="of the images")],
) -> StreamingResponse:
    """Return the files of images as one zip; missing ones are left out."""
    most = service.options.limits.archive_bytes
    images = await service.run(lambda: _archived(served, dict.fromkeys(id), most), service.pictures)
    headers = {
        "Content-Disposition": 'attachment; filename="images.zip"',
        "Cache-Control": "private, no-store",
    }
    return StreamingResponse(zipped(images.items()), media_type="application/zip", headers=headers)


@router.get("/{id}", responses=failures(404, 422))
async def facts(service: TheService, served: TheIndex, id: Id) -> ImageFacts:
    """Return metadata of an image: its file, and how it was taken."""

    def work() -> ImageFacts:
        item = served.image(id)
        file = served.index.file_of(item)
        return ImageFacts(
            index=served.name,
            id=id,
            path=item.path,
            width=item.width,
            height=item.height,
            bytes=item.state.size,
            type=file and _media_type(file),
            time=item.time,
            dated_by=item.dated_by,
            facts=facts_of(file) if file else {},
        )

    return await service.run(work, service.pictures)


@router.get(
    "/{id}/original",
    response_class=FileResponse,
    responses=_sent(*_SHOWN.values(), _UNKNOWN_TYPE) | failures(404, 416, 422),
)
async def original(
    service: TheService, served: TheIndex, id: Id, if_none_match: _IfNoneMatch = None
) -> Response:
    """Return the file of an image."""

    def work() -> Response:
        file = served.file_of(served.image(id))
        type_ = _media_type(file)
        if type_ is None:  # an index can name any file
            raise HTTPException(404, f"The file of image {id} is not an image; update the index.")
        try:
            found = file.stat()
        except OSError as error:
            raise HTTPException(404, f"The file of image {id} cannot be read.") from error
        response = _Original(
            file,
            media_type=type_,
            filename=file.name,
            stat_result=found,  # of which the ETag is made
            content_disposition_type="attachment" if type_ == _UNKNOWN_TYPE else "inline",
            headers={"Cache-Control": _REVALIDATE},
        )
        return _unchanged(response.headers["etag"], if_none_match) or response

    return await service.run(work, service.pictures)


class _Original(FileResponse):
    """A response with a file that may be deleted while it is sent, after the status has been sent."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            await super().__call__(scope, receive, send)
        except OSError as error:  # the server closes the connection, which tells the client
            log_line(f"{self.path}: not sent to its end ({error.strerror}).")


@router.get("/{id}/jpeg", response_class=Response, responses=_sent("image/jpeg") | failures(404, 422))
async def jpeg(service: TheService, served: TheIndex, id: Id, if_none_match: _IfNoneMatch = None) -> Response:
    """Return an upright full-size JPEG of an image, for formats such as HEIC that few browsers show."""

    def make(item: Item) -> bytes:
        file = served.file_of(item)
        return _encoded(PHOTOS.decode(file.read_bytes(), file.name, key=item.key))

    return await service.run(lambda: _made(served.image(id), if_none_match, make), service.pictures)


@router.post("/jpeg", response_class=Response, responses=_sent("image/jpeg") | failures(413, 422))
async def jpeg_of_upload(service: TheService, image: Upload) -> Response:
    """Return an upright JPEG of an uploaded image, for formats that the client cannot show."""
    return Response(await service.with_upload(image, _encoded), media_type="image/jpeg")


@router.get("/{id}/thumbnail", response_class=Response, responses=_sent("image/jpeg") | failures(404, 422))
async def thumbnail(
    service: TheService, served: TheIndex, id: Id, if_none_match: _IfNoneMatch = None
) -> Response:
    """Return a small JPEG of an image, created on first request."""

    def make(item: Item) -> bytes:
        return served.index.thumbnail(item.key, served.index.file_of(item))

    return await service.run(lambda: _made(served.image(id), if_none_match, make), service.pictures)


def _made(item: Item, if_none_match: str | None, make: Callable[[Item], bytes]) -> Response:
    """Return a JPEG made of an image, unless the client has it."""
    tag = f'"{item.key}"'
    if unchanged := _unchanged(tag, if_none_match):
        return unchanged
    try:
        content = make(item)
    except OSError as error:
        raise HTTPException(404, f"The file of image {item.id} cannot be read.") from error
    return Response(content, media_type="image/jpeg", headers=_kept_as(tag))


def _encoded(photo: Photo) -> bytes:
    if max(photo.pixels.shape) > _LONGEST_JPEG:
        raise ImageError(f"{photo.name}: a JPEG has at most {_LONGEST_JPEG} pixels a side.")
    encoded: bytes = simplejpeg.encode_jpeg(photo.pixels, quality=90, colorsubsampling="420")
    return encoded


def _kept_as(tag: str) -> dict[str, str]:
    return {"ETag": tag, "Cache-Control": _REVALIDATE}


def _unchanged(tag: str, if_none_match: str | None) -> Response | None:
    """Return a 304 response if the client already has the content with that ETag, else None."""
    if if_none_match is None or tag not in if_none_match:
        return None
    return Response(status_code=304, headers=_kept_as(tag))


def _archived(served: Served, ids: Iterable[int], most: int) -> dict[str, Path]:
    """Return the files of an archive by their names in it.

    Raises:
        HTTPException: 404 if there are none; 422 if they are too large together.
    """
    images = {
        name: file
        for item in map(served.index.item, ids)
        if item and served.index.may_show(item)
        if (file := served.index.file_of(item)) and file_format(file) is not None
        if (name := served.index.path_of(file))
    }
    if not images:
        raise HTTPException(404, "None of these images exists any more; update the index.")
    if sum(map(_bytes_of, images.values())) > most:
        size = f"{most / 2**30:g} GB"
        raise HTTPException(422, f"These images have more than {size} together; request fewer at once.")
    return images


def _bytes_of(file: Path) -> int:
    """Return the size of a file; 0 if it is missing."""
    try:
        return file.stat().st_size
    except OSError:
        return 0


def zipped(files: Iterable[tuple[str, Path]]) -> Iterator[bytes]:
    """Yield the bytes of an uncompressed zip of files; missing ones are left out.

    Args:
        files: the name in the zip and the path of each file.
    """
    archive = ZipStream()
    for name, path in files:
        if os.access(path, os.R_OK):
            archive.add_path(path, name, recurse=False)
            yield from archive.all_files()
    yield from archive.finalize()


def _media_type(file: Path) -> str | None:
    """Return the media type by content; for formats that browsers cannot show, one that they save.

    None if the file is not an image, or cannot be read.
    """
    kind = file_format(file)
    return None if kind is None else _SHOWN.get(kind, _UNKNOWN_TYPE)
