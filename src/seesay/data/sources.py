"""Where the encoded bytes of an image are."""

from __future__ import annotations

import os
from dataclasses import dataclass
from io import FileIO
from pathlib import Path
from typing import TypeAlias

from seesay.errors import ImageError, UnavailableImageError, first_line
from seesay.paths import open_file

MAX_BYTES = 1 << 29  # of an encoded image: a larger file is not a photograph


@dataclass(frozen=True, slots=True)
class MemorySource:
    """An encoded image in memory."""

    data: bytes

    def read(self) -> bytes:
        """Return the encoded image."""
        return self.data


@dataclass(frozen=True, slots=True)
class FileSource:
    """One image in a file of its own, which must not leave the folder `inside`, if one is given."""

    path: Path
    inside: Path | None = None

    def open(self) -> FileIO:
        """Open the file; see `open_file`, also for the errors of the system that it raises."""
        return open_file(self.path, self.inside)

    def read(self) -> bytes:
        """Return the file's bytes.

        Raises:
            ImageError: the path is invalid, or the file is too large.
            UnavailableImageError: the file cannot be read.
        """
        try:
            with self.open() as file:
                return read_image(file)
        except OSError as error:
            raise UnavailableImageError(f"{self.path}: cannot be read ({error.strerror}).") from error
        except ValueError as error:
            raise ImageError(f"{self.path}: cannot be a path ({first_line(error)}).") from error


Source: TypeAlias = FileSource | MemorySource


def read_image(file: FileIO) -> bytes:
    """Return the bytes of an opened file from its beginning.

    Raises:
        ImageError: it is too large.
        OSError: it cannot be read.
    """
    file.seek(0)
    if os.fstat(file.fileno()).st_size > MAX_BYTES:
        raise ImageError(f"{file.name}: at most {MAX_BYTES} bytes are read, and it has more.")
    return file.readall()
