"""Where seesay keeps what it can make again: exported networks and features."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from platformdirs import user_cache_dir


def cache_dir() -> Path:
    """The cache folder: $SEESAY_CACHE, or the operating system's place for caches."""
    chosen = os.environ.get("SEESAY_CACHE")
    return Path(chosen) if chosen else Path(user_cache_dir("seesay"))


@contextmanager
def replacing(path: Path) -> Iterator[Path]:
    """A name beside `path` to write to, renamed to it at the end: a kill leaves the old file or the new.

    The name is this process's and thread's own; whatever fails, nothing is left under it.
    """
    beside = path.with_name(f"{path.name}.{os.getpid()}.{threading.get_ident()}.tmp")
    try:
        yield beside
        beside.replace(path)
    finally:
        beside.unlink(missing_ok=True)


def replace_text(path: Path, text: str) -> None:
    """Write a text file so that a kill leaves the old one or the new one."""
    with replacing(path) as beside:
        beside.write_text(text, encoding="utf-8")
