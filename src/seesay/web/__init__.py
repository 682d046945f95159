"""The HTTP API and the search page."""

from __future__ import annotations

import sys


def log_line(message: str) -> None:
    """Write a message for the operator to standard error."""
    print(message, file=sys.stderr, flush=True)
