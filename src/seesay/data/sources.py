"""Where the encoded bytes of an image lie: a file or a member of a tar, and how to find one by name."""

from __future__ import annotations

import os
import tarfile
import unicodedata
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from seesay.data.corpus import ByteSource, Issues
from seesay.data.pixels import IMAGE_SUFFIXES
from seesay.errors import ImageError, SeesayError

AMBIGUOUS = "several files of one name, the first taken"
MAX_BYTES = 1 << 29
"""The largest encoded image that is read, half a GiB: above it, the file is no photograph."""


@dataclass(frozen=True, slots=True)
class FileSource:
    """One image in a file of its own."""

    path: Path

    def read(self, limit: int | None = None) -> bytes:
        """Return the encoded image, or its first `limit` bytes.

        Raises:
            ImageError: the file is missing, unreadable or larger than MAX_BYTES.
        """
        try:
            size = self.path.stat().st_size
            if size > MAX_BYTES:
                raise ImageError(f"{self.path}: {size} bytes; at most {MAX_BYTES} are read.")
            with self.path.open("rb") as file:
                return file.read(limit)
        except OSError as error:
            raise ImageError(f"{self.path}: cannot be read ({error.strerror}).") from error


@dataclass(frozen=True, slots=True)
class TarMember:
    """`size` bytes from `offset` of an uncompressed tar; any number of threads may read at once."""

    path: Path
    offset: int
    size: int

    def read(self, limit: int | None = None) -> bytes:
        """Return the bytes of the member, or its first `limit` bytes.

        Raises:
            ImageError: the tar is missing, unreadable or shorter than when it was indexed.
        """
        if self.size > MAX_BYTES:
            raise ImageError(f"{self.path}: a member of {self.size} bytes; at most {MAX_BYTES} are read.")
        size = self.size if limit is None else min(self.size, limit)
        try:
            with self.path.open("rb") as file:
                file.seek(self.offset)
                data = file.read(size)
        except OSError as error:
            raise ImageError(f"{self.path}: cannot be read ({error.strerror}).") from error
        if len(data) != size:
            raise ImageError(
                f"{self.path}: ends at {len(data)} of {size} bytes of the member at {self.offset}."
            )
        return data


def tar_members(path: Path, limit: int | None = None) -> dict[str, TarMember]:
    """Index a tar by its headers alone; keys are member paths, without a leading `./`.

    Folders, links to nowhere, hidden files (`.DS_Store`, `._name`) and pax leftovers are left out. Of members
    with one name the last counts, as in tar itself. With `limit`, only the first headers are read.

    Raises:
        SeesayError: the file is not a tar, is compressed, or ends too early.
    """
    members: dict[str, TarMember] = {}
    try:
        with tarfile.open(path, "r:") as tar:
            size = path.stat().st_size
            for position, info in enumerate(tar):
                name = _plain_name(info.name)
                if limit is not None and position >= limit:
                    break
                if name is None:
                    continue
                if info.islnk() and (target := _plain_name(info.linkname)) in members:
                    members[name] = members[target]
                elif info.isreg() and info.sparse is None:
                    if not 0 <= info.size <= size - info.offset_data:
                        raise tarfile.ReadError(f"'{name}' reaches past the end")
                    members[name] = TarMember(path, info.offset_data, info.size)
    except OSError as error:
        raise SeesayError(f"{path}: cannot be read ({error.strerror}).") from error
    except (tarfile.TarError, ValueError, EOFError) as error:
        raise SeesayError(
            f"{path}: not a whole, uncompressed tar ({error}); decompress it, or copy it again."
        ) from error
    return members


def _plain_name(name: str) -> str | None:
    """The member's path as a corpus writes it, or None for files that no corpus lists."""
    parts = PurePosixPath(name).parts
    if not parts or any(part.startswith((".", "PaxHeader")) or part == "__MACOSX" for part in parts):
        return None
    return "/".join(part for part in parts if part != "/")


class ImageFinder:
    """Looks names up in every folder below a root, then in the tars that lie in the root.

    Corpora do not say where their images are: `images/`, `Flicker8k_Dataset/`, `train2014/`, a tar. So a name
    is looked up as it stands, then by its last part.
    """

    def __init__(self, root: Path, issues: Issues) -> None:
        self._root = root
        self._issues = issues
        self._by_name: dict[str, list[tuple[str, ByteSource]]] = {}
        self._tars_read = False
        for path in walk_files(root):
            if path.suffix.lower() in IMAGE_SUFFIXES:
                self._add(path.relative_to(root).as_posix(), FileSource(path))

    def find(self, name: str, folder: str = "") -> ByteSource | None:
        """Return the source of the image of that name, listed as being in `folder`; None if it is missing."""
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
            self._issues.add(AMBIGUOUS, f"{key}: {candidates[0][0]}, {candidates[1][0]}")
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
    """Iterate over the regular files below a folder, nearest first, in name order.

    Hidden files and loops of links are left out.
    """
    level, seen = [root], set[tuple[int, int]]()
    while level:
        folders: list[Path] = []
        for folder in level:
            status = folder.stat()
            if (status.st_dev, status.st_ino) in seen:
                continue
            seen.add((status.st_dev, status.st_ino))
            for entry in _entries(folder):
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
            return sorted(entries, key=lambda entry: entry.name)
    except PermissionError:
        return []


def _key(name: str) -> str:
    """One spelling of a name: macOS decomposes accents in file names, lists do not."""
    parts = [part for part in name.replace("\\", "/").split("/") if part not in ("", ".")]
    return unicodedata.normalize("NFC", "/".join(parts))
