"""Plain tar archives, such as the shards of a WebDataset, whose files are read without unpacking them."""

from __future__ import annotations

import os
import tarfile
import zlib
from collections.abc import Iterator
from io import FileIO
from pathlib import Path, PurePosixPath
from typing import BinaryIO, cast

from seesay.data.formats import unpacking
from seesay.data.images import PartSource
from seesay.data.walk import is_hidden
from seesay.errors import SeesayError, first_line
from seesay.paths import open_file

SHARD = ".tar"
_LONGEST_HEADER = 1 << 14  # bytes of names and attributes, for which older Pythons take quadratic time
_MOST_COMMON = 64  # attributes of all files, which tarfile copies for each file


def parts_of(shard: Path) -> Iterator[tuple[Path, PartSource | None]]:
    """Iterate over the files of a tar archive, by the path that each has once it is unpacked.

    That is in a folder beside the archive, named like it. Hidden files are left out, as in a folder. Links
    and sparse files, which have no bytes of their own or not all, are None.

    Raises:
        SeesayError: it cannot be read, is not a plain tar archive, is cut off or damaged; after what precedes
            the damage.
    """
    count = 0
    try:
        with (
            open_file(shard) as file,
            tarfile.open(fileobj=cast("BinaryIO", _Headers(file)), mode="r:") as archive,
        ):
            size = os.fstat(file.fileno()).st_size
            while (member := archive.next()) is not None:
                archive.members.clear()  # type: ignore[attr-defined]  # tarfile would keep all
                if len(archive.pax_headers) > _MOST_COMMON:
                    raise tarfile.ReadError(f"more than {_MOST_COMMON} attributes of all files")
                if member.size < 0 or not member.offset_data <= archive.offset <= size:
                    raise tarfile.ReadError(f"{member.name} ends outside the archive")
                count += 1
                names = [name for name in PurePosixPath(member.name).parts if name not in ("/", "..")]
                if member.isdir() or not names or any(map(is_hidden, names)) or "\0" in member.name:
                    continue
                part = None
                if member.isreg() and not member.issparse():
                    file.seek(member.offset_data - tarfile.BLOCKSIZE)
                    header = zlib.crc32(file.read(tarfile.BLOCKSIZE))
                    part = PartSource(shard, "/".join(names), member.offset_data, member.size, header)
                yield shard.with_suffix("").joinpath(*names), part
            file.seek(archive.offset)  # where tarfile stops, even at a header that is damaged
            if file.read(tarfile.BLOCKSIZE) != bytes(tarfile.BLOCKSIZE):
                raise tarfile.ReadError("its end is missing")
    except OSError as error:
        raise SeesayError(f"{shard}: cannot be read ({error.strerror}).") from error
    except (tarfile.TarError, ValueError, OverflowError, RecursionError) as error:
        what = f"damaged after {count} files" if count else "no plain tar archive"
        raise SeesayError(
            f"{shard}: {what} ({first_line(error)}); copy it again, or unpack it: {unpacking(shard)}"
        ) from error


class _Headers:
    """A file of which tarfile reads the headers: as it seeks over the files, it reads nothing else."""

    def __init__(self, file: FileIO) -> None:
        self.seek, self.tell, self.close, self._file = file.seek, file.tell, file.close, file

    def read(self, size: int) -> bytes:
        if not 0 <= size <= _LONGEST_HEADER:
            raise tarfile.ReadError(f"a header of {size} bytes, of {_LONGEST_HEADER} at most")
        return self._file.read(size)
