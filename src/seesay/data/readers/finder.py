"""The images below a folder, by the names that a corpus has for them."""

from __future__ import annotations

import os
import unicodedata
from bisect import bisect_left
from contextlib import suppress
from functools import cached_property
from heapq import nsmallest
from pathlib import Path, PurePosixPath
from typing import NamedTuple

from seesay.data.corpus import Issues, Omission
from seesay.data.sources import FileSource
from seesay.data.suffixes import ARCHIVE, IMAGE_SUFFIXES, LEFT_OUT, is_image, unpacking, unread_kind
from seesay.data.walk import LINK_OUT, walk_files

AMBIGUOUS = "several files of one name, the first taken"
OUTSIDE = "absolute path outside of the corpus, ignored (--allow-outside takes it)"
NOT_FOLLOWED = f"{LINK_OUT}, not followed (--allow-outside follows it)"
UNREADABLE = Omission("file or folder that cannot be read")
PACKED = "archive, not read; unpack it"
UNREAD_KIND = "file in an unsupported format"
_DEPTH = 8  # parts of a path that are compared if its beginning does not exist here
_LAST = chr(0x10FFFF)  # sorts after every other character


class _Known(NamedTuple):
    """An image below a root.

    Attributes:
        spelled: the path by which it is looked up.
        path: its path below the root.
        source: where its bytes are.
    """

    spelled: str
    path: str
    source: FileSource


_Images = dict[str, list[_Known]]
"""By the last part of the path by which they are looked up."""


class ImageFinder:
    """Looks up names in every folder below a root.

    Corpora do not say where their images are: a name is looked up as a path, then as the end of a path, as
    written, and then in any case and without the suffix; and then shorter ends of it, down to its last part.

    Args:
        root: the folder.
        issues: counts ambiguous names, absolute paths and links that lead outside, archives, unreadable files
            and those of formats that are not read.
        outside: whether absolute paths and links may lead out of the folder.

    Attributes:
        others: the files that are neither images nor counted as issues.
    """

    def __init__(self, root: Path, issues: Issues, outside: bool) -> None:
        self._root, self._issues = root, issues
        self._by_path: dict[str, FileSource] = {}
        self._by_name: _Images = {}
        self._used: set[FileSource] = set()
        self._ordered: dict[int, tuple[list[tuple[str, int]], _Images]] = {}
        self._follows = outside
        self._all = list[tuple[str, FileSource]]()
        self.others = list[Path]()
        folder = root if self._follows else root.resolve()
        for path in walk_files(folder, self._problem, linked=True, outside=outside):
            below, kind = path.relative_to(folder), unread_kind(path.name)
            if kind is not None:
                issues.add(*((PACKED, unpacking(path)) if kind == ARCHIVE else (UNREAD_KIND, str(path))))
            elif is_image(path):
                self._all.append((below.as_posix(), FileSource(root / below)))
                self._add(*self._all[-1])
            else:
                self.others.append(root / below)

    @property
    def is_empty(self) -> bool:
        """Whether there is no image at all."""
        return not self._by_name

    def find(self, name: str, folder: str = "") -> FileSource | None:
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

    def take_all(self) -> list[tuple[str, FileSource]]:
        """Return all images, by their paths below the root; all of them count as used."""
        self._used.update(source for _, source in self._all)
        return self._all

    def unused(self) -> list[str]:
        """The paths of images below the root that no name has found."""
        return [path for path, source in self._by_path.items() if source not in self._used]

    def _problem(self, path: Path, reason: str, _unread: bool) -> None:
        if reason in LEFT_OUT:
            self._issues.add(f"{reason}, left out", str(path))
        elif reason == LINK_OUT:
            self._issues.add(NOT_FOLLOWED, str(path))
        else:
            self._issues.add(UNREADABLE, f"{path}: {reason}")

    def _by_end(self, key: str) -> FileSource | None:
        """Find an image by the longest end of a name that is the end of any path."""
        for end in _ends(key):
            for images, spelled in ((self._by_name, end), (self._by_folded, end.casefold())):
                if (found := self._look_up(images, spelled, is_whole=end == key)) is not None:
                    return found
        return None

    def _is_inside(self, path: Path) -> bool:
        """Whether a path is inside the root, or paths may lead anywhere."""
        return self._follows or path.resolve().is_relative_to(self._root.resolve())

    def _linked(self, key: str) -> FileSource | None:
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

    def _look_up(self, images: _Images, end: str, is_whole: bool = True) -> FileSource | None:
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

    def _add(self, path: str, source: FileSource) -> None:
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
