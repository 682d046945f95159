"""Progress of long work: a bar with rate and time left on a terminal, plain lines otherwise.

`show_progress(False)`, or the environment variable SEESAY_PROGRESS=0, switches it off.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager

Advance = Callable[[int], None]

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
def progress(what: str, total: int, unit: str, began: float | None = None) -> Iterator[Advance]:
    """Show the progress of `total` units on standard error; call the given function with each step's size.

    `began` is the monotonic time at which the work began, if that was before now.
    """
    if total == 0 or os.environ.get(_VARIABLE) == "0":
        yield lambda _: None
        return
    if not sys.stderr.isatty():
        yield _lines(what, total, unit, time.monotonic() if began is None else began)
        return
    with _bar(what, total, unit) as advance:
        yield advance


@contextmanager
def _bar(what: str, total: int, unit: str) -> Iterator[Advance]:
    from rich import progress as rich  # slow to import, and not needed for what is quick
    from rich.console import Console
    from rich.text import Text

    class Rate(rich.ProgressColumn):
        def render(self, task: rich.Task) -> Text:
            return Text(f"{task.speed or 0:.1f} {unit}/s", style="cyan")

    columns = (
        rich.TextColumn(what),
        rich.BarColumn(),
        rich.MofNCompleteColumn(),
        Rate(),
        rich.TimeRemainingColumn(),
    )
    with rich.Progress(*columns, console=Console(stderr=True)) as bar:
        task = bar.add_task(what, total=total)
        yield lambda step: bar.advance(task, step)


def _lines(what: str, total: int, unit: str, start: float) -> Advance:
    done, shown = 0, start

    def advance(step: int) -> None:
        nonlocal done, shown
        done += step
        now = time.monotonic()
        if now - shown < _SECONDS_BETWEEN_LINES and done < total:
            return
        shown = now
        rate = done / max(now - start, 1e-9)
        left = (total - done) / max(rate, 1e-9)
        line = f"{what}: {done}/{total} {unit}, {rate:.1f} {unit}/s, {left:.0f} s left"
        print(line, file=sys.stderr, flush=True)

    return advance


@contextmanager
def counting(what: str, unit: str) -> Iterator[Advance]:
    """Show how many units there are so far, where their number is not known beforehand."""
    if os.environ.get(_VARIABLE) == "0":
        yield lambda _: None
        return
    done, shown = 0, time.monotonic()

    def advance(step: int) -> None:
        nonlocal done, shown
        done += step
        if time.monotonic() - shown >= _SECONDS_BETWEEN_LINES:
            shown = time.monotonic()
            tell(f"{what}: {done} {unit}")

    if not sys.stderr.isatty():
        yield advance
        return
    from rich.console import Console

    with Console(stderr=True).status(what) as status:

        def advance_and_show(step: int) -> None:
            advance(step)
            status.update(f"{what}: {done} {unit}")

        yield advance_and_show


def tell(line: str) -> None:
    """Print a line on standard error, before work whose end cannot be foreseen."""
    if os.environ.get(_VARIABLE) != "0":
        print(line, file=sys.stderr, flush=True)


@contextmanager
def progress_of(what: str, unit: str) -> Iterator[Callable[[int, int], None]]:
    """Show the progress of work that calls the given function with (done, total)."""
    entered = time.monotonic()
    with ExitStack() as stack:
        advance: Advance | None = None
        shown = 0

        def at(done: int, total: int) -> None:
            nonlocal advance, shown
            if advance is None:
                began = entered if done else None  # the first call may come when some work is done
                advance = stack.enter_context(progress(what, total, unit, began))
            advance(done - shown)
            shown = done

        yield at
