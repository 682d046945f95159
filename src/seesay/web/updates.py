"""Updates of a served index: one at a time, in a separate thread, with their progress."""

from __future__ import annotations

import threading
import time
import traceback
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import NamedTuple

from seesay.errors import SeesayError
from seesay.search.index import Index
from seesay.search.watch import keep_updated
from seesay.web import log_line
from seesay.web.answers import UpdateState

NO_FOLDER = "The index has no folder yet; add one with seesay index PHOTOS."


class Times(NamedTuple):
    """How often something happened, and when last, in seconds since 1970."""

    often: int = 0
    last: float = 0.0


class _StoppedError(Exception):
    """Raised within an update to stop it."""


class Updates:
    """Runs the updates of an index in a separate thread, and reports their progress.

    Args:
        index: the index to update.
        photos: folders of images to add to it.
        name: the name of the index for clients.
    """

    def __init__(self, index: Index, photos: Iterable[Path], name: str) -> None:
        self._index, self._photos = index, [folder.resolve() for folder in photos]
        self._lock = threading.Lock()
        self._thread: threading.Thread | None = None
        self._state = UpdateState(index=name, running=False, done=0, total=0)
        self._stopped = threading.Event()
        self._watcher: threading.Thread | None = None
        self._skipped: dict[str, str] = {}
        self._outcomes = {"finished": Times(), "failed": Times()}

    @property
    def possible(self) -> bool:
        """Whether the index has a folder, or gets one from `photos`."""
        return bool(self._folders())

    def start(self) -> bool:
        """Start an update and return True; return False if one is running."""
        with self._lock:
            if self._state.running:
                return False
            self._state = UpdateState(index=self._state.index, running=True, done=0, total=0)
            # A daemon, so that the server can stop at once; an update may be killed at any time.
            self._thread = threading.Thread(target=self.run, name="seesay-update", daemon=True)
            self._thread.start()
            return True

    def watch(self) -> None:
        """Update the index now and whenever one of its folders changes, until `end`."""
        self._watcher = threading.Thread(target=self._watch, name="seesay-watch", daemon=True)
        self._watcher.start()

    def _watch(self) -> None:
        def folders() -> list[Path]:
            if found := self._folders():
                return found
            raise SeesayError(NO_FOLDER)

        def told(error: object) -> None:
            log_line(f"{self._index.place}: {error}")

        update = self._update_after_others
        for _ in keep_updated(update, folders, self._index.folders_below, told, self._stopped):
            pass  # its state says what it did

    def _update_after_others(self) -> None:
        """Update when no other update is running.

        Raises:
            SeesayError: the update failed.
        """
        while not self._stopped.is_set() and not self.start():
            self.join()
        self.join()
        if self.state().error and not self._stopped.is_set():
            raise SeesayError("The update failed.")

    def _folders(self) -> list[Path]:
        return list(dict.fromkeys([*(root.folder for root in self._index.roots()), *self._photos]))

    def faults(self) -> dict[str, str]:
        """Return the reasons why files could not be indexed, or folders not read, by path."""
        lasting = {path: reason for path, (*_, reason) in self._index.store.skipped().items()}
        return dict(sorted((self._skipped | lasting).items()))

    @property
    def running(self) -> bool:
        """Whether an update is running."""
        return self._state.running

    def state(self) -> UpdateState:
        """Return the progress of the update, or the outcome of the last one."""
        with self._lock:
            state = self._state
        now = {"images": self._index.count("image"), "generation": self._index.store.generation()}
        return state.model_copy(update=now)

    def outcomes(self) -> Mapping[str, Times]:
        """Return how many updates finished and failed, and when last; stopped ones count as neither."""
        return dict(self._outcomes)

    def join(self, seconds: float | None = None) -> None:
        """Wait until no update is running, with a time limit."""
        if self._thread is not None:
            self._thread.join(seconds)

    def end(self) -> None:
        """Stop watching, and stop an update after its current batch; finished work is kept."""
        self._stopped.set()

    def wait_for_end(self, seconds: float) -> None:
        """Wait after `end` until all threads have ended, with a time limit for each."""
        self.join(seconds)
        if self._watcher is not None:
            self._watcher.join(seconds)

    def run(self) -> None:
        """Update the index now, in this thread."""
        ended: dict[str, object] = {"running": False}
        outcome = "finished"
        try:
            folders = self._folders()
            # Somebody may have added a root since the server started, which would count as confirmed below.
            self._index.check_roots()
            report = self._index.update_images(folders, self._progress)
            self._skipped = dict(report.skipped)
            ended |= {"added": report.added + report.changed, "deleted": report.deleted}
            ended["seconds"] = report.seconds
            if report.added or report.changed or report.deleted:
                log_line(
                    f"{self._index.place}: {report.added} added, {report.changed} changed, "
                    f"{report.deleted} deleted in {report.seconds:.0f} s"
                )
        except _StoppedError:
            outcome = ""
            ended["error"] = "The update was stopped; start it again to go on."
        except Exception as error:
            known = isinstance(error, SeesayError)
            for line in [str(error)] if known else traceback.format_exc().splitlines():
                log_line(f"{self._index.place}: {line}")
            outcome = "failed"
            ended["error"] = "The update failed; see the log of the server."  # which may name paths
        if outcome:
            self._outcomes[outcome] = Times(self._outcomes[outcome].often + 1, time.time())
        with self._lock:
            self._state = self._state.model_copy(update=ended)

    def _progress(self, done: int, total: int) -> None:
        if self._stopped.is_set():
            raise _StoppedError
        with self._lock:
            self._state = self._state.model_copy(update={"done": done, "total": total})
