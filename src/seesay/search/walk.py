"""The image files of a folder, and their bytes, read ahead of the encoder."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path

from seesay.data.pixels import IMAGE_SUFFIXES

MAX_FILE_BYTES = 256 * 2**20
"""Larger files are skipped: they are no photographs, and a batch of them would fill the memory."""

_BATCH_FILES = 64
_BATCH_BYTES = 64 * 2**20


@dataclass(frozen=True, slots=True)
class FoundFile:
    """An image file; `path` is relative to the root, with `/`."""

    path: str
    mtime_ns: int
    size: int


@dataclass
class Walk:
    """Usable files by path, (path, reason) of skipped ones, and paths that could not be read."""

    files: dict[str, FoundFile] = field(default_factory=dict)
    skipped: list[tuple[str, str]] = field(default_factory=list)
    unread: list[str] = field(default_factory=list)

    def knows_of(self, path: str) -> bool:
        """Return whether a path that was not found is certainly gone."""
        return not any(place in (".", path) or path.startswith(f"{place}/") for place in self.unread)


def walk(root: Path, leave_out: Path) -> Walk:
    """Find all image files under `root` (a resolved path), except in the folder `leave_out`.

    Hidden files and folders are ignored. Links are followed to files inside `root` only: a linked folder
    inside is found at its own place, so that no loop can arise.
    """
    result = Walk()

    def unread(error: OSError) -> None:
        folder = _relative(root, Path(error.filename or root))
        result.unread.append(folder)
        result.skipped.append((folder, error.strerror or str(error)))

    for folder, names, files in os.walk(root, onerror=unread):
        here = Path(folder)
        links = [name for name in names if (here / name).is_symlink() and not name.startswith(".")]
        for name in links:
            if not (here / name).resolve().is_relative_to(root):
                result.skipped.append((_relative(root, here / name), "a link out of the folder"))
        names[:] = sorted(
            name
            for name in names
            if not name.startswith(".") and name not in links and here / name != leave_out
        )
        for name in sorted(files):
            if not name.startswith(".") and Path(name).suffix.lower() in IMAGE_SUFFIXES:
                _look_at(here / name, root, result)
    return result


def _relative(root: Path, path: Path) -> str:
    return path.relative_to(root).as_posix()


def _look_at(file: Path, root: Path, result: Walk) -> None:
    path = _relative(root, file)
    try:
        path.encode()
    except UnicodeEncodeError:
        printable = path.encode("utf-8", "backslashreplace").decode()
        result.skipped.append((printable, "its name is not valid UTF-8; rename it"))
        return
    try:
        stat = file.stat()
        if file.is_symlink() and not file.resolve(strict=True).is_relative_to(root):
            result.skipped.append((path, "a link out of the folder"))
        elif not file.is_file():
            result.skipped.append((path, "not a regular file"))
        elif stat.st_size > MAX_FILE_BYTES:
            result.skipped.append((path, f"{stat.st_size >> 20} MB, more than {MAX_FILE_BYTES >> 20}"))
        else:
            result.files[path] = FoundFile(path, stat.st_mtime_ns, stat.st_size)
    except FileNotFoundError:
        result.skipped.append((path, "a link to nothing"))
    except OSError as error:
        result.unread.append(path)
        result.skipped.append((path, error.strerror or str(error)))


Batch = list[tuple[FoundFile, bytes | OSError]]


def read_ahead(root: Path, files: Iterable[FoundFile]) -> Iterator[Batch]:
    """Yield the files' bytes in batches; a thread reads the next batch while the caller works on this one."""
    batches = _batches(root, files)
    with ThreadPoolExecutor(1, thread_name_prefix="seesay-read") as reader:
        ahead = reader.submit(next, batches, None)
        while (batch := ahead.result()) is not None:
            ahead = reader.submit(next, batches, None)
            yield batch


def _batches(root: Path, files: Iterable[FoundFile]) -> Iterator[Batch]:
    batch: Batch = []
    room = _BATCH_BYTES
    for file in files:
        try:
            data: bytes | OSError = (root / file.path).read_bytes()
        except OSError as error:
            data = error
        batch.append((file, data))
        room -= 0 if isinstance(data, OSError) else len(data)
        if len(batch) == _BATCH_FILES or room <= 0:
            yield batch
            batch, room = [], _BATCH_BYTES
    if batch:
        yield batch
