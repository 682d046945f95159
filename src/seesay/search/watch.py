"""Watching folders for changes."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TypeVar

from watchfiles import Change, watch

from seesay.errors import SeesayError
from seesay.search.index import Index
from seesay.search.update import UpdateReport

Done = TypeVar("Done")

DEBOUNCE = 1.5  # seconds without changes, after which folders have settled: copying many files is one change
TRY_AGAIN_SECONDS = 60.0  # after which missing folders and failed updates are tried again
_LOOK_MS = 500  # between checks whether to stop


def changes(
    folders: Callable[[], Sequence[Path]],
    below: Callable[[Path], Sequence[Path]],
    told: Callable[[SeesayError], None],
    stop: threading.Event,
    debounce: float = DEBOUNCE,
) -> Iterator[int]:
    """Yield the number of changed paths whenever folders have changed and settled, until told to stop.

    The first number, which may be 0, is yielded when watching has begun, so a caller that then examines the
    folders misses nothing. Changes during the caller's work are yielded afterwards. A folder that disappears
    or returns, for example with a drive, is a change. If none can be watched, for example because all are
    missing or the system watches no more, this is reported, and 0 is yielded now and then instead. Changes by
    other machines on network drives are only seen if the environment variable WATCHFILES_FORCE_POLLING is
    set.

    Args:
        folders: returns the folders to watch.
        below: returns the folders that an update walks below one of them: no others are watched.
        told: called with the reason why none can be watched.
        stop: set to end.
        debounce: seconds without changes, after which folders have settled.
    """
    while not stop.is_set():
        try:
            watched = folders()
            there = _there(watched)
            if not there:
                raise FileNotFoundError(f"{', '.join(map(str, watched))}: not there.")
            walked = [folder for root in there for folder in below(root)]
            for count in _changes_of(walked, stop, debounce):
                if _there(watched) != there:
                    break  # other folders must be watched now
                if count is None:
                    continue
                if [folder for root in there for folder in below(root)] != walked:
                    break  # to yield when these are watched
                yield count
        except Exception as error:  # such as a system's limit of watched files; none ends a watch
            told(SeesayError(f"{error} Not watched; trying again in {TRY_AGAIN_SECONDS:g} seconds."))
            yield 0
            stop.wait(TRY_AGAIN_SECONDS)


def _there(folders: Sequence[Path]) -> dict[Path, tuple[int, int]]:
    """The existing folders, with the identity of what is mounted there."""
    found = {}
    for folder in folders:
        with suppress(OSError):
            stat = folder.stat()
            found[folder.resolve()] = (stat.st_dev, stat.st_ino)
    return found


def _changes_of(folders: Sequence[Path], stop: threading.Event, debounce: float) -> Iterator[int | None]:
    """Yield the number of changes at the start and after each change, and None twice a second."""

    def counts(change: Change, name: str) -> bool:
        path = Path(name)
        # A changed folder is one in which something was added: if it is walked, it is watched itself.
        return not path.name.startswith(".") and not (change == Change.modified and path.is_dir())

    found = watch(
        *folders,
        watch_filter=counts,
        stop_event=stop,
        debounce=round(2000 * debounce),
        step=round(1000 * debounce),
        rust_timeout=_LOOK_MS,
        yield_on_timeout=True,
        recursive=False,  # which would follow links
    )
    yield len(next(found, ()))
    for each in found:
        yield len(each) or None


def keep_updated(
    update: Callable[[], Done],
    folders: Callable[[], Sequence[Path]],
    below: Callable[[Path], Sequence[Path]],
    told: Callable[[SeesayError], None],
    stop: threading.Event,
    debounce: float = DEBOUNCE,
) -> Iterator[Done]:
    """Call `update` now and whenever folders have changed, until told to stop; again later if it fails.

    An update fails, for example, because another process is updating the index or the disk is full.

    Args:
        update: called without arguments; a SeesayError or OSError of it is reported.
        folders: see `changes`.
        below: see `changes`.
        told: called with each error.
        stop: set to end.
        debounce: see `changes`.

    Yields:
        What `update` returned.
    """
    for _ in changes(folders, below, told, stop, debounce):
        while not stop.is_set():
            try:
                done = update()
            except (SeesayError, OSError) as error:
                told(SeesayError(f"{error} Trying again in {TRY_AGAIN_SECONDS:g} seconds."))
                stop.wait(TRY_AGAIN_SECONDS)
            else:
                yield done
                break


def follow(
    index: Index,
    told: Callable[[UpdateReport | SeesayError], None],
    stop: threading.Event,
    debounce: float = DEBOUNCE,
) -> None:
    """Keep an index updated, see `keep_updated`, until told to stop or Ctrl-C.

    A moved file keeps its vector and id.

    Args:
        index: to update.
        told: called with the report of each update that changed something or found other folders missing, or
            with its error.
        stop: set to end.
        debounce: see `changes`.

    Raises:
        SeesayError: somebody else made the index and the user has not confirmed one.
    """

    def folders() -> list[Path]:
        return [root.folder for root in index.roots()]

    index.check_roots()
    absent = [str(root.folder) for root in index.absent()]
    for report in keep_updated(index.update_images, folders, index.folders_below, told, stop, debounce):
        changed = report.added or report.changed or report.moved or report.deleted
        if changed or report.absent != absent:
            told(report)
        absent = report.absent
