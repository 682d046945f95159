"""The command line, called within the process of the tests: no interpreter and no PyTorch to start."""

from __future__ import annotations

import io
import os
import subprocess
import sys
import warnings
from contextlib import chdir, redirect_stderr, redirect_stdout
from pathlib import Path
from unittest.mock import patch

from seesay import cli


def seesay(*arguments: object, code: int = 0, cwd: Path | None = None) -> subprocess.CompletedProcess[str]:
    """Run a command as `main` does; fail unless it exits with `code`. Returns what it printed."""
    command = ["seesay", *map(str, arguments)]
    out, err = io.StringIO(), io.StringIO()
    with (
        patch.object(sys, "argv", command),
        chdir(cwd or os.curdir),
        redirect_stdout(out),
        redirect_stderr(err),
        warnings.catch_warnings(),
    ):
        try:
            cli.main()
            exit_code: object = 0
        except SystemExit as stop:
            exit_code = stop.code or 0
            if isinstance(exit_code, str):
                print(exit_code, file=err)
                exit_code = 1
    done = subprocess.CompletedProcess(command, int(exit_code), out.getvalue(), err.getvalue())
    assert done.returncode == code, f"{command}: exit {done.returncode}\n{done.stdout}\n{done.stderr}"
    return done
