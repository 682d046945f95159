"""The images below a folder, by the names that a corpus has for them."""

from __future__ import annotations

import os
import unicodedata
from collections import defaultdict
from functools import cached_property
from pathlib import Path, PurePosixPath

from seesay.data.corpus import Issues, Omission
from seesay.data.formats import ARCHIVE, IMAGE_SUFFIXES, is_image, unread_kind
from seesay.data.images import FileSource
from seesay.data.walk import LEFT_OUT, LINK_OUT, walk_files

AMBIGUOUS = "several files of one name, the first taken"
OUTSIDE = "absolute path outside of the corpus, ignored (--allow-outside takes it)"
NOT_FOLLOWED = f"{LINK_OUT}, not followed (--allow-outside follows it)"
UNREADABLE = Omission("file or folder that cannot be read")
PACKED = "archive, not read; unpack it"
UNREAD_SHARD = Omission("shard beside images with texts, not read; give its path, or unpack it")
UNREAD_KIND = "file in an unsupported format"
_DEPTH = 8  # parts of a path that are compared if its beginning does not exist here


class ImageFinder:
    """Looks up names in every folder below a root.

    Corpora do not say where their images are: a name is looked up as a path, then as the end of a path, as
    written, and then in any case and without the suffix; and then shorter ends of it, down to its last part.

    Args:
        root: the folder.
        issues: counts ambiguous names, absolute paths and links that lead outside, unreadable files and those
            of formats that are not read.
        outside: whether absolute paths and links may lead out of the folder.
        apart_from: a resolved folder in it that another finder accounts for.

    Attributes:
        root: the folder.
        images: all images, by their paths below the root.
        archives: the files in which there may be others.
        others: the files that are none of these, nor counted as issues.
    """

    def __init__(self, root: Path, issues: Issues, outside: bool, apart_from: Path | None = None) -> None:
        self.root, self._issues, self._follows, self._apart_from = root, issues, outside, apart_from
        self.images = list[tuple[str, FileSource]]()
        self.archives, self.others = list[Path](), list[Path]()
        folder = root if outside else root.resolve()
        for path in walk_files(folder, self._problem, linked=True, outside=outside):
            below, kind = path.relative_to(folder), unread_kind(path.name)
            if apart_from is not None and path.is_relative_to(apart_from):
                continue
            if kind == ARCHIVE:
                self.archives.append(root / below)
            elif kind is not None:
                issues.add(UNREAD_KIND, str(path))
            elif is_image(path):
                self.images.append((below.as_posix(), FileSource(root / below)))
            else:
                self.others.append(root / below)
        self._by_path = {_key(path): source for path, source in reversed(self.images)}

    def find(self, name: str, folder: str = "") -> FileSource | None:
        """Find the image of that name, listed as being in `folder`; None if it is missing."""
        key = _key(f"{folder}/{name}" if folder else name)
        if (same := self._by_path.get(key)) is not None:
            return same
        is_absolute = Path(name).is_absolute()
        path, root = Path(name) if is_absolute else self.root / key, self.root.resolve()
        exists = path.suffix.lower() in IMAGE_SUFFIXES and os.path.isfile(path)  # noqa: PTH113
        if exists and (self._follows or path.resolve().is_relative_to(root)):
            return self._by_path.get(_key(os.path.relpath(path.resolve(), root))) or FileSource(path)
        by_end, by_folded_end = self._by_ends
        for end in _ends(key):
            for images, spelled in ((by_end, end), (by_folded_end, end.casefold())):
                if len(found := images.get(spelled, ())) > 1:
                    both = ", ".join(str(each.path.relative_to(self.root)) for each in found)
                    self._issues.add(AMBIGUOUS, f"{spelled}: {both}")
                if found:
                    return found[0]
            if end.rpartition("/")[0].casefold() in self._folders:
                break  # the folder is here, and lacks the image
        if exists and is_absolute:
            self._issues.add(OUTSIDE, name)
        return None

    @cached_property
    def _folders(self) -> set[str]:
        """The folders of images with none below them, and the ends of their paths, in lower case."""
        folders = {_key(path).rpartition("/")[0].casefold() for path, _ in self.images}
        above = {parent.as_posix() for folder in folders for parent in PurePosixPath(folder).parents}
        return {end for folder in folders - above - {""} for end in _ends(folder)}

    def _problem(self, path: Path, reason: str, _unread: bool) -> None:
        if self._apart_from is not None and path.is_relative_to(self._apart_from):
            return
        if reason in LEFT_OUT:
            self._issues.add(f"{reason}, left out", str(path))
        elif reason == LINK_OUT:
            self._issues.add(NOT_FOLLOWED, str(path))
        else:
            self._issues.add(UNREADABLE, f"{path}: {reason}")

    @cached_property
    def _by_ends(self) -> list[dict[str, list[FileSource]]]:
        """The first two images by each end of their paths, and by those in lower case or without suffix."""
        own = [(_key(path), source) for path, source in self.images]
        folded = [(path.casefold(), source) for path, source in own]
        bare = [(path.removesuffix(PurePosixPath(path).suffix), source) for path, source in folded]
        by_ends = []
        for images in (own, [*folded, *bare]):
            found = defaultdict[str, list[FileSource]](list)
            for path, source in images:
                for end in _ends(path):
                    if len(found[end]) < 2 and source not in found[end]:
                        found[end].append(source)
            by_ends.append(dict(found))
        return by_ends


def _ends(key: str) -> list[str]:
    """Return a path and its shorter ends, longest first: it may have been listed on another machine."""
    parts = key.split("/")
    return [key, *("/".join(parts[at:]) for at in range(max(1, len(parts) - _DEPTH), len(parts)))]


def _key(name: str) -> str:
    """Return a single spelling of a name: macOS decomposes accents in file names, lists do not."""
    parts = [part for part in name.replace("\\", "/").split("/") if part not in ("", ".")]
    return unicodedata.normalize("NFC", "/".join(parts))
