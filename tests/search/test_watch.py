"""An index that is updated while files come, go and move."""

from __future__ import annotations

import errno
import os
import signal
import threading
from pathlib import Path

import pytest

from seesay.errors import SeesayError
from seesay.search import Index
from seesay.search.update import UpdateReport
from seesay.search.watch import follow
from tests.search.colours import Colours, gallery, opened
from tests.waiting import waited


@pytest.fixture(autouse=True)
def tried_again_soon(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("seesay.search.watch.TRY_AGAIN_SECONDS", 0.1)


def test_files_that_come_go_and_move(tmp_path: Path) -> None:
    photos, matcher = gallery(tmp_path / "photos", "red.png", "blue.png"), Colours()
    folder = photos / "index"  # among the photos: its own changes are none
    told, stop = [], threading.Event()
    with Index.create(folder, matcher) as index:
        index.update_images(photos)
        thread = threading.Thread(target=follow, args=(index, told.append, stop, 0.1))
        thread.start()
        try:
            gallery(photos, "black.png", "sub/green.png")
            waited(lambda: len(told) == 1)
            (id_,) = [hit.id for hit in opened(folder).search("green", k=1)]
            (photos / "sub").rename(photos / "moved")
            (photos / "red.png").unlink()
            waited(lambda: len(told) == 2)
            assert [(hit.id, hit.path) for hit in opened(folder).search("green", k=1)] == [
                (id_, "moved/green.png")
            ]
            for name in ("blue.png", "black.png", "moved/green.png"):
                (photos / name).unlink()
            waited(lambda: len(told) == 3)
        finally:
            stop.set()
            thread.join()
        assert [(each.added, each.moved, each.deleted) for each in told[:2]] == [(2, 0, 0), (0, 1, 1)]
        assert "no images" in str(told[2])
        assert sorted(matcher.embedded) == ["black.png", "blue.png", "red.png", "sub/green.png"]
        assert index.count("image") == 3


def test_a_server_watches_an_index_that_cannot_be_read_at_first(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    photos, told, stop = gallery(tmp_path / "photos", "red.png"), list[object](), threading.Event()
    with Index.create(tmp_path / "index", Colours()) as index:
        index.update_images(photos)
        read = index.store.roots

        def failing_once() -> list[object]:
            monkeypatch.setattr(index.store, "roots", read)
            raise SeesayError("The database does not answer.")

        monkeypatch.setattr(index.store, "roots", failing_once)
        follow(index, told.append, stop, update=stop.set)
    assert list(map(str, told)) == ["The database does not answer. Trying again in 0.1 seconds."]


def test_an_update_that_fails_is_tried_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    photos, told, stop = gallery(tmp_path / "photos", "red.png"), list[object](), threading.Event()
    with Index.create(tmp_path / "index", Colours()) as index:
        index.update_images(photos)
        gallery(photos, "blue.png")
        update, failures = index.update_images, [OSError(errno.ENOSPC, "full"), SeesayError("busy.")]

        def fail_first() -> UpdateReport:
            if failures:
                raise failures.pop(0)
            return update()

        monkeypatch.setattr(index, "update_images", fail_first)
        thread = threading.Thread(target=follow, args=(index, told.append, stop, 0.1))
        thread.start()
        try:
            waited(lambda: len(told) == 3)
        finally:
            stop.set()
            thread.join()
        assert ["full" in str(told[0]), "busy" in str(told[1])] == [True, True]
        assert index.count("image") == 2


def test_a_reader_that_has_left_ends_the_watch(tmp_path: Path) -> None:
    photos, stop = gallery(tmp_path / "photos", "red.png"), threading.Event()

    def told(report: object) -> None:
        if stop.is_set():
            return
        stop.set()
        assert isinstance(report, UpdateReport), report
        raise BrokenPipeError(errno.EPIPE, "Broken pipe")

    with Index.create(tmp_path / "index", Colours()) as index:
        index.update_images(photos)
        gallery(photos, "blue.png")
        with pytest.raises(BrokenPipeError):
            follow(index, told, stop, 0.1)


def test_a_folder_that_is_away_is_looked_for_again(tmp_path: Path) -> None:
    photos, told, stop = gallery(tmp_path / "photos", "red.png"), [], threading.Event()
    with Index.create(tmp_path / "index", Colours()) as index:
        index.update_images(photos)
        photos.rename(tmp_path / "away")
        thread = threading.Thread(target=follow, args=(index, told.append, stop, 0.1))
        thread.start()
        try:
            waited(lambda: bool(told))
            assert "not there" in str(told[0])
            gallery(tmp_path / "away", "blue.png")
            (tmp_path / "away").rename(photos)
            waited(lambda: index.count("image") == 2)
        finally:
            stop.set()
            thread.join()


def test_ctrl_c_ends_a_watch(tmp_path: Path) -> None:
    with Index.create(tmp_path / "index", Colours()) as index:
        index.update_images(gallery(tmp_path / "photos", "red.png"))
        pressed = threading.Timer(1.0, os.kill, (os.getpid(), signal.SIGINT))
        pressed.start()
        with pytest.raises(KeyboardInterrupt):
            follow(index, print, threading.Event(), 0.1)
