"""Finding the images that a corpus names, in folders and tars."""

from __future__ import annotations

import unicodedata
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from pathlib import Path, PurePosixPath

from seesay.data.corpus import ByteSource, Issues
from seesay.data.sources import FileSource, tar_members
from seesay.data.suffixes import IMAGE_SUFFIXES
from seesay.data.walk import walk_files

AMBIGUOUS = "several files of one name, the first taken"
OUTSIDE = "absolute path outside of the corpus, ignored (--allow-outside takes it)"
_outside_allowed: ContextVar[bool] = ContextVar("outside_allowed", default=False)


@contextmanager
def outside_allowed(allowed: bool = True) -> Iterator[None]:
    """Let the corpora that are read inside name images anywhere, by absolute paths.

    A corpus of someone else could otherwise have private images measured, drawn into reports and shared.
    """
    token = _outside_allowed.set(allowed)
    try:
        yield
    finally:
        _outside_allowed.reset(token)


class ImageFinder:
    """Looks names up in every folder below a root, then in the tars that lie in the root.

    Corpora do not say where their images are, so a name is looked up as it stands, then by its last part.
    """

    def __init__(self, root: Path, issues: Issues) -> None:
        self._root, self._issues = root, issues
        self._by_name: dict[str, list[tuple[str, ByteSource]]] = {}
        self._tars_read = False
        for path in walk_files(root):
            if path.suffix.lower() in IMAGE_SUFFIXES:
                self._add(path.relative_to(root).as_posix(), FileSource(path))

    def find(self, name: str, folder: str = "") -> ByteSource | None:
        """Find the image of that name, listed as being in `folder`; None if it is missing."""
        path = Path(name)
        absolute = path.is_absolute() and path.suffix.lower() in IMAGE_SUFFIXES and path.is_file()
        if absolute and (_outside_allowed.get() or path.resolve().is_relative_to(self._root.resolve())):
            return FileSource(path)
        key = _key(f"{folder}/{name}" if folder else name)
        found = self._look_up(key)
        if found is None and not self._tars_read:
            self._read_tars()
            found = self._look_up(key)
        if found is None and absolute:
            self._issues.add(OUTSIDE, name)
        return found

    def _look_up(self, key: str) -> ByteSource | None:
        candidates = self._by_name.get(key.rpartition("/")[2], [])
        candidates = [c for c in candidates if f"/{c[0]}".endswith(f"/{key}")] or candidates
        if len(candidates) > 1 and candidates[0][0] != key:
            self._issues.add(AMBIGUOUS, f"{key}: {candidates[0][0]}, {candidates[1][0]}")
        return candidates[0][1] if candidates else None

    def _read_tars(self) -> None:
        self._tars_read = True
        for tar in sorted(self._root.glob("*.tar")):
            for name, member in tar_members(tar).items():
                if PurePosixPath(name).suffix.lower() in IMAGE_SUFFIXES:
                    self._add(name, member)

    def _add(self, path: str, source: ByteSource) -> None:
        path = _key(path)
        self._by_name.setdefault(path.rpartition("/")[2], []).append((path, source))


def _key(name: str) -> str:
    """One spelling of a name: macOS decomposes accents in file names, lists do not."""
    parts = [part for part in name.replace("\\", "/").split("/") if part not in ("", ".")]
    return unicodedata.normalize("NFC", "/".join(parts))
