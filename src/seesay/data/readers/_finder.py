"""Finds the images that a corpus lists, in folders and tars beside the list."""

from __future__ import annotations

import os
import unicodedata
from collections.abc import Iterator
from pathlib import Path, PurePosixPath

from seesay.data.corpus import ByteSource, Issues
from seesay.data.pixels import IMAGE_SUFFIXES
from seesay.data.sources import FileSource, tar_members

AMBIGUOUS = "several files of one name, the first taken"


class ImageFinder:
    """Looks names up in every folder below a root, then in the tars that lie in the root.

    Corpora travel without saying where their images are: `images/`, `Flicker8k_Dataset/`,
    `train2014/`, a tar. So the name is looked up as it stands, then by its last part.
    """

    def __init__(self, root: Path, issues: Issues) -> None:
        self._root = root
        self._faults = issues
        self._by_name: dict[str, list[tuple[str, ByteSource]]] = {}
        self._tars_read = False
        for path in walk_files(root):
            if path.suffix.lower() in IMAGE_SUFFIXES:
                self._add(path.relative_to(root).as_posix(), FileSource(path))

    def find(self, name: str, folder: str = "") -> ByteSource | None:
        """Where the image of that name lies, or None; `folder` is where it is said to be."""
        if Path(name).is_absolute():
            path = Path(name)
            if path.suffix.lower() in IMAGE_SUFFIXES and path.is_file():
                return FileSource(path)
        key = _key(f"{folder}/{name}" if folder else name)
        found = self._look_up(key)
        if found is None and not self._tars_read:
            self._read_tars()
            found = self._look_up(key)
        return found

    def _look_up(self, key: str) -> ByteSource | None:
        candidates = self._by_name.get(key.rpartition("/")[2], [])
        if len(candidates) > 1:
            exact = [c for c in candidates if f"/{c[0]}".endswith(f"/{key}")]
            candidates = exact or candidates
        if not candidates:
            return None
        if len(candidates) > 1 and candidates[0][0] != key:
            self._faults.add(AMBIGUOUS, f"{key}: {candidates[0][0]}, {candidates[1][0]}")
        return candidates[0][1]

    def _read_tars(self) -> None:
        self._tars_read = True
        for tar in sorted(self._root.glob("*.tar")):
            for name, member in tar_members(tar).items():
                if PurePosixPath(name).suffix.lower() in IMAGE_SUFFIXES:
                    self._add(name, member)

    def _add(self, path: str, source: ByteSource) -> None:
        path = _key(path)
        self._by_name.setdefault(path.rpartition("/")[2], []).append((path, source))


def walk_files(root: Path) -> Iterator[Path]:
    """Regular files below a folder, nearest first, in name order; hidden ones and loops of links left out."""
    level, seen = [root], set[tuple[int, int]]()
    while level:
        folders: list[Path] = []
        for folder in level:
            status = folder.stat()
            if (status.st_dev, status.st_ino) in seen:
                continue
            seen.add((status.st_dev, status.st_ino))
            for entry in sorted(_entries(folder), key=lambda entry: entry.name):
                if entry.name.startswith(".") or entry.name == "__MACOSX":
                    continue
                if entry.is_symlink() and not Path(entry.path).exists():
                    continue
                if entry.is_dir():
                    folders.append(Path(entry.path))
                elif entry.is_file():
                    yield Path(entry.path)
        level = folders


def _entries(folder: Path) -> list[os.DirEntry[str]]:
    try:
        with os.scandir(folder) as entries:
            return list(entries)
    except PermissionError:
        return []


def _key(name: str) -> str:
    """One spelling a name: macOS decomposes accents in file names, lists do not."""
    parts = [part for part in name.replace("\\", "/").split("/") if part not in ("", ".")]
    return unicodedata.normalize("NFC", "/".join(parts))
