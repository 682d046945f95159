"""Progress of long work: a bar with rate and time left on a terminal, plain lines otherwise."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager

from rich import progress as rich
from rich.console import Console
from rich.text import Text

Advance = Callable[[int], None]

_SECONDS_BETWEEN_LINES = 10.0


class _Rate(rich.ProgressColumn):
    def __init__(self, unit: str) -> None:
        super().__init__()
        self.unit = unit

    def render(self, task: rich.Task) -> Text:
        """Return units of work per second."""
        return Text(f"{task.speed or 0:.1f} {self.unit}/s", style="cyan")


@contextmanager
def progress(what: str, total: int, unit: str) -> Iterator[Advance]:
    """Show the progress of `total` units on standard error; call the given function with each step's size."""
    if total == 0:
        yield lambda _: None
        return
    console = Console(stderr=True)
    if not console.is_terminal:
        yield _lines(what, total, unit)
        return
    columns = (
        rich.TextColumn(what),
        rich.BarColumn(),
        rich.MofNCompleteColumn(),
        _Rate(unit),
        rich.TimeRemainingColumn(),
    )
    with rich.Progress(*columns, console=console) as bar:
        task = bar.add_task(what, total=total)
        yield lambda step: bar.advance(task, step)


def _lines(what: str, total: int, unit: str) -> Advance:
    start = time.monotonic()
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
def progress_of(what: str, unit: str) -> Iterator[Callable[[int, int], None]]:
    """Show the progress of work that calls the given function with (done, total)."""
    with ExitStack() as stack:
        advance: Advance | None = None
        shown = 0

        def at(done: int, total: int) -> None:
            nonlocal advance, shown
            if advance is None:
                advance = stack.enter_context(progress(what, total, unit))
            advance(done - shown)
            shown = done

        yield at
