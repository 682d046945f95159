"""The command line in this process, which saves the seconds that each start takes."""

from __future__ import annotations

import io
from contextlib import chdir, redirect_stderr, redirect_stdout
from pathlib import Path
from typing import NamedTuple

import pytest

from seesay.cli import main


class Done(NamedTuple):
    stdout: str
    stderr: str


def seesay(*arguments: object, code: int = 0, cwd: Path | None = None) -> Done:
    """Run a command that must end with that exit code."""
    out, err = io.StringIO(), io.StringIO()
    with redirect_stdout(out), redirect_stderr(err), chdir(cwd or "."), pytest.raises(SystemExit) as end:
        main(list(map(str, arguments)))
    done = Done(out.getvalue(), err.getvalue())
    assert end.value.code == code, f"{arguments}: exit {end.value.code}\n{done.stdout}\n{done.stderr}"
    return done
