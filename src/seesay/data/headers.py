"""The header of an image: its format, and how it was taken."""

from __future__ import annotations

import io
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
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
_RAW_HEAD = 1 << 16  # bytes that hold the tags by which raw photos are recognised
_MOST_EXIF = 100  # blocks, which Pillow joins one by one; a photo has one, and one in each photo inside
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
        ImageError: not an image, damaged, or of more than `max_pixels`.
        UnavailableImageError: there is not enough memory now, or the system fails otherwise.
    """
    if not data:
        raise ImageError(f"{name}: empty, 0 bytes.")
    if data.count(b"Exif\0\0") > _MOST_EXIF:
        raise ImageError(f"{name}: more than {_MOST_EXIF} blocks of EXIF; save the image again.")
    too_many = ImageError(f"{name}: more than {max_pixels} pixels; make it smaller first.")
    with reading(name):
        try:
            image = Image.open(io.BytesIO(data), formats=_formats())
        except Image.DecompressionBombError as error:
            raise too_many from error
    if image.width * image.height > max_pixels:
        raise too_many
    return image


@contextmanager
def reading(name: str) -> Iterator[None]:
    """Convert errors: Pillow's plugins raise nearly anything on damaged files."""
    try:
        yield
    except ImageError:
        raise
    except Exception as error:
        if isinstance(error, MemoryError) or "out of memory" in str(error):
            raise UnavailableImageError(f"{name}: not enough memory to decode it now.") from error
        if isinstance(error, OSError) and error.errno is not None:  # of the system
            raise UnavailableImageError(f"{name}: cannot be decoded now ({error}).") from error
        if isinstance(error, UnidentifiedImageError):  # whose message has the address of a BytesIO
            raise ImageError(f"{name}: unsupported or damaged (unknown format).") from error
        raise ImageError(f"{name}: truncated or damaged ({first_line(error).rstrip('.')}).") from error


def file_format(file: FileIO) -> str | None:
    """Return the format of an image file by its first bytes, such as "PNG" or "RAW"; None for other files."""
    name = str(file.name)
    may_be_raw = Path(name).suffix.lower() in RAW_SUFFIXES
    try:
        file.seek(0)
        head = file.read(_RAW_HEAD if may_be_raw else SIGNATURE_BYTES)
        file.seek(0)
    except OSError:
        return None
    return "RAW" if may_be_raw and is_raw(head, name) else format_of(head)


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
        ("aperture", _filled("f/{:g}", _number(tags.get(_Exif.FNumber)))),
        ("iso", _filled("{:g}", _number(tags.get(_Exif.ISOSpeedRatings)))),
        ("focal", _filled("{:g} mm", _number(tags.get(_Exif.FocalLength)))),
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


def _filled(form: str, number: float | None) -> str:
    return "" if number is None else form.format(number)


def _exposure(seconds: float | None) -> str:
    if seconds is None or seconds >= 0.3:
        return _filled("{:g} s", seconds)
    return f"{Fraction(1, max(1, round(1 / seconds)))} s"


@cache
def _formats() -> tuple[str, ...]:
    """The formats that this build of Pillow has; it raises KeyError for others."""
    import pillow_heif  # takes longer to load than most photos take to open

    Image.init()
    pillow_heif.register_heif_opener(thumbnails=False)
    return tuple(name for name in FORMATS if name in Image.OPEN)
