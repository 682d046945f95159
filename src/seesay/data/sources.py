"""Where the encoded bytes of an image are."""

from __future__ import annotations

import os
from contextlib import suppress
from dataclasses import dataclass
from io import BufferedReader, FileIO
from pathlib import Path
from typing import TYPE_CHECKING

from seesay.data.headers import HEAD, stated_size
from seesay.data.images import EncodedImage
from seesay.data.raw import is_raw
from seesay.errors import ImageError, UnavailableImageError, first_line
from seesay.paths import open_file

if TYPE_CHECKING:
    from seesay.data.corpus import ByteSource

MAX_BYTES = 1 << 29  # of an encoded image: a larger file is not a photograph


@dataclass(frozen=True, slots=True)
class FileSource:
    """One image in a file of its own, which must not leave the folder `inside`, if one is given."""

    path: Path
    inside: Path | None = None

    def open(self) -> FileIO:
        """Open the file; see `open_file`, also for the errors of the system that it raises."""
        return open_file(self.path, self.inside)

    def read(self, limit: int | None = None) -> bytes:
        """Return the file's bytes, or the first `limit`.

        Raises:
            ImageError: the path is invalid, or the file is too large.
            UnavailableImageError: the file cannot be read.
        """
        try:
            with self.open() as file:
                return read_image(file, limit)
        except OSError as error:
            raise UnavailableImageError(f"{self.path}: cannot be read ({error.strerror}).") from error
        except ValueError as error:
            raise ImageError(f"{self.path}: cannot be a path ({first_line(error)}).") from error


def read_image(file: FileIO, limit: int | None = None) -> bytes:
    """Return the bytes of an opened file from its beginning, or the first `limit`.

    Raises:
        ImageError: it is too large.
        OSError: it cannot be read.
    """
    file.seek(0)
    buffered = BufferedReader(file)
    size = os.fstat(file.fileno()).st_size
    data = b"" if size > MAX_BYTES else buffered.read(MAX_BYTES + 1 if limit is None else limit)
    buffered.detach()
    if max(size, len(data)) > MAX_BYTES:
        raise ImageError(f"{file.name}: at most {MAX_BYTES} bytes are read, and it has more.")
    return data


def source_size(source: ByteSource, name: str) -> tuple[int, int]:
    """Read the upright size of an image from its first bytes, or from all if these do not suffice."""
    head = source.read(HEAD)
    if not is_raw(head, name) and stated_size(head) <= len(head):
        with suppress(ImageError):
            image = EncodedImage(head, name)
            if image.format != "PNG" or len(head) < HEAD:  # its EXIF may follow the pixels
                return image.size
    return EncodedImage(source.read(), name).size
