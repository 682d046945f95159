"""The files of a folder."""

from __future__ import annotations

import os
import re
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from fnmatch import translate
from pathlib import Path

from seesay.data.suffixes import EXCLUDED, OWN, SYSTEM

LINK_OUT = "a link out of the folder"
_SYSTEM = frozenset(
    ("@eadir", "#recycle", "$recycle.bin", ".stversions", "lost+found", "system volume information")
)
_MOST_PATTERNS, _LONGEST_PATTERN = 100, 200

Problem = Callable[[Path, str, bool], None]
"""Called with a path that is left out, the reason, and whether it could not be read and may contain more."""


def walk_files(
    root: Path,
    problem: Problem = lambda *_: None,
    *,
    exclude: Sequence[str] = (),
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
        exclude: patterns of files and folders to leave out, see `pattern_of`.
        walked: a list to which the walked folders are added.
        linked: follow links to folders inside `root`, too; otherwise only links to files inside, because a
            linked folder is found at its own place.
        outside: follow all links, but no loops.
    """
    excluded, folders = pattern_of(exclude), deque([root])
    seen, links = set[tuple[int, int]](), deque[Path]()
    while folders or links:
        if not folders:
            folders, links = links, folders
        folder = folders.popleft()
        try:
            status = folder.stat()
            if (linked or outside) and (status.st_dev, status.st_ino) in seen:
                continue
            with os.scandir(folder) as entries:
                there = sorted(entries, key=lambda entry: entry.name)
        except OSError as error:  # no permission, or a path too long for the system
            problem(folder, _reason(error), True)
            continue
        seen.add((status.st_dev, status.st_ino))
        names = {entry.name for entry in there}
        is_own = "index.sqlite" in names or {"run.json", "weights.safetensors"} <= names
        if folder != root and (is_own or ".nomedia" in names):
            problem(folder, OWN if is_own else EXCLUDED, False)
            continue
        if walked is not None:
            walked.append(folder)
        for entry in there:
            path = Path(entry.path)
            if entry.name.lower() in _SYSTEM:
                problem(path, SYSTEM, False)
            elif entry.name.startswith(".") or entry.name == "__MACOSX":
                continue
            elif excluded and excluded.fullmatch(f"/{path.relative_to(root).as_posix()}".casefold()):
                problem(path, EXCLUDED, False)
            else:
                kind = _kind(entry, None if outside else root, problem, linked)
                if kind == "folder":
                    (links if entry.is_symlink() else folders).append(path)
                elif kind == "file":
                    yield path


def pattern_of(patterns: Sequence[str]) -> re.Pattern[str] | None:
    """Return a regular expression of the paths to leave out, in linear time; None for none.

    A pattern such as "*.png" or "Screenshots" is compared with each name, and one with a slash, such as
    "trip/*.png", with the path below the root. Paths are in lower case and begin with a slash.

    Raises:
        ValueError: there are too many, or one is too long.
    """
    kept = [pattern.casefold().rstrip("/") for pattern in patterns if pattern.strip("/")]
    if len(kept) > _MOST_PATTERNS or any(len(pattern) > _LONGEST_PATTERN for pattern in kept):
        raise ValueError(f"at most {_MOST_PATTERNS} patterns of {_LONGEST_PATTERN} characters; combine them.")
    whole = [translate(f"/{pattern.lstrip('/')}" if "/" in pattern else f"*/{pattern}") for pattern in kept]
    return re.compile("|".join(whole)) if whole else None


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


def _reason(error: Exception) -> str:
    return getattr(error, "strerror", None) or str(error)
