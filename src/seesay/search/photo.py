"""A photo of an index, its thumbnail, the folder that it is in, and its date.

The date is by its camera, its name, or else its file.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import NamedTuple

from seesay.data.images import DecodedImage

THUMBNAIL_HEIGHT = 440
"""Pixels: twice the height of a row of the page, for screens of double density."""

# The year comes first and has four digits, so that the day is not ambiguous; the time may follow.
_DATE = re.compile(r"(?<!\d)((?:19|20)\d\d)([-_. ]?)([01]\d)\2([0-3]\d)(?!\d(?!\d{5}))")
_LONGEST, _LONGEST_NAME = 4096, 255  # bytes of a path with its final zero, and of each part, on Linux
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
        width: in pixels, upright.
        height: in pixels, upright.
        time: such as "2019-06-30T12:00:00".
        dated_by: what the time is of: the "camera" that took it; the "name" of its file, see `time_in_name`;
            or else the "file", by its last change in UTC.
        state: of its file when it was indexed.
    """

    id: int
    path: str
    key: str
    width: int
    height: int
    time: str
    dated_by: str
    state: FileState


@dataclass(frozen=True, slots=True)
class Root:
    """A folder of images.

    Attributes:
        name: the first part of its paths in the index; empty if it is the index's only folder, so that paths
            are relative to it.
        folder: its location; it need not exist now.
        seal: the seal of the user who indexed it, see `seesay.seal`.

    Example:
        >>> from pathlib import Path
        >>> from seesay.search.photo import Root
        >>> Root("italy", Path("/photos/italy")).path("rome/forum.jpg")
        'italy/rome/forum.jpg'
    """

    name: str
    folder: Path
    seal: str = ""

    @property
    def title(self) -> str:
        """Its name, or that of its folder."""
        return self.name or self.folder.name

    def path(self, relative: str) -> str:
        """Return the path in the index of a path in the folder."""
        return f"{self.name}/{relative}" if self.name else relative

    def holds(self, path: str) -> bool:
        """Return whether a path of the index belongs to this root."""
        return not self.name or path.startswith(f"{self.name}/")

    def file(self, path: str) -> Path:
        """Return the file of a path of this root."""
        return self.folder / path[len(self.name) + 1 if self.name else 0 :]


def root_of(roots: Iterable[Root], path: str) -> Root | None:
    """Return the root of a path of the index, or None."""
    return next((root for root in roots if root.holds(path)), None)


def shown_path(roots: Iterable[Root], path: str) -> str:
    """Return the file of a path of the index, or the path itself if its root is unknown."""
    root = root_of(roots, path)
    return str(root.file(path)) if root else path


def is_possible(path: Path) -> bool:
    """Return whether an absolute path is valid on this system; it need not exist."""
    # Disks are not accessed: the index is locked meanwhile, and one may be missing.
    try:
        whole, *names = (os.fsencode(part) for part in (str(path), *path.parts))
    except UnicodeEncodeError:
        return False
    # Windows has other limits; a path that it refuses is later reported as absent.
    fits = os.name == "nt" or (len(whole) < _LONGEST and max(map(len, names), default=0) <= _LONGEST_NAME)
    return path.is_absolute() and fits and b"\0" not in whole


def thumbnail_of(photo: DecodedImage) -> bytes:
    """Return an upright JPEG, at most `THUMBNAIL_HEIGHT` high and four times as wide; no photo grows."""
    import cv2
    import simplejpeg

    height, width = photo.pixels.shape[:2]
    scale = min(1.0, THUMBNAIL_HEIGHT / height, 4 * THUMBNAIL_HEIGHT / width)
    size = max(1, round(scale * width)), max(1, round(scale * height))
    # Down to half the size, linear interpolation uses every pixel, and takes an eighth of the time.
    how = cv2.INTER_AREA if scale < 0.5 else cv2.INTER_LINEAR
    small = photo.pixels if scale == 1 else cv2.resize(photo.pixels, size, interpolation=how)
    encoded: bytes = simplejpeg.encode_jpeg(small, quality=82, colorsubsampling="420")
    return encoded


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
