"""Several files as one zip, written while it is sent."""

from __future__ import annotations

import io
import zipfile
from collections.abc import Iterable, Iterator
from pathlib import Path

_BLOCK = 1 << 18  # bytes


class _Sink(io.RawIOBase):
    """What is written until it is taken."""

    def __init__(self) -> None:
        self._written: list[bytes] = []

    def writable(self) -> bool:
        """Return True."""
        return True

    def write(self, data: bytes) -> int:  # type: ignore[override]
        """Keep the data."""
        self._written.append(bytes(data))
        return len(data)

    def take(self) -> bytes:
        """Return what was written since the last time."""
        taken, self._written = b"".join(self._written), []
        return taken


def zipped(files: Iterable[tuple[str, Path]]) -> Iterator[bytes]:
    """Yield the bytes of a zip of files, uncompressed, since images are; those that have gone are left out.

    Args:
        files: the name of each in the zip, and where it is.
    """
    sink = _Sink()
    with zipfile.ZipFile(sink, "w", zipfile.ZIP_STORED) as archive:
        for name, path in files:
            try:
                entry = zipfile.ZipInfo.from_file(path, name, strict_timestamps=False)
                file = path.open("rb")
            except OSError:
                continue
            with file, archive.open(entry, "w", force_zip64=True) as member:
                while block := file.read(_BLOCK):
                    member.write(block)
                    yield sink.take()
    yield sink.take()
