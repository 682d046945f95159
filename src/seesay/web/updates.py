"""Updates of a served index: one at a time, in a separate thread, with their progress."""

from __future__ import annotations

import threading
import traceback
from collections.abc import Iterable
from pathlib import Path

from seesay.errors import SeesayError
from seesay.search.index import Index
from seesay.search.watch import DEBOUNCE, follow
from seesay.web import log_line
from seesay.web.answers import UpdateState


class _StoppedError(Exception):
    """Raised within an update to stop it."""


class Updates:
    """Runs the updates of an index in a separate thread, and reports their progress.

    Args:
        index: the index to update.
        photos: folders of images to add to it.
        name: the name of the index for clients.

    Attributes:
        failed: whether the last update failed.
    """

    def __init__(self, index: Index, photos: Iterable[Path], name: str) -> None:
        self._index, self._photos = index, [folder.resolve() for folder in photos]
        self._alone = threading.Lock()  # held by an update
        self._state = UpdateState(index=name)
        self._stopped = threading.Event()
        self._watcher: threading.Thread | None = None
        self._skipped: dict[str, str] = {}
        self.failed = False

    def start(self) -> bool:
        """Start an update and return True; return False if one is running."""
        if not self._alone.acquire(blocking=False):
            return False
        self._state = UpdateState(index=self._state.index, running=True)
        # A daemon, so that the server can stop at once; an update may be killed at any time.
        threading.Thread(target=self._update, name="seesay-update", daemon=True).start()
        return True

    def watch(self) -> None:
        """Update the index now and whenever one of its folders changes, until `end`."""

        def told(error: object) -> None:  # its state says what an update did
            log_line(f"{self._index.place}: {error}")

        given = (self._index, told, self._stopped, DEBOUNCE, self.run, self._photos)
        self._watcher = threading.Thread(target=follow, args=given, name="seesay-watch", daemon=True)
        self._watcher.start()

    def folders(self) -> list[Path]:
        """Return the folders of the index, and those to be added."""
        return self._index.folders(self._photos)

    def faults(self) -> dict[str, str]:
        """Return the reasons why files could not be indexed, or folders not read, by path."""
        return dict(sorted((self._skipped | self._index.store.faults()).items()))

    @property
    def running(self) -> bool:
        """Whether an update is running."""
        return self._state.running

    def state(self) -> UpdateState:
        """Return the progress of the update, or the outcome of the last one."""
        now = {"images": self._index.count("image"), "generation": self._index.store.generation()}
        return self._state.model_copy(update=now)

    def join(self, seconds: float) -> None:
        """Wait until no update is running and, after `end`, nothing is watched; each at most that long."""
        if self._alone.acquire(timeout=seconds):
            self._alone.release()
        if self._watcher is not None and self._stopped.is_set():
            self._watcher.join(seconds)

    def end(self) -> None:
        """Stop watching, and stop an update after its current batch; finished work is kept."""
        self._stopped.set()

    def run(self) -> None:
        """Update the index in this thread, after an update that is running.

        Raises:
            SeesayError: the update failed.
        """
        self._alone.acquire()
        self._state = UpdateState(index=self._state.index, running=True)
        self._update()
        if self.failed:
            raise SeesayError("The update failed.")

    def _update(self) -> None:
        """Update, and release the lock, which the caller has acquired."""
        ended: dict[str, object] = {"running": False}
        self.failed = False
        try:
            # Somebody may have added a root since the server started, which would count as confirmed below.
            self._index.check_roots()
            report = self._index.update_images(self.folders(), self._progress)
            self._skipped = dict(report.skipped)
            ended |= {"added": report.added + report.changed, "deleted": report.deleted}
            ended["seconds"] = report.seconds
            if report.added or report.changed or report.deleted:
                log_line(
                    f"{self._index.place}: {report.added} added, {report.changed} changed, "
                    f"{report.deleted} deleted in {report.seconds:.0f} s"
                )
        except _StoppedError:
            ended["error"] = "The update was stopped; start it again to go on."
        except Exception as error:
            known = isinstance(error, SeesayError)
            for line in [str(error)] if known else traceback.format_exc().splitlines():
                log_line(f"{self._index.place}: {line}")
            self.failed = True
            ended["error"] = "The update failed; see the log of the server."  # which may name paths
        finally:
            self._state = self._state.model_copy(update=ended)
            self._alone.release()

    def _progress(self, done: int, total: int) -> None:
        if self._stopped.is_set():
            raise _StoppedError
        self._state = self._state.model_copy(update={"done": done, "total": total})
