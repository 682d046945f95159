"""The files of a folder or at a URL."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import cast

from seesay.data.remote import as_remote

Problem = Callable[[Path, str, bool], None]
"""Called with what is left out, why, and whether it could not be read, so that more may lie behind it."""


def walk_files(root: Path, problem: Problem | None = None, leave_out: Path | None = None) -> Iterator[Path]:
    """Iterate over the regular files below a folder or URL, nearest first, in order of names.

    Hidden files and folders are left out.

    Args:
        root: a folder, resolved if problems are wanted, or a URL.
        problem: told what else is left out. With it, links are followed only to files inside `root`: a linked
            folder inside is found at its own place. Without it, all links are followed, but no loop of them.
        leave_out: a folder that is left out.

    Raises:
        OSError: the store of a URL cannot be asked.
    """
    if remote := as_remote(root):
        for path, _ in remote.walk():
            if not any(map(_is_hidden, path.relative_to(root).parts)):
                yield cast(Path, path)
        return
    level, seen = [root], set[tuple[int, int]]()
    while level:
        folders: list[Path] = []
        for folder in level:
            try:
                status = folder.stat()
                if problem is None and (status.st_dev, status.st_ino) in seen:
                    continue
                with os.scandir(folder) as entries:
                    there = sorted(entries, key=lambda entry: entry.name)
            except OSError as error:  # no permission, or a path too long for the system
                (problem or _ignore)(folder, _reason(error), True)
                continue
            seen.add((status.st_dev, status.st_ino))
            for entry in there:
                if not _is_hidden(entry.name) and Path(entry.path) != leave_out:
                    kind = _kind(entry, root, problem)
                    if kind == "folder":
                        folders.append(Path(entry.path))
                    elif kind == "file":
                        yield Path(entry.path)
        level = folders


def _kind(entry: os.DirEntry[str], root: Path, problem: Problem | None) -> str:
    """Return "folder", "file", or nothing for what is left out; see `walk_files`."""
    path, told = Path(entry.path), problem or _ignore
    try:
        is_link = problem is not None and entry.is_symlink()
        if is_link and not path.resolve(strict=True).is_relative_to(root):
            told(path, "a link out of the folder", False)
        elif entry.is_dir():
            return "" if is_link else "folder"
        elif entry.is_file():
            return "file"
        else:
            told(path, "not a regular file", False)
    except FileNotFoundError:
        told(path, "a link to nothing", False)
    except (OSError, RuntimeError) as error:  # RuntimeError for a loop, up to Python 3.12
        told(path, _reason(error), True)
    return ""


def _is_hidden(name: str) -> bool:
    return name.startswith(".") or name == "__MACOSX"


def _ignore(_path: Path, _reason: str, _unread: bool) -> None:
    pass


def _reason(error: Exception) -> str:
    return getattr(error, "strerror", None) or str(error)
