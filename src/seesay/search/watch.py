"""Watching folders for changes."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path

from watchfiles import Change, watch

from seesay.errors import SeesayError
from seesay.paths import is_folder
from seesay.search.index import Index
from seesay.search.update import UpdateReport

DEBOUNCE = 1.5  # seconds without changes, after which folders have settled; or twice as many with changes
TRY_AGAIN_SECONDS = 60.0  # after which missing folders and failed updates are tried again


def follow(
    index: Index,
    told: Callable[[UpdateReport | SeesayError], None],
    stop: threading.Event,
    debounce: float = DEBOUNCE,
    update: Callable[[], UpdateReport | None] | None = None,
    photos: Sequence[Path] = (),
) -> None:
    """Update an index now and whenever its folders have changed and settled, until told to stop or Ctrl-C.

    A folder that disappears or returns, for example with a drive, is a change. An update that fails, for
    example on a full disk, is tried again later. Folders that cannot be watched, for example because all are
    missing or the system watches no more, are updated now and then instead. Changes by other machines on
    network drives are only seen if the environment variable WATCHFILES_FORCE_POLLING is set.

    Args:
        index: only folders that its update walks are watched.
        told: called with the report of each update that changed something or found other folders missing, and
            with each error.
        stop: set to end.
        debounce: seconds without changes, after which folders have settled. If changes go on for twice as
            long, the index is updated meanwhile.
        update: updates the index; by default `Index.update_images`. What returns None tells by itself.
        photos: folders to watch that the first update adds.

    Raises:
        SeesayError: somebody else made the index and the user has not confirmed one.
    """
    absent = list[str]()
    if update is None:  # another update checks and tells by itself, and may succeed later
        index.check_roots()
        absent = [str(root.folder) for root in index.absent()]

    for report in _updated(index, update or index.update_images, told, stop, debounce, photos):
        if report is not None:
            changed = report.added or report.changed or report.moved or report.deleted
            if changed or report.absent != absent:
                told(report)
            absent = report.absent


def _updated(
    index: Index,
    update: Callable[[], UpdateReport | None],
    told: Callable[[SeesayError], None],
    stop: threading.Event,
    debounce: float,
    photos: Sequence[Path],
) -> Iterator[UpdateReport | None]:
    """Call `update` as `follow` says, and yield what it returned."""
    while not stop.is_set():
        is_watched = False
        try:
            named = index.folders(photos)
            there = _there(named)
            if not there:
                raise FileNotFoundError(
                    f"{', '.join(map(str, named)) or 'the folders of the index'}: not there."
                )
            watched = {*there, *filter(is_folder, index.walked)}
            for is_change in _changes_of(watched, stop, debounce):
                is_watched = True
                if is_change:
                    yield update()
                if _there(named) != there or not watched.issuperset(index.walked):
                    break  # to update when the others are watched, too
        except Exception as error:  # none ends a watch
            told(SeesayError(f"{error} Trying again in {TRY_AGAIN_SECONDS:g} seconds."))
            if not is_watched:
                with suppress(SeesayError, OSError):
                    yield update()
            stop.wait(TRY_AGAIN_SECONDS)


def _there(folders: Sequence[Path]) -> dict[Path, tuple[int, int]]:
    """The existing folders, with the identity of what is mounted there."""
    found = {}
    for folder in folders:
        with suppress(OSError):
            stat = folder.stat()
            found[folder.resolve()] = (stat.st_dev, stat.st_ino)
    return found


def _changes_of(folders: Iterable[Path], stop: threading.Event, debounce: float) -> Iterator[bool]:
    """Yield True when watching has begun, so that an update misses nothing, and after each change.

    In between, yield False every `debounce` seconds, so that it can be stopped.
    """

    def counts(change: Change, name: str) -> bool:
        path = Path(name)
        # A changed folder is one in which something was added: if it is walked, it is watched itself.
        return not path.name.startswith(".") and not (change == Change.modified and path.is_dir())

    step = round(1000 * debounce)  # milliseconds
    found = watch(
        *folders,
        watch_filter=counts,
        stop_event=stop,
        debounce=2 * step,
        step=step,
        rust_timeout=step,
        yield_on_timeout=True,
        recursive=False,  # which would follow links
    )
    for number, each in enumerate(found):
        yield number == 0 or bool(each)
