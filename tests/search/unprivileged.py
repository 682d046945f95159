"""Python without the privileges of root, whom no permission stops; tests often run as root."""

import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]

DROP = """
import ctypes
if ctypes.CDLL(None).capset((ctypes.c_uint32 * 2)(0x20080522, 0), (ctypes.c_uint32 * 6)()):
    raise SystemExit("cannot drop the capabilities")
"""


def run(script: str, *arguments: object) -> str:
    """What a script prints that has no privileges but the permissions of files (Linux only)."""
    environment = os.environ | {"PYTHONPATH": os.pathsep.join([*sys.path, str(ROOT)])}
    command = [sys.executable, "-c", DROP + script, *map(str, arguments)]
    done = subprocess.run(command, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout
