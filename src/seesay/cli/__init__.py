"""The command line. It holds no logic: each command calls the library and prints its result."""

from __future__ import annotations

import errno
import json
import logging
import os
import sys
import threading
import warnings
from collections.abc import Sequence
from contextlib import suppress
from functools import partial
from importlib import import_module
from typing import NoReturn, TextIO, cast

import typer
from typer.main import get_command

from seesay.cli.options import STOPPED, app
from seesay.cli.printing import Screen
from seesay.device import choose_device, chosen_device
from seesay.errors import SeesayError, naming_extras
from seesay.progress import visible

__all__ = ["app", "main", "with_all_commands"]

_END_SECONDS = 10.0


def with_all_commands() -> typer.Typer:
    """Return the application with every command."""
    for name in ("use", "learn", "look"):
        import_module(f"seesay.cli.{name}")
    return app


def main(arguments: Sequence[str] | None = None) -> None:
    """Run a command, by default that of `sys.argv`; an error of the user is one line and exit code 2.

    With `--json`, standard output has it too, as an object with the key `error`.
    """
    # Libraries warn about damaged files, which seesay counts and reports itself.
    warnings.simplefilter("ignore")
    warnings.filterwarnings("default", module="seesay.registry")
    os.environ.setdefault("TORCH_CPP_LOG_LEVEL", "ERROR")  # PyTorch's own, such as of a failed export
    # It raises errors, which become one line, and also logs them.
    logging.getLogger("psycopg").setLevel(logging.CRITICAL)
    before, streams = chosen_device(), (sys.stdout, sys.stderr)
    sys.stdout, sys.stderr = (cast(TextIO, Screen(each)) if each.isatty() else each for each in streams)
    output = sys.stdout
    given = list(sys.argv[1:] if arguments is None else arguments) or ["--help"]
    as_json = "--json" in given
    if reconfigure := getattr(sys.stdout, "reconfigure", None):
        # Like standard error, as file names need not be valid text; JSON is UTF-8 wherever it is printed.
        reconfigure(encoding="utf-8" if as_json else None, errors="backslashreplace")
    fail = partial(_fail, as_json=as_json)
    try:
        with naming_extras():
            code = get_command(with_all_commands())(given, standalone_mode=False, obj=given)
        if code == STOPPED:  # typer's code for Ctrl-C
            raise KeyboardInterrupt
        sys.exit(code if isinstance(code, int) else 0)
    except SystemExit as ended:
        # typer ends with 1 if the reader has closed the pipe, and then wraps the output.
        sys.exit(ended.code if sys.stdout is output else 0)
    except SeesayError as error:
        fail(visible(str(error)))
    except (typer.Abort, KeyboardInterrupt):
        print("seesay: stopped; run the same command again to continue.", file=sys.stderr)
        sys.exit(STOPPED)
    except OSError as error:
        from seesay.paths import failure_of_disk

        other, allow = "choose another name", "check its permissions"
        advice = {errno.ENAMETOOLONG: other, errno.ELOOP: other, errno.EACCES: allow, errno.EPERM: allow}
        if error.errno in advice:
            fail(f"{visible(str(error.filename))}: {error.strerror}; {advice[error.errno]}.")
        if not (failure := failure_of_disk(error)):
            raise
        # Functions that read and write raise a SeesayError; this is seesay's own disk, or the output.
        place = error.filename or "standard output"  # other errors name their file
        fail(f"{place}: {failure}; check the disk and run the same command again.")
    except Exception as error:
        # typer may bundle its own click, so usage errors have no single class to catch.
        message = getattr(error, "format_message", None)
        if message is None:
            raise
        context = getattr(error, "ctx", None)
        command = f" {context.info_name}" if context is not None and context.parent is not None else ""
        fail(f"{message()} See: seesay{command} --help")
    finally:
        choose_device(before)
        try:
            sys.stdout.flush()
        except BrokenPipeError:  # `seesay recipes | head -1` closes the pipe; that is not an error
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        if sys.stdout is output:
            sys.stdout, sys.stderr = streams
        if arguments is None:  # a thread that waits for a network or a disk would keep the process
            code = getattr(sys.exc_info()[1], "code", 1) or 0
            ending = threading.Timer(_END_SECONDS, os._exit, [code])
            ending.daemon = True
            ending.start()


def _fail(message: str, as_json: bool) -> NoReturn:
    # Not with typer, which would import more modules: the disk may have failed.
    print(f"seesay: {message}", file=sys.stderr)
    if as_json:
        with suppress(OSError):
            print(json.dumps({"error": message}, ensure_ascii=False))
    sys.exit(2)
