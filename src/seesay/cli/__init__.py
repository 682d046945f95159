"""The command line. It holds no logic: each command calls the library and prints what it gives."""

from __future__ import annotations

import os
import sys
import warnings
from typing import NoReturn

import typer

from seesay.cli import learn, look, report, table, use
from seesay.cli.app import app
from seesay.errors import SeesayError

__all__ = ["app", "learn", "look", "main", "report", "table", "use"]


def main() -> None:
    """Run a command; a user's mistake is one line on standard error and exit code 2."""
    # Pillow warns of damaged metadata and of large images; seesay counts and bounds both itself.
    warnings.filterwarnings("ignore", module="PIL")
    try:
        code = app(sys.argv[1:] or ["--help"], standalone_mode=False)
        sys.exit(code if isinstance(code, int) else 0)
    except SeesayError as error:
        _fail(str(error))
    except (typer.Abort, KeyboardInterrupt):
        sys.exit("seesay: stopped; run the same command again to go on.")
    except Exception as error:
        # Usage errors come from the click that typer carries inside, or from click itself.
        message = getattr(error, "format_message", None)
        if message is None:
            raise
        _fail(f"{message()} Ask with --help, such as: seesay search --help")
    finally:
        _let_go_of_closed_pipe()


def _fail(message: str) -> NoReturn:
    typer.echo(f"seesay: {message}", err=True)
    sys.exit(2)


def _let_go_of_closed_pipe() -> None:
    # `seesay recipes | head -1`: the reader has what it wants, so there is nothing to complain of.
    try:
        sys.stdout.flush()
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
