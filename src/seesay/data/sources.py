"""Where the encoded bytes of an image lie: a file, or a member of a tar that is never extracted."""

from __future__ import annotations

import os
import tarfile
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from seesay.errors import ImageError, SeesayError

MAX_BYTES = 1 << 29
"""The largest encoded image that is read, half a GiB: above it, the file is no photograph."""


@dataclass(frozen=True, slots=True)
class FileSource:
    """One image in a file of its own."""

    path: Path

    def read(self) -> bytes:
        """The encoded image.

        Raises:
            ImageError: the file is missing, unreadable or larger than MAX_BYTES.
        """
        try:
            size = self.path.stat().st_size
            if size > MAX_BYTES:
                raise ImageError(f"{self.path}: {size} bytes; at most {MAX_BYTES} are read.")
            return self.path.read_bytes()
        except OSError as error:
            raise ImageError(f"{self.path}: cannot be read ({error.strerror}).") from error


@dataclass(frozen=True, slots=True)
class TarMember:
    """`size` bytes from `offset` of an uncompressed tar; any number of threads may read at once."""

    path: Path
    offset: int
    size: int

    def read(self) -> bytes:
        """The member's bytes.

        Raises:
            ImageError: the tar is missing, unreadable or shorter than when it was indexed.
        """
        if self.size > MAX_BYTES:
            raise ImageError(f"{self.path}: a member of {self.size} bytes; at most {MAX_BYTES} are read.")
        try:
            handle = os.open(self.path, os.O_RDONLY)
            try:
                data = os.pread(handle, self.size, self.offset)
            finally:
                os.close(handle)
        except OSError as error:
            raise ImageError(f"{self.path}: cannot be read ({error.strerror}).") from error
        if len(data) != self.size:
            raise ImageError(
                f"{self.path}: ends at {len(data)} of {self.size} bytes of the member at {self.offset}."
            )
        return data


def tar_members(path: Path, limit: int | None = None) -> dict[str, TarMember]:
    """Index a tar by reading its headers alone; keys are member paths, without a leading `./`.

    Folders, links to nowhere, hidden files (`.DS_Store`, `._name`) and pax leftovers are left out;
    of members with one name the last counts, as in tar itself. With `limit`, only the first
    so many headers are read.

    Raises:
        SeesayError: the file is no tar, is compressed, or ends too early.
    """
    members: dict[str, TarMember] = {}
    try:
        with tarfile.open(path, "r:") as tar:
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
    except (tarfile.TarError, ValueError, EOFError) as error:
        raise SeesayError(
            f"{path}: not a whole, uncompressed tar ({error}); decompress it, or copy it again."
        ) from error
    return members


def _plain_name(name: str) -> str | None:
    """The member's path as a corpus writes it, or None for what no corpus lists."""
    parts = PurePosixPath(name).parts
    if not parts or any(part.startswith((".", "PaxHeader")) or part == "__MACOSX" for part in parts):
        return None
    return "/".join(part for part in parts if part != "/")
