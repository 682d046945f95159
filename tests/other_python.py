"""A shell script in place of the Python that this one would start."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest


def start_instead(commands: str, folder: Path, patch: pytest.MonkeyPatch) -> None:
    """Have commands of a shell run, from a file in a folder, where Python would be started."""
    script = folder / "python"
    script.write_text(f"#!/bin/sh\n{commands}\n")
    script.chmod(0o755)
    patch.setattr(sys, "executable", str(script))
