"""The image files of a folder."""

from __future__ import annotations

import os
from collections import Counter
from dataclasses import dataclass, field, replace
from pathlib import Path

from seesay.data.remote import RemotePath, RemoteStat, as_remote
from seesay.data.suffixes import IMAGE_SUFFIXES, OF_EXTRAS, unread_kind
from seesay.errors import SeesayError

MAX_FILE_BYTES = 256 * 2**20
"""Larger files are skipped: they are not photographs, and a batch of them would fill the memory."""

_LATEST = 2**63 - 1
"""Nanoseconds that SQLite can hold: a file dated after the year 2262 counts as of that year."""


@dataclass(frozen=True, slots=True)
class FoundFile:
    """An image file; `path` is relative to the folder, with `/`."""

    path: str
    mtime_ns: int
    size: int


@dataclass
class Walk:
    """Files by path, (path, reason) of skipped ones, paths that could not be read, counts of other kinds.

    `empty` are subfolders with nothing in them, such as the place of a drive that is not mounted.
    """

    files: dict[str, FoundFile] = field(default_factory=dict)
    skipped: list[tuple[str, str]] = field(default_factory=list)
    unread: set[str] = field(default_factory=set)
    empty: set[str] = field(default_factory=set)
    not_read: Counter[str] = field(default_factory=Counter)

    def is_gone(self, path: str) -> bool:
        """Return True if a path that was not found does not exist, rather than could not be read."""
        parts = path.split("/")
        above = ("/".join(parts[:count]) for count in range(1, len(parts) + 1))
        return self.unread.isdisjoint([".", *above])

    def add(self, other: Walk, prefix: str) -> None:
        """Add what was found in another folder, under paths that begin with a prefix such as "italy/"."""
        for path, file in other.files.items():
            self.files[prefix + path] = replace(file, path=prefix + path) if prefix else file
        self.skipped += [(prefix + path, reason) for path, reason in other.skipped]
        here = prefix.rstrip("/") or "."
        self.unread |= {here if place == "." else prefix + place for place in other.unread}
        self.empty |= {prefix + folder for folder in other.empty}
        self.not_read.update(other.not_read)


def walk(root: Path, leave_out: Path) -> Walk:
    """Find all image files under `root` (a resolved path or a URL), except in the folder `leave_out`.

    Hidden files and folders are ignored. Links are followed to files inside `root` only: a linked folder
    inside is found at its own place, so that no loop can arise.
    """
    if remote := as_remote(root):
        return _walk_at_url(remote)
    result = Walk()

    def unread(error: OSError) -> None:
        folder = _relative(root, Path(error.filename or root))
        result.unread.add(folder)
        result.skipped.append((folder, error.strerror or str(error)))

    for folder, names, files in os.walk(root, onerror=unread):
        here = Path(folder)
        if not (names or files):
            result.empty.add(_relative(root, here))
        # `os.path.islink` is False where the system refuses to say; the walk then lists the folder as unread.
        links = [name for name in names if os.path.islink(here / name) and not name.startswith(".")]  # noqa: PTH114
        for name in links:
            _look_at_link(here / name, root, result)
        names[:] = sorted(
            name
            for name in names
            if not name.startswith(".") and name not in links and here / name != leave_out
        )
        for name in sorted(files):
            if name.startswith("."):
                continue
            if Path(name).suffix.lower() in IMAGE_SUFFIXES:
                _look_at(here / name, root, result)
            elif kind := unread_kind(name):
                _pass_over(_relative(root, here / name), kind, result)
    return result


def _walk_at_url(root: RemotePath) -> Walk:
    """Find all image files at a URL; what cannot be listed must not be taken for gone."""
    result = Walk()
    try:
        for file, stat in root.walk():
            parts = file.relative_to(root).parts
            if any(part.startswith(".") for part in parts):
                continue
            if file.suffix.lower() in IMAGE_SUFFIXES:
                _take_up("/".join(parts), stat, result)
            elif kind := unread_kind(file.name):
                _pass_over("/".join(parts), kind, result)
    except OSError as error:
        raise SeesayError(
            f"{error.filename}: cannot be read ({error.strerror}); the index is unchanged."
        ) from error
    return result


def _pass_over(path: str, kind: str, result: Walk) -> None:
    """Count a file that is not read; one that was read while an extra was installed is not gone."""
    result.not_read[kind] += 1
    if kind in OF_EXTRAS:
        result.unread.add(path)


def _take_up(path: str, stat: os.stat_result | RemoteStat, result: Walk) -> None:
    """Take up an image file, unless it is too large."""
    if stat.st_size > MAX_FILE_BYTES:
        result.skipped.append((path, f"{stat.st_size >> 20} MB, more than {MAX_FILE_BYTES >> 20}"))
    else:
        result.files[path] = FoundFile(path, min(stat.st_mtime_ns, _LATEST), stat.st_size)


def _relative(root: Path, path: Path) -> str:
    return path.relative_to(root).as_posix()


def _look_at_link(folder: Path, root: Path, result: Walk) -> None:
    try:
        inside = folder.resolve().is_relative_to(root)
    except (OSError, RuntimeError) as error:  # RuntimeError for a loop, up to Python 3.12
        result.skipped.append((_relative(root, folder), getattr(error, "strerror", None) or str(error)))
    else:
        if not inside:
            result.skipped.append((_relative(root, folder), "a link out of the folder"))


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
        else:
            _take_up(path, stat, result)
    except FileNotFoundError:
        result.skipped.append((path, "a link to nothing"))
    except OSError as error:
        result.unread.add(path)
        result.skipped.append((path, error.strerror or str(error)))
