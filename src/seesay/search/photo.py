"""A photo of an index, and its date: by its camera, else by the name of its file, else by the file."""

from __future__ import annotations

import re
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import NamedTuple

# The year comes first and has four digits, so that the day is not ambiguous; the time may follow.
_DATE = re.compile(r"(?<!\d)((?:19|20)\d\d)([-_. ]?)([01]\d)\2([0-3]\d)(?!\d(?!\d{5}))")
_MIDNIGHT = "00:00:00"
_TIME = re.compile(r"(?:[-_ T.]| at )?([0-2]\d)([-_.:h ]?)([0-5]\d)(?:\2|m)([0-5]\d)")


class FileState(NamedTuple):
    """The state of a file, which changes with its contents.

    A copy can keep size and modification time, but not `st_ctime_ns`.
    """

    mtime_ns: int
    size: int
    ctime_ns: int


@dataclass(frozen=True, slots=True)
class Photo:
    """A photo of an index.

    Attributes:
        id: its number.
        path: see `Root.path`, with `/`.
        key: its content key.
        folder: see `folded_folder`.
        width: in pixels, upright.
        height: in pixels, upright.
        time: such as "2019-06-30T12:00:00".
        dated_by: what the time is of: the "camera" that took it; the "name" of its file, see `time_in_name`;
            or else the "file", by its last change in UTC.
        added: when, in seconds since 1970.
        state: of its file when it was indexed.
    """

    id: int
    path: str
    key: str
    folder: str
    width: int
    height: int
    time: str
    dated_by: str
    added: float
    state: FileState


def dated(path: str, mtime_ns: int, taken: str) -> tuple[str, str]:
    """Return the `time` of a photo and its `dated_by`, given what its EXIF says (`EncodedImage.taken`)."""
    if taken:
        return taken, "camera"
    if named := time_in_name(path):
        return named, "name"
    try:
        changed = datetime.fromtimestamp(mtime_ns // 10**9, UTC)
    except (ValueError, OverflowError, OSError):  # a date that the system's clock does not represent
        changed = datetime.fromtimestamp(0, UTC)
    return changed.strftime("%Y-%m-%dT%H:%M:%S"), "file"


def time_in_name(path: str) -> str:
    """Return the date in the name of a file, with its time or midnight; "" if there is none.

    Two-digit years and dates that begin with the day are no dates: they can mean several.

    >>> time_in_name("2019/Screenshot_20240812-101207.png"), time_in_name("IMG-20190321-WA0042.jpg")
    ('2024-08-12T10:12:07', '2019-03-21T00:00:00')
    >>> time_in_name("PXL_20210704_123456789.jpg"), time_in_name("04-07-19.jpg"), time_in_name("IMG_2021.jpg")
    ('2021-07-04T12:34:56', '', '')
    """
    name = path.rpartition("/")[2]
    for found in _DATE.finditer(name):
        day, time = f"{found[1]}-{found[3]}-{found[4]}", _TIME.match(name, found.end())
        for clock in (f"{time[1]}:{time[3]}:{time[4]}" if time else _MIDNIGHT, _MIDNIGHT):
            with suppress(ValueError):  # such as 31 April, or 25 o'clock
                return datetime.fromisoformat(f"{day}T{clock}").isoformat()
    return ""
