"""Sizes of images, from their first bytes where these suffice."""

from __future__ import annotations

import io
from dataclasses import replace

from PIL import ExifTags, Image

from seesay.data.corpus import ByteSource
from seesay.data.pixels import read_header
from seesay.data.sources import FileSource, TarMember
from seesay.errors import ImageError

_HEAD = 1 << 16  # bytes; holds the header of nearly every JPEG, EXIF thumbnail included


def upright_size(source: ByteSource, name: str) -> tuple[int, int]:
    """Width and height in pixels of the image as it is decoded, that is, after EXIF rotation.

    Raises:
        ImageError: missing, or no image.
    """
    try:
        return _size(_head(source), name)
    except ImageError:
        return _size(source.read(), name)


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


def _size(data: bytes, name: str) -> tuple[int, int]:
    header = read_header(data, name)
    try:
        image = Image.open(io.BytesIO(data), formats=[header.format])
        turned = image.getexif().get(ExifTags.Base.Orientation, 1) in (5, 6, 7, 8)
    except Exception:  # damaged EXIF turns nothing, as when the pixels are decoded
        turned = False
    return (header.height, header.width) if turned else (header.width, header.height)
