"""The cache folder, and files that a kill never leaves half written."""

from __future__ import annotations

import os
import threading
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from pathlib import Path

from platformdirs import user_cache_dir

from seesay.errors import SeesayError


def cache_dir() -> Path:
    """Return the cache folder: $SEESAY_CACHE, or the operating system's place for caches."""
    chosen = os.environ.get("SEESAY_CACHE")
    return Path(chosen) if chosen else Path(user_cache_dir("seesay"))


@contextmanager
def replacing(path: Path) -> Iterator[Path]:
    """Yield a temporary path beside `path` and rename it to `path` at the end, or delete it on an error.

    A kill leaves the old file or the new one, never a part.
    """
    beside = path.with_name(f"{path.name}.{os.getpid()}.{threading.get_ident()}.tmp")
    try:
        yield beside
        beside.replace(path)
    finally:
        beside.unlink(missing_ok=True)


def check_output(out: Path, suffixes: Collection[str]) -> None:
    """Check that a file can be written there, before anything is computed for it.

    Raises:
        SeesayError: another suffix, or no such folder.
    """
    if out.suffix.lower() not in suffixes:
        raise SeesayError(f"{out}: the name must end in {', '.join(suffixes)}; choose one of these.")
    if not out.parent.is_dir():
        raise SeesayError(f"{out.parent}: no such folder; create it before writing {out.name} to it.")


@contextmanager
def writing(out: Path) -> Iterator[Path]:
    """Do as `replacing`, but raise a `SeesayError` if the system refuses: for files that a user named."""
    try:
        with replacing(out) as beside:
            yield beside
    except OSError as error:
        raise SeesayError(f"{out}: cannot be written ({error.strerror or error}).") from error


def replace_text(path: Path, text: str) -> None:
    """Write a text file as `replacing` does."""
    with replacing(path) as beside:
        beside.write_text(text, encoding="utf-8")
