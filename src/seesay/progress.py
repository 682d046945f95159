"""Progress of long work: a bar with rate and time left on a terminal, plain lines otherwise.

`show_progress(False)`, or the environment variable SEESAY_PROGRESS=0, switches it off.
"""

from __future__ import annotations

import os
import re
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager

Advance = Callable[[int], None]
Report = Callable[[int, int | None], None]  # done and total, which may be unknown

CONTROLS = re.compile(r"[\x00-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")
"""Characters that control a terminal, or the direction of text."""

_SECONDS_BETWEEN_LINES = 10.0
_VARIABLE = "SEESAY_PROGRESS"


def show_progress(shown: bool) -> None:
    """Switch the progress of long work on standard error on or off, in this process and those it starts.

    The environment variable `SEESAY_PROGRESS=0` switches it off too.

    Example:
        >>> import seesay
        >>> seesay.show_progress(False)
        >>> seesay.show_progress(True)
    """
    os.environ[_VARIABLE] = "1" if shown else "0"


@contextmanager
def progress(what: str, total: int | None, unit: str) -> Iterator[Advance]:
    """Show the progress of `total` units on standard error; call the given function with each step's size.

    If the total is None, it is unknown, and only what is done is counted.
    """
    done = 0
    with progress_of(what, unit) as report:
        report(0, total)

        def advance(step: int) -> None:
            nonlocal done
            done += step
            report(done, total)

        yield advance


@contextmanager
def progress_of(what: str, unit: str) -> Iterator[Report]:
    """Show the progress of work that calls the given function with (done, total), as `progress` does."""
    if os.environ.get(_VARIABLE) == "0":
        yield lambda _done, _total: None
    elif sys.stderr.isatty():
        with ExitStack() as stack:
            yield _bar(what, unit, stack)
    else:
        yield _lines(what, unit)


def _bar(what: str, unit: str, stack: ExitStack) -> Report:
    from rich import progress as rich  # slow to import
    from rich.console import Console

    rate = rich.TextColumn("[cyan]{task.fields[rate]}")
    columns = rich.TextColumn(what), rich.BarColumn(), rich.MofNCompleteColumn(), rate
    bar = rich.Progress(*columns, rich.TimeRemainingColumn(), console=Console(stderr=True))
    task, start = bar.add_task(what, rate=""), time.monotonic()

    def report(done: int, total: int | None) -> None:
        if total != 0 and not bar.live.is_started:
            stack.enter_context(bar)
        rate = done / max(time.monotonic() - start, 1e-9)
        bar.update(task, completed=done, total=total, rate=f"{rate:.1f} {unit}/s")

    return report


def _lines(what: str, unit: str) -> Report:
    start = shown = time.monotonic()

    def report(done: int, total: int | None) -> None:
        nonlocal start, shown
        now = time.monotonic()
        if not done:
            start = shown = now
        elif now - shown >= _SECONDS_BETWEEN_LINES or done == total:
            shown = now
            rate = done / max(now - start, 1e-9)
            left = "" if total is None else f", {rate:.1f} {unit}/s, {(total - done) / rate:.0f} s left"
            tell(f"{what}: {done}{'' if total is None else f'/{total}'} {unit}{left}")

    return report


def tell(line: str) -> None:
    """Print a line on standard error, unless progress is switched off."""
    if os.environ.get(_VARIABLE) != "0":
        print(visible(line), file=sys.stderr, flush=True)


def visible(text: str) -> str:
    """Escape characters of file names that would control a terminal, end a line or reverse its text."""
    return CONTROLS.sub(lambda found: found[0].encode("unicode_escape").decode(), text)
