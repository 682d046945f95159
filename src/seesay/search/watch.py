"""Changes of a folder while somebody watches it."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from pathlib import Path

from watchfiles import Change, watch

from seesay.errors import SeesayError
from seesay.search.index import Index
from seesay.search.update import UpdateReport

_SETTLED_MS = 1500  # without changes for as long as that, so that a copy of many files is one change
_LOOK_MS = 500  # between looks at whether to stop


def changes(folder: Path, leave_out: Path, stop: threading.Event) -> Iterator[int]:
    """Yield the number of changed paths whenever a folder has changed and settled, until told to stop.

    The first number comes when the watch has begun, and may be 0: a caller that looks at the folder then
    misses nothing. Changes that happen while the caller is at work are yielded afterwards. Changes on
    network drives that other machines make are seen only if the environment variable
    WATCHFILES_FORCE_POLLING is set.

    Args:
        folder: to watch, with all that it contains but hidden files.
        leave_out: a folder in it that does not count.
        stop: set to end.

    Raises:
        OSError: the folder does not exist, or the system watches no more files.
    """
    root, without = folder.resolve(), leave_out.resolve()

    def counts(_change: Change, name: str) -> bool:
        path = Path(name)
        inside = path.relative_to(root).parts if path.is_relative_to(root) else ()
        return not path.is_relative_to(without) and not any(part.startswith(".") for part in inside)

    found = watch(
        root,
        watch_filter=counts,
        stop_event=stop,
        raise_interrupt=False,
        debounce=2 * _SETTLED_MS,
        step=_SETTLED_MS,
        rust_timeout=_LOOK_MS,
        yield_on_timeout=True,
    )
    yield len(next(found, ()))
    yield from filter(None, map(len, found))


def follow(
    index: Index,
    photos: Path,
    told: Callable[[UpdateReport | SeesayError], None],
    stop: threading.Event,
) -> None:
    """Update an index now and whenever the folder of its images changes, until told to stop or Ctrl-C.

    A file that has moved keeps its vector and its id. An update that fails, as one does while another process
    updates the index, is told, and the next change is waited for.

    Args:
        index: to update.
        photos: the folder of its images.
        told: is called with the report of each update that changed something, or with its error.
        stop: set to end.

    Raises:
        OSError: the folder does not exist, or the system watches no more files.
    """
    for _ in changes(photos, index.folder, stop):
        try:
            report = index.update_images(photos)
        except SeesayError as error:
            told(error)
            continue
        if report.added or report.changed or report.moved or report.deleted:
            told(report)
