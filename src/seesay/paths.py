"""Where seesay keeps what it can make again: exported networks and features."""

from __future__ import annotations

import os
from pathlib import Path

from platformdirs import user_cache_dir


def cache_dir() -> Path:
    """The cache folder: $SEESAY_CACHE, or the operating system's place for caches."""
    chosen = os.environ.get("SEESAY_CACHE")
    return Path(chosen) if chosen else Path(user_cache_dir("seesay"))


def replace_text(path: Path, text: str) -> None:
    """Write a text file beside its place, then rename it: a kill leaves the old one or the new one."""
    beside = path.with_name(f"{path.name}.{os.getpid()}.tmp")
    beside.write_text(text, encoding="utf-8")
    beside.replace(path)
