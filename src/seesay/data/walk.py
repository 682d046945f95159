"""The files of a folder, and the images among them that a corpus names."""

from __future__ import annotations

import os
import unicodedata
from bisect import bisect_left
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import cached_property
from heapq import nsmallest
from pathlib import Path, PurePosixPath
from typing import NamedTuple

from seesay.data.corpus import ByteSource, Issues, Omission
from seesay.data.sources import FileSource
from seesay.data.suffixes import (
    ARCHIVE,
    EXCLUDED,
    IMAGE_SUFFIXES,
    LEFT_OUT,
    OWN,
    SYSTEM,
    is_image,
    unpacking,
    unread_kind,
)

AMBIGUOUS = "several files of one name, the first taken"
OUTSIDE = "absolute path outside of the corpus, ignored (--allow-outside takes it)"
LINK_OUT = "a link out of the folder"
NOT_FOLLOWED = f"{LINK_OUT}, not followed (--allow-outside follows it)"
UNREADABLE = Omission("file or folder that cannot be read")
PACKED = "archive, not read; unpack it"
UNREAD_KIND = "file in an unsupported format"
_SYSTEM = frozenset(
    ("@eadir", "#recycle", "$recycle.bin", ".stversions", "lost+found", "system volume information")
)
_DEPTH = 8  # parts of a path that are compared if its beginning does not exist here
_LAST = chr(0x10FFFF)  # sorts after every other character

Problem = Callable[[Path, str, bool], None]
"""Called with a path that is left out, the reason, and whether it could not be read and may contain more."""


def walk_files(
    root: Path,
    problem: Problem | None = None,
    *,
    excluded: Callable[[Path], bool] = lambda _: False,
    walked: list[Path] | None = None,
    linked: bool = False,
    outside: bool = False,
) -> Iterator[Path]:
    """Iterate over the regular files below a folder, nearest first, sorted by name.

    Hidden files and folders are left out, and so are folders of systems (`@eaDir`, `#recycle`), of seesay (an
    index, a run) and with a file `.nomedia`. A folder is walked once, by its own path rather than by a link,
    so those behind links come last.

    Args:
        root: a folder, resolved unless links may lead outside.
        problem: called with what else is left out.
        excluded: whether to leave out a file or folder.
        walked: a list to which the walked folders are added.
        linked: follow links to folders inside `root`, too; otherwise only links to files inside, because a
            linked folder is found at its own place.
        outside: follow all links, but no loops.
    """
    level, seen = [root], set[tuple[int, int]]()
    links: list[Path] = []
    while level or links:
        folders: list[Path] = []
        if not level:
            level, links = links, []
        for folder in level:
            try:
                status = folder.stat()
                if (linked or outside) and (status.st_dev, status.st_ino) in seen:
                    continue
                with os.scandir(folder) as entries:
                    there = sorted(entries, key=lambda entry: entry.name)
            except OSError as error:  # no permission, or a path too long for the system
                (problem or _ignore)(folder, _reason(error), True)
                continue
            seen.add((status.st_dev, status.st_ino))
            if folder != root and (left := _left_out({entry.name for entry in there})):
                (problem or _ignore)(folder, left, False)
                continue
            if walked is not None:
                walked.append(folder)
            for entry in there:
                left = SYSTEM if entry.name.lower() in _SYSTEM else EXCLUDED
                if left == SYSTEM or (not _is_hidden(entry.name) and excluded(Path(entry.path))):
                    (problem or _ignore)(Path(entry.path), left, False)
                elif not _is_hidden(entry.name):
                    kind = _kind(entry, None if outside else root, problem or _ignore, linked)
                    if kind == "folder":
                        (links if entry.is_symlink() else folders).append(Path(entry.path))
                    elif kind == "file":
                        yield Path(entry.path)
        level = folders


def _kind(entry: os.DirEntry[str], root: Path | None, told: Problem, linked: bool) -> str:
    """Return "folder", "file", or "" for what is left out; see `walk_files`."""
    path = Path(entry.path)
    try:
        is_link = root is not None and entry.is_symlink()
        if root is not None and is_link and not path.resolve(strict=True).is_relative_to(root):
            told(path, LINK_OUT, False)
        elif entry.is_dir():
            return "" if is_link and not linked else "folder"
        elif entry.is_file():
            return "file"
        else:
            told(path, "not a regular file", False)
    except FileNotFoundError:
        told(path, "a link to nothing", False)
    except (OSError, RuntimeError) as error:  # RuntimeError for a loop, up to Python 3.12
        told(path, _reason(error), True)
    return ""


def _left_out(names: set[str]) -> str:
    """Return why a folder with these files is left out; "" if it is not."""
    if "index.sqlite" in names or {"run.json", "weights.safetensors"} <= names:
        return OWN
    return EXCLUDED if ".nomedia" in names else ""


def _is_hidden(name: str) -> bool:
    return name.startswith(".") or name == "__MACOSX"


def _ignore(_path: Path, _reason: str, _unread: bool) -> None:
    pass


def _reason(error: Exception) -> str:
    return getattr(error, "strerror", None) or str(error)


def corpus_files(root: Path, issues: Issues, outside: bool, linked: bool = False) -> Iterator[Path]:
    """Iterate over the files of a corpus that may be read; see `walk_files`.

    Links that lead out, archives, unreadable files and those of formats that are not read count as issues.
    """

    def problem(path: Path, reason: str, _unread: bool) -> None:
        if reason in LEFT_OUT:
            issues.add(f"{reason}, left out", str(path))
        elif reason == LINK_OUT:
            issues.add(NOT_FOLLOWED, str(path))
        else:
            issues.add(UNREADABLE, f"{path}: {reason}")

    for path in walk_files(root, problem, linked=linked, outside=outside):
        kind = unread_kind(path.name)
        if kind is None:
            yield path
        elif kind == ARCHIVE:
            issues.add(PACKED, unpacking(path))
        else:
            issues.add(UNREAD_KIND, str(path))


class _Known(NamedTuple):
    """An image below a root.

    Attributes:
        spelled: the path by which it is looked up.
        path: its path below the root.
        source: where its bytes are.
    """

    spelled: str
    path: str
    source: ByteSource


_Images = dict[str, list[_Known]]
"""By the last part of the path by which they are looked up."""


class ImageFinder:
    """Looks up names in every folder below a root.

    Corpora do not say where their images are: a name is looked up as a path, then as the end of a path, as
    written, and then in any case and without the suffix; and then shorter ends of it, down to its last part.

    Args:
        root: the folder.
        issues: counts ambiguous names, absolute paths that lead outside, and what `corpus_files` leaves out.
        outside: whether absolute paths and links may lead out of the folder.
    """

    def __init__(self, root: Path, issues: Issues, outside: bool) -> None:
        self._root, self._issues = root, issues
        self._by_path: dict[str, ByteSource] = {}
        self._by_name: _Images = {}
        self._used: set[ByteSource] = set()
        self._ordered: dict[int, tuple[list[tuple[str, int]], _Images]] = {}
        self._follows = outside
        folder = root if self._follows else root.resolve()
        for path in corpus_files(folder, issues, outside, linked=True):
            if is_image(path):
                below = path.relative_to(folder)
                self._add(below.as_posix(), FileSource(root / below))

    @property
    def is_empty(self) -> bool:
        """Whether there is no image at all."""
        return not self._by_name

    def find(self, name: str, folder: str = "") -> ByteSource | None:
        """Find the image of that name, listed as being in `folder`; None if it is missing."""
        path = Path(name)
        absolute = path.is_absolute() and path.suffix.lower() in IMAGE_SUFFIXES and os.path.isfile(path)  # noqa: PTH113
        if absolute and self._is_inside(path):
            return FileSource(path)
        key = _key(f"{folder}/{name}" if folder else name)
        found = self._by_path.get(key) or self._linked(key) or self._by_end(key)
        if found is not None:
            self._used.add(found)
        elif absolute:
            self._issues.add(OUTSIDE, name)
        return found

    def unused(self) -> list[str]:
        """The paths of images below the root that no name has found."""
        return [path for path, source in self._by_path.items() if source not in self._used]

    def _by_end(self, key: str) -> ByteSource | None:
        """Find an image by the longest end of a name that is the end of any path."""
        for end in _ends(key):
            for images, spelled in ((self._by_name, end), (self._by_folded, end.casefold())):
                if (found := self._look_up(images, spelled, is_whole=end == key)) is not None:
                    return found
        return None

    def _is_inside(self, path: Path) -> bool:
        """Whether a path is inside the root, or paths may lead anywhere."""
        return self._follows or path.resolve().is_relative_to(self._root.resolve())

    def _linked(self, key: str) -> ByteSource | None:
        """An image by a path with links, whose folder was walked by another path."""
        path = self._root / key
        if "/" not in key or path.suffix.lower() not in IMAGE_SUFFIXES:
            return None
        if not (os.path.isfile(path) and self._is_inside(path)):  # noqa: PTH113
            return None
        with suppress(ValueError):  # it is outside
            self._used.add(FileSource(self._root / path.resolve().relative_to(self._root.resolve())))
        return FileSource(path)

    @cached_property
    def _by_folded(self) -> _Images:
        """Images by their names in lower case, with and without the suffix."""
        found: _Images = {}
        for images in self._by_name.values():
            for _, path, source in images:
                for spelled in {path.casefold(), path.removesuffix(PurePosixPath(path).suffix).casefold()}:
                    found.setdefault(spelled.rpartition("/")[2], []).append(_Known(spelled, path, source))
        return found

    def _look_up(self, images: _Images, end: str, is_whole: bool = True) -> ByteSource | None:
        """The first image whose path ends so; ambiguous if others do, unless `end` is its whole path."""
        candidates = self._ending(images.get(end.rpartition("/")[2], []), end)
        exact = is_whole and [image.spelled == end for image in candidates] == [True, False]
        if len(candidates) > 1 and not exact:
            self._issues.add(AMBIGUOUS, f"{end}: {candidates[0].path}, {candidates[1].path}")
        return candidates[0].source if candidates else None

    def _ending(self, images: list[_Known], end: str) -> list[_Known]:
        """The first two images of one name whose paths have this end.

        A corpus may use one name in every folder, so the images are sorted once, not compared every time.
        """
        if "/" not in end:
            return images[:2]
        ordered, known = self._ordered.get(id(images), ([], {}))
        if not ordered:
            ordered, known = sorted((_upwards(image.spelled), at) for at, image in enumerate(images)), {}
            self._ordered[id(images)] = ordered, known
        if end not in known:
            first, last = (bisect_left(ordered, (_upwards(end) + after, 0)) for after in ("", _LAST))
            known[end] = [images[at] for at in nsmallest(2, (at for _, at in ordered[first:last]))]
        return known[end]

    def _add(self, path: str, source: ByteSource) -> None:
        path = _key(path)
        self._by_path.setdefault(path, source)
        self._by_name.setdefault(path.rpartition("/")[2], []).append(_Known(path, path, source))


def _ends(key: str) -> list[str]:
    """A name and its shorter ends, longest first: it may have been listed on another machine."""
    parts = key.split("/")
    return [key, *("/".join(parts[at:]) for at in range(max(1, len(parts) - _DEPTH), len(parts)))]


def _upwards(path: str) -> str:
    """A path from its last part upwards: "c/b/a/" for "a/b/c"."""
    return "/".join([*reversed(path.split("/")), ""])


def _key(name: str) -> str:
    """A single spelling of a name: macOS decomposes accents in file names, lists do not."""
    parts = [part for part in name.replace("\\", "/").split("/") if part not in ("", ".")]
    return unicodedata.normalize("NFC", "/".join(parts))
