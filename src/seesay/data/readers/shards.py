"""Plain tar archives, such as the shards of a WebDataset, whose files are read without unpacking them."""

from __future__ import annotations

import os
import re
import tarfile
import zlib
from collections.abc import Iterator
from io import BufferedReader
from pathlib import Path, PurePosixPath
from typing import BinaryIO, cast

from seesay.data.formats import unpacking
from seesay.data.images import TarSource
from seesay.data.walk import is_hidden
from seesay.errors import SeesayError, first_line
from seesay.paths import open_file

SHARD = ".tar"
_LONGEST_HEADER = 1 << 20  # bytes of names and attributes
_MOST_GLOBAL = 64  # attributes of all files (pax global headers), which tarfile copies for each file
_DIGITS = re.compile(rb"[0-9]{256}")  # in a row, for which Pythons before 3.11.10 take quadratic time
_LABEL = b"V"  # the type of an archive's name, as GNU tar writes it
_AT_ONCE = 1 << 16  # bytes
_DAMAGED = (tarfile.TarError, ValueError, ArithmeticError, LookupError, RecursionError)


def members_of(shard: Path) -> Iterator[tuple[Path, TarSource | None]]:
    """Iterate over the files of a tar archive, by the path that each has once it is unpacked.

    That is in a folder beside the archive, named like it. Hidden files are left out, as in a folder. Links
    and other files that have no bytes of their own, or not all, are None.

    Raises:
        SeesayError: it cannot be read, is not a plain tar archive, is cut off or damaged; after what precedes
            the damage.
    """
    count = 0
    try:
        with open_file(shard) as raw:
            headers, size = _Headers(BufferedReader(raw)), os.fstat(raw.fileno()).st_size
            with tarfile.open(fileobj=cast("BinaryIO", headers), mode="r:") as archive:
                while (member := archive.next()) is not None:
                    archive.members.clear()  # type: ignore[attr-defined]  # tarfile would keep all
                    if len(archive.pax_headers) > _MOST_GLOBAL:
                        raise tarfile.ReadError(f"more than {_MOST_GLOBAL} attributes of all files")
                    if member.size < 0 or archive.offset > size:
                        raise tarfile.ReadError(f"{member.name} ends outside the archive")
                    count += 1
                    names = [name for name in PurePosixPath(member.name).parts if name not in ("/", "..")]
                    if member.isdir() or member.type == _LABEL or not names or any(map(is_hidden, names)):
                        continue
                    part = None
                    if member.isreg() and not member.issparse():
                        crc = zlib.crc32(headers.latest)
                        part = TarSource(shard, "/".join(names), member.offset_data, member.size, crc)
                    yield shard.with_suffix("").joinpath(*names), part
                headers.check_end(archive.offset)
    except OSError as error:
        raise SeesayError(f"{shard}: cannot be read ({error.strerror}).") from error
    except _DAMAGED as error:
        what = f"damaged after {count} files" if count else "no plain tar archive"
        raise SeesayError(
            f"{shard}: {what} ({first_line(error)}); copy it again, or unpack it: {unpacking(shard)}"
        ) from error


class _Headers:
    """A file of which tarfile reads the headers: as it seeks over the files, it reads nothing else."""

    def __init__(self, file: BufferedReader) -> None:
        self.seek, self.tell, self.close, self._file = file.seek, file.tell, file.close, file
        self.latest = b""

    def read(self, size: int) -> bytes:
        if not 0 <= size <= _LONGEST_HEADER:
            raise tarfile.ReadError(f"a header of {size} bytes, of {_LONGEST_HEADER} at most")
        self.latest = self._file.read(size)
        if _DIGITS.search(self.latest):
            raise tarfile.ReadError("a header with a number of more than 255 digits")
        return self.latest

    def check_end(self, offset: int) -> None:
        """Raise an error unless zeros follow, since tarfile also stops at a header that is damaged."""
        self._file.seek(offset)
        if self._file.read(tarfile.BLOCKSIZE) != bytes(tarfile.BLOCKSIZE):
            raise tarfile.ReadError("its end is missing")
        while rest := self._file.read(_AT_ONCE):
            if rest.strip(b"\0"):
                raise tarfile.ReadError("more follows its end")
