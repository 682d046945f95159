"""Digests of the files of an export: by them towers are told apart, whatever their tower.json says."""

from __future__ import annotations

import hashlib
import time
from contextlib import suppress
from pathlib import Path

from seesay.paths import cache_dir, file_digest, replace_text

FILES = ("image.onnx", "text.onnx", "tokenizer.json", "tower.json")
_SMALL = 1 << 20  # bytes; a larger file's digest is remembered
_SETTLED = 2.0  # seconds after which a change is seen in a file's times


def export_digest(folder: Path, files: tuple[str, ...] = FILES) -> str:
    """Hash those files of an export that are there.

    Raises:
        OSError: one cannot be read.
    """
    there = (folder / file for file in files)
    digests = "".join(_remembered(path) for path in there if path.is_file())
    return hashlib.blake2b(digests.encode(), digest_size=16).hexdigest()


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
