"""What a photo's EXIF says: when and how it was taken."""

from __future__ import annotations

import re
from contextlib import suppress
from datetime import datetime
from typing import Any

from PIL import ExifTags, Image

_Exif = ExifTags.Base
_MAX_CHARACTERS = 100
_TIME = re.compile(r"[0-9]{4}(:[0-9]{2}){2} [0-9]{2}(:[0-9]{2}){2}")


def facts_of(exif: Image.Exif) -> dict[str, str]:
    """Return time, camera, lens, exposure, aperture, ISO and focal length, as far as known.

    GPS positions are omitted, because people who share photos seldom mean to reveal where they live. The
    time is the camera's. Damaged EXIF raises any error.
    """
    tags = {**exif, **exif.get_ifd(ExifTags.IFD.Exif)}
    make, model = _text(tags.get(_Exif.Make)), _text(tags.get(_Exif.Model))
    camera = model if model.lower().startswith(make.lower().split(" ")[0]) else f"{make} {model}".strip()
    exposure = _filled("{:g}", tags.get(_Exif.ExposureTime))
    if exposure:
        seconds = float(exposure)
        exposure = f"1/{round(1 / seconds)}" if seconds < 0.3 else f"{round(seconds, 1):g}"
    found = {
        "taken": _time(tags.get(_Exif.DateTimeOriginal)) or _time(tags.get(_Exif.DateTimeDigitized)),
        "camera": camera,
        "lens": _text(tags.get(_Exif.LensModel)),
        "exposure": exposure and f"{exposure} s",
        "aperture": _filled("f/{:g}", tags.get(_Exif.FNumber)),
        "iso": _filled("{:g}", tags.get(_Exif.ISOSpeedRatings)),
        "focal": _filled("{:g} mm", tags.get(_Exif.FocalLength)),
    }
    return {name: value for name, value in found.items() if value}


def _time(value: object) -> str:
    """Return a tag's time as ISO 8601 has it; "" for none, such as 30 February.

    >>> _time("2019:06:30 12:00:00")
    '2019-06-30T12:00:00'
    """
    with suppress(ValueError):
        if found := _TIME.match(str(value)):
            return datetime.strptime(found[0], "%Y:%m:%d %H:%M:%S").isoformat()
    return ""


def _text(value: object) -> str:
    """A tag's text as one line of at most 100 printable characters."""
    text = value.decode("utf-8", "replace") if isinstance(value, bytes) else str(value or "")
    return " ".join("".join(letter for letter in text if letter.isprintable()).split())[:_MAX_CHARACTERS]


def _filled(form: str, value: Any) -> str:
    """A tag's number in that form; "" for none that is positive."""
    with suppress(TypeError, ValueError, ZeroDivisionError):
        number = float(value[0] if isinstance(value, tuple) and value else value)
        return form.format(number) if 0 < number < 1e9 else ""
    return ""
