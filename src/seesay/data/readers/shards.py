"""Plain tar archives, such as the shards of a WebDataset, whose files are read without unpacking them."""

from __future__ import annotations

import os
import tarfile
from collections.abc import Iterator
from io import FileIO
from pathlib import Path, PurePosixPath
from typing import BinaryIO, cast

from seesay.data.images import PartSource
from seesay.data.walk import is_hidden
from seesay.errors import SeesayError, first_line
from seesay.paths import open_file

SHARD = ".tar"
_LONGEST_HEADER = 1 << 14  # bytes: of names and attributes; older Pythons take quadratic time for them
_DAMAGED = (tarfile.TarError, OSError, ValueError, OverflowError, RecursionError)


def parts_of(shard: Path) -> Iterator[tuple[Path, PartSource]]:
    """Iterate over the regular files of a tar archive, by the path that each has once it is unpacked.

    That is in a folder beside the archive, named like it. Hidden files are left out, as in a folder.

    Raises:
        SeesayError: it is not a plain tar archive, is cut off or damaged, after what precedes the damage.
    """
    count = 0
    try:
        with (
            open_file(shard) as file,
            tarfile.open(fileobj=cast("BinaryIO", _Headers(file)), mode="r:") as archive,
        ):
            size = os.fstat(file.fileno()).st_size
            for member in archive:
                if member.size < 0 or not member.offset_data <= archive.offset <= size:
                    raise tarfile.ReadError(f"{member.name} ends outside the archive")
                names = [name for name in PurePosixPath(member.name).parts if name not in ("/", "..")]
                if member.isreg() and not member.issparse() and not any(map(is_hidden, names)):
                    path = shard.with_suffix("").joinpath(*names)
                    yield path, PartSource(shard, member.offset_data, member.size)
                count += 1
            file.seek(archive.offset)  # where tarfile stops, even at a header that is damaged
            if file.read(tarfile.BLOCKSIZE) != bytes(tarfile.BLOCKSIZE):
                raise tarfile.ReadError("its end is missing")
    except _DAMAGED as error:
        raise SeesayError(
            f"{shard}: not a plain tar archive, or damaged after {count} files ({first_line(error)})."
        ) from error


class _Headers:
    """A file of which tarfile reads the headers: as it seeks over the files, it reads nothing else."""

    def __init__(self, file: FileIO) -> None:
        self.seek, self.tell, self.close, self._file = file.seek, file.tell, file.close, file

    def read(self, size: int) -> bytes:
        if not 0 <= size <= _LONGEST_HEADER:
            raise tarfile.ReadError(f"a header of {size} bytes")
        return self._file.read(size)
