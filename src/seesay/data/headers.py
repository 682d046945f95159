"""The header of an image, read in bounded time: its format, and how it was taken."""

from __future__ import annotations

import io
import re
from collections.abc import Mapping
from contextlib import suppress
from datetime import datetime
from fractions import Fraction
from functools import cache
from io import FileIO
from pathlib import Path
from typing import Any

from PIL import ExifTags, Image, UnidentifiedImageError

from seesay.data.raw import is_raw
from seesay.data.suffixes import FORMATS, RAW_SUFFIXES, SIGNATURE_BYTES, format_of
from seesay.errors import ImageError, UnavailableImageError, first_line

MAX_PIXELS = 178_956_970  # width × height; Pillow's decompression bomb guard raises above it, too

HEAD = 1 << 16
"""Bytes that hold the header of nearly every JPEG, EXIF thumbnail included."""

# Before the first frame. A JPEG takes four reads a segment, and may have hundreds of segments if it contains
# another photo, as panoramas do. Pillow joins EXIF segments, and copies what it has at each of them.
_MAX_READS = 4000
_MAX_BYTES = 16 << 20

_Exif = ExifTags.Base
_MAX_CHARACTERS = 100
_TIME = re.compile(r"[0-9]{4}(:[0-9]{2}){2} [0-9]{2}(:[0-9]{2}){2}")


def parse_header(data: bytes, name: str, max_pixels: int = MAX_PIXELS) -> Image.Image:
    """Open an encoded image (not a raw photo) without decoding it.

    Args:
        data: the encoded image.
        name: what error messages call it.
        max_pixels: the largest width × height that is accepted.

    Raises:
        ImageError: not an image, damaged, of more than `max_pixels`, or with a header designed to take long.
        UnavailableImageError: there is not enough memory now, or the system fails otherwise.
    """
    if not data:
        raise ImageError(f"{name}: empty, 0 bytes.")
    try:
        image = open_bounded(data)
    except Image.DecompressionBombError as error:
        raise ImageError(f"{name}: more than {max_pixels} pixels; make it smaller first.") from error
    except MemoryError as error:
        raise UnavailableImageError(f"{name}: not enough memory to read it now.") from error
    except Exception as error:
        if is_of_system(error):
            raise UnavailableImageError(f"{name}: cannot be read now ({error}).") from error
        if isinstance(error, _TooLongError):
            raise ImageError(f"{name}: its header is designed to take long; save the image again.") from error
        raise ImageError(f"{name}: unsupported or damaged ({reason_of(error)}).") from error
    if image.width * image.height > max_pixels:
        raise ImageError(
            f"{name}: {image.width}×{image.height}, more than {max_pixels} pixels; make it smaller first."
        )
    return image


def file_format(file: FileIO) -> str | None:
    """Return the format of an image file by its first bytes, such as "PNG" or "RAW"; None for other files."""
    name = str(file.name)
    may_be_raw = Path(name).suffix.lower() in RAW_SUFFIXES
    try:
        file.seek(0)
        head = file.read(HEAD if may_be_raw else SIGNATURE_BYTES)
        file.seek(0)
    except OSError:
        return None
    return "RAW" if may_be_raw and is_raw(head, name) else format_of(head)


def open_bounded(data: bytes) -> Image.Image:
    """Open an encoded image with Pillow; raise any error, also for a header designed to take long."""
    file = _Bounded(io.BytesIO(data))
    image = Image.open(file, formats=_formats())
    file.is_header = False
    return image


def stated_size(data: bytes) -> int:
    """Return the size in bytes that a WebP or HEIC file states; 0 for other files.

    In an AVIF file the pixels come last, and its decoder may conceal that they are cut off.
    """
    if data[:4] == b"RIFF":
        return 8 + int.from_bytes(data[4:8], "little")
    end = 0
    while data[4:8] == b"ftyp" and b"avi" not in data[8:64] and end < len(data):
        size = int.from_bytes(data[end : end + 4], "big")
        if size < 8:  # up to the end of the file, or in 64 bits
            return 0
        end += size
    return end


def is_of_system(error: Exception) -> bool:
    """Return whether the error is the system's, such as too many open files, and not the image's.

    Pillow loads its plugins when they are first needed, which may fail.
    """
    return isinstance(error, OSError) and error.errno is not None


def reason_of(error: Exception) -> str:
    """Return a decoder's error message, without the address of a BytesIO in it."""
    if isinstance(error, UnidentifiedImageError):
        return "unknown format"
    return first_line(error).rstrip(".")


def tags_of(exif: Image.Exif) -> dict[int, Any]:
    """Return the tags of a photo by number, including the Exif directory; raise any error if damaged."""
    return {**exif, **exif.get_ifd(ExifTags.IFD.Exif)}


def time_of(tags: Mapping[int, Any]) -> str:
    """Return when a photo was taken, in the camera's time; "" if its tags do not say.

    >>> time_of({ExifTags.Base.DateTimeOriginal: "2019:06:30 12:00:00"})
    '2019-06-30T12:00:00'
    """
    for tag in (_Exif.DateTimeOriginal, _Exif.DateTimeDigitized):
        if found := _TIME.match(str(tags.get(tag, ""))):
            with suppress(ValueError):  # such as 30 February
                return datetime.strptime(found[0], "%Y:%m:%d %H:%M:%S").isoformat()
    return ""


def facts(tags: Mapping[int, Any]) -> dict[str, str]:
    """Return time, camera, lens, exposure, aperture, ISO and focal length, as far as known.

    GPS positions are omitted, because people who share photos seldom mean to reveal where they live.
    """
    make, model = _text(tags.get(_Exif.Make)), _text(tags.get(_Exif.Model))
    camera = model if model.lower().startswith(make.lower().split(" ")[0]) else f"{make} {model}".strip()
    found = [
        ("taken", time_of(tags)),
        ("camera", camera),
        ("lens", _text(tags.get(_Exif.LensModel))),
        ("exposure", _exposure(_number(tags.get(_Exif.ExposureTime)))),
        ("aperture", _with_unit("f/", _number(tags.get(_Exif.FNumber)), "")),
        ("iso", _with_unit("", _number(tags.get(_Exif.ISOSpeedRatings)), "")),
        ("focal", _with_unit("", _number(tags.get(_Exif.FocalLength)), " mm")),
    ]
    return {name: value for name, value in found if value}


def _text(value: object) -> str:
    """A tag's text as one line of at most 100 printable characters."""
    text = value.decode("utf-8", "replace") if isinstance(value, bytes) else str(value or "")
    return " ".join("".join(letter for letter in text if letter.isprintable()).split())[:_MAX_CHARACTERS]


def _number(value: Any) -> float | None:
    value = value[0] if isinstance(value, tuple) and value else value
    try:
        number = float(value)
    except (TypeError, ValueError, ZeroDivisionError):
        return None
    return number if 0 < number < 1e9 else None


def _with_unit(before: str, number: float | None, after: str) -> str:
    return "" if number is None else f"{before}{number:g}{after}"


def _exposure(seconds: float | None) -> str:
    if seconds is None:
        return ""
    if seconds >= 0.3:
        return f"{seconds:g} s"
    return f"{Fraction(1, max(1, round(1 / seconds)))} s"


@cache
def _formats() -> tuple[str, ...]:
    """The formats that this build of Pillow has; it raises KeyError for others."""
    import pillow_heif  # takes longer to load than most photos take to open

    Image.init()
    pillow_heif.register_heif_opener(thumbnails=False)
    return tuple(name for name in FORMATS if name in Image.OPEN)


class _TooLongError(Exception):
    """The header would take more reads or bytes than allowed."""


class _Bounded(io.BufferedReader):
    """An encoded image with limits on the reads, and their bytes, before the first frame."""

    def __init__(self, raw: Any) -> None:
        super().__init__(raw, HEAD)
        self.is_header = True
        self._reads, self._bytes = _MAX_READS, _MAX_BYTES

    def read(self, size: int | None = -1, /) -> bytes:
        if self.is_header and size is not None and size >= 0:  # some plugins read the whole file at once
            self._reads, self._bytes = self._reads - 1, self._bytes - size
            if min(self._reads, self._bytes) < 0:
                raise _TooLongError
        return super().read(size)
