"""Where seesay keeps what it can make again: exported networks and features."""

from __future__ import annotations

import os
from pathlib import Path

from platformdirs import user_cache_dir


def cache_dir() -> Path:
    """The cache folder: $SEESAY_CACHE, or the operating system's place for caches."""
    chosen = os.environ.get("SEESAY_CACHE")
    return Path(chosen) if chosen else Path(user_cache_dir("seesay"))
