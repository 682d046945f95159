"""A photo from file to index: the state of its file, its content, and what the index keeps of it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple


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
