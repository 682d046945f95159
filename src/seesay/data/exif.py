"""How a photo was taken, as its EXIF says, in words for people."""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction
from pathlib import Path
from typing import Any

from PIL import ExifTags

from seesay.data.images import opened_header, taken_at

_MAX_CHARACTERS = 100
_Exif = ExifTags.Base


def facts_of(file: Path) -> dict[str, str]:
    """Read camera, lens, exposure, aperture, ISO, focal length and time; only what the file says.

    Places are left out: who shows a photo seldom means to say where they live.
    """
    try:
        with opened_header(file) as image:
            exif = image.getexif()
            tags: dict[int, Any] = {**exif, **exif.get_ifd(ExifTags.IFD.Exif)}
        found = dict(_facts(tags))
    except Exception:  # Pillow's plugins raise nearly anything on damaged files
        found = {}
    taken = taken_at(file)
    return ({"taken": taken} if taken else {}) | found


def _facts(tags: Mapping[int, Any]) -> list[tuple[str, str]]:
    make, model = _text(tags.get(_Exif.Make)), _text(tags.get(_Exif.Model))
    camera = model if model.lower().startswith(make.lower().split(" ")[0]) else f"{make} {model}".strip()
    facts = [
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
