"""Images of an index: the newest ones, and single images by id."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from functools import partial
from io import FileIO
from pathlib import PurePath
from typing import Annotated

import simplejpeg
from fastapi import APIRouter, Header, HTTPException, Query
from fastapi.responses import Response
from pydantic import Field

from seesay.data.decoders import PHOTOS
from seesay.data.images import DecodedImage, file_format, read_image
from seesay.errors import ImageError
from seesay.search.filters import Filter
from seesay.search.photo import Photo
from seesay.web.answers import (
    Count,
    Counts,
    DatedImage,
    DatedImages,
    Duplicates,
    ImageFacts,
    Responses,
    failures,
)
from seesay.web.routes import DEFAULT_LIMIT, Id, Limit, TheIndex, TheService, Upload, Where
from seesay.web.security import API
from seesay.web.sending import Streamed, file_response, kept_as, unchanged, zipped
from seesay.web.service import Served

_MAX_ARCHIVED = 500
_SomeId = Annotated[int, Field(ge=1, le=2**63 - 1)]
_Offset = Annotated[int, Query(ge=0, le=2**31, description="number of images to skip")]
_IfNoneMatch = Annotated[str | None, Header()]
_LONGEST_JPEG = 65_500  # pixels; the longest side that libjpeg writes
_UNKNOWN_TYPE = "application/octet-stream"
# Formats that browsers show; of an MPO, several JPEGs in one file, they show the first.
_SHOWN = {kind: f"image/{kind.lower()}" for kind in ("JPEG", "PNG", "GIF", "WEBP", "AVIF", "BMP", "TIFF")}
_SHOWN |= {"MPO": "image/jpeg", "JPEG2000": "image/jp2"}
_EVERYWHERE = ("JPEG", "MPO", "PNG", "GIF", "WEBP", "AVIF", "BMP")  # not in one browser only


def _sent(*types: str) -> Responses:
    """Describe a file response for OpenAPI. Some generators of clients read bytes of an unknown type only."""
    binary = {"schema": {"type": "string", "format": "binary"}}
    content = dict.fromkeys((*types, _UNKNOWN_TYPE), binary)
    return {200: {"description": "the file", "content": content}}


router = APIRouter(prefix=f"{API}/images", tags=["images"])


@router.get("", responses=failures(404, 422))
async def newest(
    service: TheService,
    served: TheIndex,
    limit: Limit = DEFAULT_LIMIT,
    where: Where = "",
    offset: _Offset = 0,
) -> DatedImages:
    """List the images, newest first; the last page has fewer than `limit`."""

    def work() -> DatedImages:
        found = served.index.store.newest(limit, Filter.parse(where), offset)
        results = [DatedImage.model_validate(each) for each in found]
        return DatedImages(index=served.name, results=results)

    return await service.run(work)


@router.get("/months", responses=failures(404, 422))
async def months(service: TheService, served: TheIndex, where: Where = "") -> Counts:
    """Count the images of each month, newest first."""
    return _counts(served, await service.run(lambda: served.index.store.months(Filter.parse(where))))


@router.get("/folders", responses=failures(404, 422))
async def folders(service: TheService, served: TheIndex) -> Counts:
    """Count the images in each of the thousand largest folders, subfolders included."""
    return _counts(served, await service.run(served.index.store.folders))


def _counts(served: Served, images: Mapping[str, int]) -> Counts:
    return Counts(
        index=served.name, counts=[Count(name=name, images=count) for name, count in images.items()]
    )


@router.get("/duplicates", responses=failures(404, 422))
async def duplicates(service: TheService, served: TheIndex) -> Duplicates:
    """Group copies of one picture, and shots of one burst."""
    groups = await service.run(served.stacks, service.comparisons)
    shown = [[DatedImage.model_validate(each) for each in group] for group in groups]
    return Duplicates(index=served.name, groups=shown)


@router.get("/archive", response_class=Response, responses=_sent("application/zip") | failures(404, 422))
async def archive(
    service: TheService,
    served: TheIndex,
    id: Annotated[list[_SomeId], Query(min_length=1, max_length=_MAX_ARCHIVED, description="of the images")],
) -> Response:
    """Return the files of images as one zip; missing ones are left out."""
    most = service.options.limits.archive_bytes
    images = await service.run(lambda: _archived(served, dict.fromkeys(id), most), service.files)
    files = ((item.path, partial(_opened_image, served, item)) for item in images)
    return Streamed(
        service,
        zipped(files),
        "application/zip",
        Content_Disposition='attachment; filename="images.zip"',
        Cache_Control="private, no-store",
    )


@router.get("/{id}", responses=failures(404, 422))
async def facts(service: TheService, served: TheIndex, id: Id) -> ImageFacts:
    """Return metadata of an image: its file, and how it was taken."""

    def work() -> ImageFacts:
        item = served.image(id)
        dated = DatedImage.model_validate(item).model_dump()
        lines = [line._asdict() for line in served.index.store.lines(id)]
        about = dated | {"bytes": item.state.size, "text": lines}
        known = ImageFacts(index=served.name, type=None, facts={}, **about)
        with suppress(OSError, ImageError):
            file, format_ = _opened_image(served, item)
            with file:
                known.type = _SHOWN.get(format_, _UNKNOWN_TYPE)
                known.facts = PHOTOS.facts(read_image(file), PurePath(item.path).name)
        return known

    return await service.run(work, service.files)


@router.get(
    "/{id}/original",
    response_class=Response,
    responses=_sent(*_SHOWN.values()) | failures(404, 422),
)
async def original(
    service: TheService, served: TheIndex, id: Id, if_none_match: _IfNoneMatch = None
) -> Response:
    """Return the file of an image."""

    def work() -> Response:
        item = served.image(id)
        file, format_ = _opened_image(served, item)
        name = PurePath(item.path).name
        return file_response(service, file, name, _SHOWN.get(format_, ""), if_none_match)

    return await service.run(work, service.files)


@router.get(
    "/{id}/view",
    response_class=Response,
    responses=_sent(*(_SHOWN[each] for each in _EVERYWHERE)) | failures(404, 422),
)
async def view(service: TheService, served: TheIndex, id: Id, if_none_match: _IfNoneMatch = None) -> Response:
    """Return an image for a browser: its file, or a JPEG if some browsers show other pixels than seesay."""

    def work() -> Response:
        item = served.image(id)
        file, format_ = _opened_image(served, item)
        data = read_image(file)
        if format_ in _EVERYWHERE and PHOTOS.is_same_in_browsers(data, "the image"):
            return file_response(service, file, PurePath(item.path).name, _SHOWN[format_], if_none_match)
        file.close()
        return _made(item, if_none_match, lambda _: _encoded(PHOTOS.decode(data, "the image", key=item.key)))

    return await service.run(work, service.pictures)


@router.post("/jpeg", response_class=Response, responses=_sent("image/jpeg") | failures(413, 422, 507))
async def jpeg_of_upload(service: TheService, image: Upload) -> Response:
    """Return an upright JPEG of an uploaded image, for formats that the client cannot show."""
    return Response(await service.with_upload(image, _encoded), media_type="image/jpeg")


@router.get("/{id}/thumbnail", response_class=Response, responses=_sent("image/jpeg") | failures(404, 422))
async def thumbnail(
    service: TheService, served: TheIndex, id: Id, if_none_match: _IfNoneMatch = None
) -> Response:
    """Return a small JPEG of an image, made when it was indexed or, if that is gone, now."""

    def work() -> Response:
        return _made(served.image(id), if_none_match, served.index.thumbnail)

    return await service.run(work, service.pictures)


def _opened_image(served: Served, item: Photo) -> tuple[FileIO, str]:
    """Open the file of an image, and return it with its format.

    Raises:
        OSError: it cannot be opened, or is not an image: an index can name any file.
    """
    file = served.index.open_image(item)
    if (format_ := file_format(file)) is None:
        file.close()
        raise OSError(f"{item.path}: not an image")
    return file, format_


def _made(item: Photo, if_none_match: str | None, make: Callable[[Photo], bytes]) -> Response:
    """Return a JPEG made of an image, unless the client has it."""
    tag = f'"{item.key}"'
    known = unchanged(tag, if_none_match)
    return known or Response(make(item), media_type="image/jpeg", headers=kept_as(tag))


def _encoded(photo: DecodedImage) -> bytes:
    if max(photo.pixels.shape) > _LONGEST_JPEG:
        raise ImageError(f"{photo.name}: a JPEG has at most {_LONGEST_JPEG} pixels a side.")
    encoded: bytes = simplejpeg.encode_jpeg(photo.pixels, quality=90, colorsubsampling="420")
    return encoded


def _archived(served: Served, ids: Iterable[int], most: int) -> list[Photo]:
    """Return the images of an archive.

    Raises:
        HTTPException: 404 if there are none; 422 if they are too large together.
    """
    images, size = list[Photo](), 0
    for photo in map(served.index.photo, ids):
        if photo and served.index.may_show(photo):
            with suppress(OSError), _opened_image(served, photo)[0] as file:
                images.append(photo)
                size += os.fstat(file.fileno()).st_size
    if not images:
        raise HTTPException(404, "None of these images exists any more; update the index.")
    if size > most:
        limit = f"{most / 2**30:g} GB"
        raise HTTPException(422, f"These images have more than {limit} together; request fewer at once.")
    return images
