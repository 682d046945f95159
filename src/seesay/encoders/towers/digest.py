"""Digests of the files of an export: by them towers are told apart, whatever their tower.json says."""

from __future__ import annotations

import hashlib
import time
from contextlib import suppress
from pathlib import Path

from seesay.paths import cache_dir, file_digest, replace_text

TOWER = "tower.json"
# What is added to a folder before it is given away; any other file may hold weights of a network.
_NOTES = frozenset({"license", "licence", "copying", "notice", "readme", ""})
_SMALL = 1 << 20  # bytes; a larger file's digest is remembered
_SETTLED = 2.0  # seconds after which a change is seen in a file's times


def export_digest(folder: Path, without: str = "") -> str:
    """Hash the files of an export but for notes and one that is named.

    Raises:
        OSError: one cannot be read.
    """
    files = sorted(path for path in folder.iterdir() if path.is_file() and not _is_note(path))
    digests = "".join(_remembered(path) for path in files if path.name != without)
    return hashlib.blake2b(digests.encode(), digest_size=16).hexdigest()


def _is_note(path: Path) -> bool:
    """Return whether a file is a licence, a card or hidden: `LICENSE`, `README.md`, `.gitattributes`."""
    return path.name.partition(".")[0].lower() in _NOTES


def _remembered(path: Path) -> str:
    """Return a file's digest; a large one is read once, until its size or one of its times is another."""
    stat = path.stat()
    if stat.st_size < _SMALL:
        return file_digest(path)
    state = f"{path.resolve()} {stat.st_ino} {stat.st_size} {stat.st_mtime_ns} {stat.st_ctime_ns}"
    note = cache_dir() / "digests" / hashlib.sha256(state.encode()).hexdigest()
    with suppress(OSError, UnicodeError):
        if len(digest := note.read_text(encoding="ascii")) == 64:
            return digest
    digest = file_digest(path)
    if time.time() - max(stat.st_mtime, stat.st_ctime) > _SETTLED:
        with suppress(OSError):  # a cache that cannot be written costs the time again
            note.parent.mkdir(parents=True, exist_ok=True)
            replace_text(note, digest)
    return digest
