"""The files of a folder, and what a walk through it leaves out."""

from __future__ import annotations

import os
import re
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from fnmatch import translate
from pathlib import Path

from seesay.data.formats import ARCHIVE
from seesay.data.texts import composed
from seesay.errors import install_command
from seesay.paths import INDEX, RUN, WEIGHTS

SYSTEM, OWN, EXCLUDED = "system folder", "seesay folder", "excluded path"
LEFT_OUT = {
    SYSTEM: "such as @eaDir or #recycle, left out",
    OWN: "an index or a run, left out",
    EXCLUDED: "left out by --exclude or .nomedia",
}
"""What a walk leaves out, and how it is explained."""

LINK_OUT = "a link out of the folder"
_SYSTEM = frozenset(
    ("@eadir", "#recycle", "$recycle.bin", ".stversions", "lost+found", "system volume information")
)
_MOST_PATTERNS, _LONGEST_PATTERN = 100, 200

LeftOut = Callable[[Path, str, bool], None]
"""Called with a path that is left out, the reason, and whether it could not be read and may contain more."""


def walk_files(
    root: Path,
    left_out: LeftOut = lambda *_: None,
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
        left_out: called with what else is left out.
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
            left_out(folder, _reason(error), True)
            continue
        seen.add((status.st_dev, status.st_ino))
        names = {entry.name for entry in there}
        is_own = INDEX in names or {RUN, WEIGHTS} <= names
        if folder != root and (is_own or ".nomedia" in names):
            left_out(folder, OWN if is_own else EXCLUDED, False)
            continue
        if walked is not None:
            walked.append(folder)
        for entry in there:
            path = Path(entry.path)
            if entry.name.lower() in _SYSTEM:
                left_out(path, SYSTEM, False)
            elif is_hidden(entry.name):
                continue
            elif excluded and excluded.fullmatch(
                composed(f"/{path.relative_to(root).as_posix()}").casefold()
            ):
                left_out(path, EXCLUDED, False)
            else:
                kind = _kind(entry, None if outside else root, left_out, linked)
                if kind == "folder":
                    (links if entry.is_symlink() else folders).append(path)
                elif kind == "file":
                    yield path


def is_hidden(name: str) -> bool:
    """Whether a file or folder of that name is left out of any folder."""
    return name.startswith(".") or name == "__MACOSX" or name.lower() in _SYSTEM


def pattern_of(patterns: Sequence[str]) -> re.Pattern[str] | None:
    """Return a regular expression of the paths to leave out, in linear time; None for none.

    A pattern such as "*.png" or "Screenshots" is compared with each name, and one with a slash, such as
    "trip/*.png", with the path below the root. Paths are in lower case and begin with a slash.

    Raises:
        ValueError: there are too many, or one is too long.
    """
    kept = [composed(pattern).casefold().rstrip("/") for pattern in patterns if pattern.strip("/")]
    if len(kept) > _MOST_PATTERNS or any(len(pattern) > _LONGEST_PATTERN for pattern in kept):
        raise ValueError(f"at most {_MOST_PATTERNS} patterns of {_LONGEST_PATTERN} characters; combine them.")
    whole = [translate(f"/{pattern.lstrip('/')}" if "/" in pattern else f"*/{pattern}") for pattern in kept]
    return re.compile("|".join(whole)) if whole else None


def _kind(entry: os.DirEntry[str], root: Path | None, left_out: LeftOut, linked: bool) -> str:
    """Return "folder", "file", or "" for what is left out; see `walk_files`."""
    path = Path(entry.path)
    try:
        is_link = root is not None and entry.is_symlink()
        if root is not None and is_link and not path.resolve(strict=True).is_relative_to(root):
            left_out(path, LINK_OUT, False)
        elif entry.is_dir():
            return "" if is_link and not linked else "folder"
        elif entry.is_file():
            return "file"
        else:
            left_out(path, "not a regular file", False)
    except FileNotFoundError:
        left_out(path, "a link to nothing", False)
    except (OSError, RuntimeError) as error:  # RuntimeError for a loop, up to Python 3.12
        left_out(path, _reason(error), True)
    return ""


def _reason(error: Exception) -> str:
    return getattr(error, "strerror", None) or str(error)


def unread_lines(counts: Mapping[str, int], raw: str = "") -> list[str]:
    """Return a line for each kind of file that was not read, most frequent first: how many, and what to do.

    Args:
        counts: the number of files of each kind.
        raw: what to do about raw files; by default, install the extra and update the index.

    >>> unread_lines({"SVG": 1, "video": 312})
    ['312 video files: only images are searched', '1 SVG file: export as JPEG']
    """
    advice = {
        "raw": raw or f"{install_command('raw')} and update the index",
        "video": "only images are searched",
        ARCHIVE: "unpack it with tar -xf or unzip if it has photos",
        **LEFT_OUT,
    }
    most_first = sorted(counts.items(), key=lambda kind: (-kind[1], kind[0]))
    return [
        f"{count} {kind}{'' if kind in LEFT_OUT else ' file'}{'' if count == 1 else 's'}: "
        f"{advice.get(kind, 'export as JPEG')}"
        for kind, count in most_first
    ]
