"""Changes of folders while somebody watches them."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path

from watchfiles import Change, watch

from seesay.data.remote import is_remote
from seesay.errors import SeesayError
from seesay.search.index import Index
from seesay.search.update import UpdateReport

_SETTLED_MS = 1500  # without changes for as long as that, so that a copy of many files is one change
TRY_AGAIN_SECONDS = 60.0  # after which folders that are not there are looked for again
_LOOK_MS = 500  # between looks at whether to stop


def check_watchable(folders: Iterable[Path]) -> None:
    """Raise a SeesayError if there is a URL: an object store does not tell what changes in it."""
    for folder in filter(is_remote, folders):
        raise SeesayError(
            f"--watch: {folder} is in a store that does not tell what changes; run `seesay index` from time "
            "to time instead."
        )


def changes(folders: Sequence[Path], leave_out: Path, stop: threading.Event) -> Iterator[int]:
    """Yield the number of changed paths whenever folders have changed and settled, until told to stop.

    The first number comes when the watch has begun, and may be 0: a caller that looks at the folders then
    misses nothing. Changes that happen while the caller is at work are yielded afterwards. A folder that
    goes or comes back, as that of a drive does, is a change. Changes on network drives that other machines
    make are seen only if the environment variable WATCHFILES_FORCE_POLLING is set.

    Args:
        folders: to watch, with all that they contain but hidden files.
        leave_out: a folder in one of them that does not count.
        stop: set to end.

    Raises:
        OSError: none of the folders is there, or the system watches no more files.
        SeesayError: one is a URL.
    """
    check_watchable(folders)
    while not stop.is_set():
        there = _there(folders)
        if not there:
            raise FileNotFoundError(f"{', '.join(map(str, folders))}: not there.")
        for count in _changes_of(list(there), leave_out.resolve(), stop):
            if count is not None:
                yield count
            if _there(folders) != there:
                break  # others are to be watched now


def _there(folders: Sequence[Path]) -> dict[Path, tuple[int, int]]:
    """The folders that are there, with what tells whether something else was mounted at their places."""
    found = {}
    for folder in folders:
        with suppress(OSError):
            stat = folder.stat()
            found[folder.resolve()] = (stat.st_dev, stat.st_ino)
    return found


def _changes_of(roots: Sequence[Path], without: Path, stop: threading.Event) -> Iterator[int | None]:
    """Yield the number of changes when the watch has begun, then of each change; None twice a second."""

    def counts(_change: Change, name: str) -> bool:
        path = Path(name)
        inside = next((path.relative_to(root).parts for root in roots if path.is_relative_to(root)), ())
        return not path.is_relative_to(without) and not any(part.startswith(".") for part in inside)

    found = watch(
        *roots,
        watch_filter=counts,
        stop_event=stop,
        raise_interrupt=False,
        debounce=2 * _SETTLED_MS,
        step=_SETTLED_MS,
        rust_timeout=_LOOK_MS,
        yield_on_timeout=True,
    )
    yield len(next(found, ()))
    for each in found:
        yield len(each) or None


def follow(
    index: Index,
    told: Callable[[UpdateReport | SeesayError], None],
    stop: threading.Event,
) -> None:
    """Update an index now and whenever one of its folders changes, until told to stop or Ctrl-C.

    A file that has moved keeps its vector and its id. An update that fails, as one does while another process
    updates the index, is told, and the next change is waited for. If none of the folders is there, as when a
    drive was unplugged, that is told, and they are looked for again.

    Args:
        index: to update.
        told: is called with the report of each update that changed something or after which other folders are
            absent, or with its error.
        stop: set to end.
    """
    while not stop.is_set():
        try:
            _follow(index, told, stop)
            return
        except OSError as error:
            told(SeesayError(f"{error} Not watched; looking again in {TRY_AGAIN_SECONDS:g} seconds."))
            stop.wait(TRY_AGAIN_SECONDS)


def _follow(index: Index, told: Callable[[UpdateReport | SeesayError], None], stop: threading.Event) -> None:
    folders = [root.folder for root in index.roots()]
    absent = [str(root.folder) for root in index.absent()]
    for _ in changes(folders, index.folder, stop):
        try:
            report = index.update_images(folders)
        except SeesayError as error:
            told(error)
            continue
        changed = report.added or report.changed or report.moved or report.deleted
        if changed or report.absent != absent:
            told(report)
        absent = report.absent
