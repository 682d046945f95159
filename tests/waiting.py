"""Waiting for what other threads do."""

from __future__ import annotations

import time
from collections.abc import Callable


def waited(until: Callable[[], object]) -> None:
    """Ask again and again until the answer is yes."""
    end = time.monotonic() + 30
    while not until():
        assert time.monotonic() < end, "nothing happened"
        time.sleep(0.02)
