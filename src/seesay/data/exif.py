"""How a photo was taken, as its EXIF says, in words for people."""

from __future__ import annotations

import re
from collections.abc import Mapping
from contextlib import suppress
from datetime import datetime
from fractions import Fraction
from pathlib import Path
from typing import Any

from PIL import ExifTags, Image

from seesay.data.headers import opened_header

_MAX_CHARACTERS = 100
_Exif = ExifTags.Base
_TIME = re.compile(r"[0-9]{4}(:[0-9]{2}){2} [0-9]{2}(:[0-9]{2}){2}")


def tags_of(exif: Image.Exif) -> dict[int, Any]:
    """Return the tags of a photo by number, with those of its exposure; raise anything if damaged."""
    return {**exif, **exif.get_ifd(ExifTags.IFD.Exif)}


def time_of(tags: Mapping[int, Any]) -> str:
    """Return when a photo was taken, in the camera's time; "" if its tags do not say.

    >>> time_of({ExifTags.Base.DateTimeOriginal: "2019:06:30 12:00:00"})
    '2019-06-30T12:00:00'
    """
    for tag in (_Exif.DateTimeOriginal, _Exif.DateTimeDigitized):
        if found := _TIME.match(str(tags.get(tag, ""))):
            with suppress(ValueError):  # the 30th of February
                return datetime.strptime(found[0], "%Y:%m:%d %H:%M:%S").isoformat()
    return ""


def facts_of(file: Path) -> dict[str, str]:
    """Read camera, lens, exposure, aperture, ISO, focal length and time; only what the file says.

    Nothing is decoded: of a PNG only what stands before its pixels counts. Places are left out: who shows a
    photo seldom means to say where they live.
    """
    try:
        with opened_header(file) as image:
            # Pillow's own way to ask a PNG decodes it, since the chunk may come after the pixels.
            return dict(_facts(tags_of(Image.Image.getexif(image))))
    except Exception:  # Pillow's plugins raise nearly anything on damaged files
        return {}


def _facts(tags: Mapping[int, Any]) -> list[tuple[str, str]]:
    make, model = _text(tags.get(_Exif.Make)), _text(tags.get(_Exif.Model))
    camera = model if model.lower().startswith(make.lower().split(" ")[0]) else f"{make} {model}".strip()
    facts = [
        ("taken", time_of(tags)),
        ("camera", camera),
        ("lens", _text(tags.get(_Exif.LensModel))),
        ("exposure", _exposure(_number(tags.get(_Exif.ExposureTime)))),
        ("aperture", _with_unit("f/", _number(tags.get(_Exif.FNumber)), "")),
        ("iso", _with_unit("", _number(tags.get(_Exif.ISOSpeedRatings)), "")),
        ("focal", _with_unit("", _number(tags.get(_Exif.FocalLength)), " mm")),
    ]
    return [(name, value) for name, value in facts if value]


def _text(value: object) -> str:
    """One line of what a camera wrote, however strange."""
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
