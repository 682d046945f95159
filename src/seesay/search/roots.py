"""The folders of images that an index is of."""

from __future__ import annotations

import errno
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from seesay.data.remote import is_remote

_NAMELESS = "images"  # of the folder that holds all others, whose own name is empty


@dataclass(frozen=True, slots=True)
class Root:
    """A folder of images.

    Attributes:
        name: the first part of the paths of its images in the index; empty if the index began with this
            folder alone, so that its paths are relative to it.
        folder: where it is; it need not be there now.
        seal: by whom it was indexed, see `seesay.seal`.

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
        """What people call it: its name, or that of its folder."""
        return self.name or self.folder.name

    def path(self, relative: str) -> str:
        """Return the path in the index of a file whose path in the folder is known."""
        return f"{self.name}/{relative}" if self.name else relative

    def holds(self, path: str) -> bool:
        """Return whether a path of the index is one of this root."""
        return not self.name or path.startswith(f"{self.name}/")

    def file(self, path: str) -> Path:
        """Return the file that belongs to a path of this root."""
        return self.folder / path[len(self.name) + 1 if self.name else 0 :]


def holding(roots: Iterable[Root], path: str) -> Root | None:
    """Return the root that holds a path of the index; None if it is of none."""
    return next((root for root in roots if root.holds(path)), None)


def is_possible(path: Path) -> bool:
    """Return whether the system can have a file or folder of that absolute path; it need not have one."""
    if is_remote(path):
        return True
    try:
        path.lstat()
    except OSError as error:
        if error.errno == errno.ENAMETOOLONG:
            return False
    except ValueError:  # a null character
        return False
    return path.is_absolute()


def named(folders: Sequence[Path], taken: Iterable[str] = ()) -> list[str]:
    """Return a name for each folder that no other has, upper and lower case being the same.

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
