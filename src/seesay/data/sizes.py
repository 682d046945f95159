"""Sizes of images as they are seen: after EXIF rotation, from their first bytes where these suffice."""

from __future__ import annotations

import io
from dataclasses import replace

from PIL import ExifTags, Image

from seesay.data.corpus import ByteSource
from seesay.data.pixels import read_header
from seesay.data.sources import FileSource, TarMember
from seesay.errors import ImageError

_HEAD = 1 << 16  # bytes; holds the header of nearly every JPEG, EXIF thumbnail included


def upright_size(data: bytes, name: str) -> tuple[int, int]:
    """Width and height in pixels as the image is seen.

    Raises:
        ImageError: not an image.
    """
    header = read_header(data, name)
    try:
        with Image.open(io.BytesIO(data), formats=[header.format]) as image:
            # Of a TIFF, Pillow gives the upright size already.
            turned = image.format != "TIFF" and image.getexif().get(ExifTags.Base.Orientation, 1) in range(
                5, 9
            )
    except Exception:  # a damaged EXIF block raises nearly anything, and turns nothing
        turned = False
    return (header.height, header.width) if turned else (header.width, header.height)


def source_size(source: ByteSource, name: str) -> tuple[int, int]:
    """The same of an image where it lies; seldom are all its bytes read.

    Raises:
        ImageError: missing, or no image.
    """
    try:
        return upright_size(_head(source), name)
    except ImageError:
        return upright_size(source.read(), name)


def _head(source: ByteSource) -> bytes:
    if isinstance(source, TarMember):
        return replace(source, size=min(source.size, _HEAD)).read()
    if isinstance(source, FileSource):
        try:
            with source.path.open("rb") as handle:
                return handle.read(_HEAD)
        except OSError as error:
            raise ImageError(f"{source.path}: cannot be read ({error.strerror}).") from error
    return source.read()
