"""Where the encoded bytes of an image are."""

from __future__ import annotations

import tarfile
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from seesay.data.corpus import ByteSource
from seesay.data.headers import HEAD, read_range
from seesay.data.images import EncodedImage
from seesay.data.raw import is_raw
from seesay.errors import ImageError, SeesayError, UnavailableImageError, first_line

MAX_BYTES = 1 << 29  # of an encoded image: a larger file is not a photograph


@dataclass(frozen=True, slots=True)
class FileSource:
    """One image in a file of its own."""

    path: Path

    def read(self, limit: int | None = None) -> bytes:
        """Return the file's bytes, or the first `limit`.

        Raises:
            ImageError: the path is invalid, or the file is too large.
            UnavailableImageError: the file cannot be read.
        """
        most = MAX_BYTES + 1 if limit is None else limit
        try:
            size = self.path.stat().st_size
            data = b"" if size > MAX_BYTES else read_range(self.path, 0, most)
        except OSError as error:
            raise UnavailableImageError(f"{self.path}: cannot be read ({error.strerror}).") from error
        except ValueError as error:
            raise ImageError(f"{self.path}: cannot be a path ({first_line(error)}).") from error
        if max(size, len(data)) > MAX_BYTES:
            raise ImageError(f"{self.path}: at most {MAX_BYTES} bytes are read, and it has more.")
        return data


@dataclass(frozen=True, slots=True)
class TarMember:
    """`size` bytes from `offset` of an uncompressed tar; any number of threads may read at once."""

    path: Path
    offset: int
    size: int

    def read(self, limit: int | None = None) -> bytes:
        """Return the member's bytes, or the first `limit`; raise ImageError if they cannot be read."""
        if self.size > MAX_BYTES:
            raise ImageError(f"{self.path}: a member of {self.size} bytes; at most {MAX_BYTES} are read.")
        size = self.size if limit is None else min(self.size, limit)
        try:
            data = read_range(self.path, self.offset, size)
        except OSError as error:
            raise UnavailableImageError(f"{self.path}: cannot be read ({error.strerror}).") from error
        if len(data) != size:
            raise ImageError(
                f"{self.path}: ends at {len(data)} of {size} bytes of the member at {self.offset}."
            )
        return data


def tar_members(path: Path, limit: int | None = None) -> dict[str, TarMember]:
    """Index a tar by its headers alone; keys are member paths, without a leading `./`.

    Folders, symbolic links, hard links to absent members, sparse files, hidden files (`.DS_Store`, `._name`)
    and pax leftovers are left out. Of members with one name the last counts, as in tar itself. With `limit`,
    only the first headers are read.

    Raises:
        SeesayError: the file cannot be read, is not a tar, is compressed, or ends too early.
    """
    members: dict[str, TarMember] = {}
    try:
        with path.open("rb") as file, tarfile.open(fileobj=file, mode="r:") as tar:
            size = path.stat().st_size
            for position, info in enumerate(tar):
                name = _plain_name(info.name)
                if limit is not None and position >= limit:
                    break
                if name is None:
                    continue
                if info.islnk() and (target := _plain_name(info.linkname)) in members:
                    members[name] = members[target]
                elif info.isreg() and info.sparse is None:
                    if not 0 <= info.size <= size - info.offset_data:
                        raise tarfile.ReadError(f"'{name}' reaches past the end")
                    members[name] = TarMember(path, info.offset_data, info.size)
    except OSError as error:
        raise SeesayError(f"{path}: cannot be read ({error.strerror}).") from error
    except (tarfile.TarError, ValueError, EOFError, RecursionError) as error:  # the last: many headers
        raise SeesayError(
            f"{path}: not a whole, uncompressed tar ({error}); decompress it, or copy it again."
        ) from error
    return members


def _plain_name(name: str) -> str | None:
    """The member's path as a corpus writes it; None for files that no corpus lists."""
    parts = PurePosixPath(name).parts
    if not parts or any(part.startswith((".", "PaxHeader")) or part == "__MACOSX" for part in parts):
        return None
    return "/".join(part for part in parts if part != "/")


def source_size(source: ByteSource, name: str) -> tuple[int, int]:
    """Read the upright size of an image from its first bytes, or from all if these do not suffice."""
    head = source.read(HEAD)
    if not is_raw(head, name):
        with suppress(ImageError):
            image = EncodedImage(head, name)
            if image.format != "PNG" or len(head) < HEAD:  # its EXIF may follow the pixels
                return image.size
    return EncodedImage(source.read(), name).size
