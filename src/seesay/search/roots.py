"""The image folders of an index."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

_LONGEST, _LONGEST_NAME = 4096, 255  # bytes of a path with its final zero, and of each part, on Linux
_NAMELESS = "images"  # of the root of a file system, whose own name is empty


@dataclass(frozen=True, slots=True)
class Root:
    """A folder of images.

    Attributes:
        name: the first part of its paths in the index; empty if it is the index's only folder, so that paths
            are relative to it.
        folder: its location; it need not exist now.
        seal: the seal of the user who indexed it, see `seesay.seal`.

    Example:
        >>> from pathlib import Path
        >>> from seesay.search.roots import Root
        >>> Root("italy", Path("/photos/italy")).path("rome/forum.jpg")
        'italy/rome/forum.jpg'
    """

    name: str
    folder: Path
    seal: str = ""

    @property
    def title(self) -> str:
        """Its name, or that of its folder."""
        return self.name or self.folder.name

    def path(self, relative: str) -> str:
        """Return the path in the index of a path in the folder."""
        return f"{self.name}/{relative}" if self.name else relative

    def holds(self, path: str) -> bool:
        """Return whether a path of the index belongs to this root."""
        return not self.name or path.startswith(f"{self.name}/")

    def file(self, path: str) -> Path:
        """Return the file of a path of this root."""
        return self.folder / path[len(self.name) + 1 if self.name else 0 :]


def root_of(roots: Iterable[Root], path: str) -> Root | None:
    """Return the root of a path of the index, or None."""
    return next((root for root in roots if root.holds(path)), None)


def shown_path(roots: Iterable[Root], path: str) -> str:
    """Return the file of a path of the index, or the path itself if its root is unknown."""
    root = root_of(roots, path)
    return str(root.file(path)) if root else path


def is_possible(path: Path) -> bool:
    """Return whether an absolute path is valid on this system; it need not exist."""
    # Disks are not accessed: the index is locked meanwhile, and one may be missing.
    try:
        whole, *names = (os.fsencode(part) for part in (str(path), *path.parts))
    except UnicodeEncodeError:
        return False
    # Windows has other limits; a path that it refuses is later reported as absent.
    fits = os.name == "nt" or (len(whole) < _LONGEST and max(map(len, names), default=0) <= _LONGEST_NAME)
    return path.is_absolute() and fits and b"\0" not in whole


def named(folders: Sequence[Path], taken: Iterable[str] = ()) -> list[str]:
    """Return a unique name for each folder, ignoring case.

    >>> named([Path("/a/photos"), Path("/b/photos")], taken=["Photos"])
    ['photos-2', 'photos-3']
    """
    names, used = list[str](), {name.casefold() for name in taken}
    for folder in folders:
        plain = name = folder.name or _NAMELESS
        number = 1
        while name.casefold() in used:
            number += 1
            name = f"{plain}-{number}"
        used.add(name.casefold())
        names.append(name)
    return names
