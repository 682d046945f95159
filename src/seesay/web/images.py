"""Images by their id in the index: the only way a client can name one."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from fastapi import APIRouter, Header, HTTPException
from fastapi import Path as PathParameter
from fastapi.responses import FileResponse, Response
from PIL import Image

from seesay.web.answers import Failure
from seesay.web.service import Service

Id = Annotated[int, PathParameter(ge=1, le=2**63 - 1)]

_REVALIDATE = "private, no-cache"  # an id keeps its meaning, its file may change
_MEDIA_TYPES = {
    "JPEG": "image/jpeg",
    "MPO": "image/jpeg",  # several JPEGs in one file; browsers show the first
    "PNG": "image/png",
    "GIF": "image/gif",
    "WEBP": "image/webp",
    "AVIF": "image/avif",
    "BMP": "image/bmp",
    "TIFF": "image/tiff",
    "JPEG2000": "image/jp2",
}


def media_type(file: Path) -> str:
    """The type by content, since suffixes lie; bytes to be saved where no browser shows the format."""
    try:
        with Image.open(file, formats=[name for name in _MEDIA_TYPES if name in Image.OPEN]) as image:
            return _MEDIA_TYPES.get(image.format or "", "application/octet-stream")
    except Exception:  # Pillow's plugins raise nearly anything on damaged files
        return "application/octet-stream"


def image_routes(service: Service) -> APIRouter:
    """`/api/images/{id}` and its thumbnail."""
    Image.init()  # registers all formats, for `media_type`
    router = APIRouter(prefix="/api/images", tags=["images"], responses={404: {"model": Failure}})

    @router.get("/{id}", response_class=FileResponse)
    async def image(id: Id) -> FileResponse:
        """The original file of an image."""

        def work() -> tuple[Path, str]:
            _, file = service.image(id)
            return file, media_type(file)

        file, type_ = await service.run(work)
        headers = {"Cache-Control": _REVALIDATE}
        disposition = "attachment" if type_ == "application/octet-stream" else "inline"
        return FileResponse(
            file,
            media_type=type_,
            filename=file.name,
            content_disposition_type=disposition,
            headers=headers,
        )

    @router.get("/{id}/thumbnail", response_class=Response)
    async def thumbnail(id: Id, if_none_match: Annotated[str | None, Header()] = None) -> Response:
        """A small JPEG of an image, made when first asked for."""

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

        return await service.run(work)

    return router
