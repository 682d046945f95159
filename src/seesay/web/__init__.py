"""The HTTP API and the search page."""

from __future__ import annotations

import sys

from seesay.progress import visible


def log_line(message: str) -> None:
    """Write a message for the operator to standard error, as one line whatever the names in it."""
    print(visible(message), file=sys.stderr, flush=True)
