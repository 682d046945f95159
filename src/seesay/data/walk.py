"""The files of a folder."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path

from seesay.data.suffixes import EXCLUDED, OWN, SYSTEM

LINK_OUT = "a link out of the folder"
_SYSTEM = frozenset(
    ("@eadir", "#recycle", "$recycle.bin", ".stversions", "lost+found", "system volume information")
)

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
