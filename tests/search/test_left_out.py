"""What an index leaves out of its folders, and says that it does."""

from __future__ import annotations

import shutil
import threading
import unicodedata
from collections.abc import Iterator
from pathlib import Path

import pytest

from seesay.errors import SeesayError
from seesay.search import Index
from seesay.search.watch import follow
from tests.end_to_end.command import seesay
from tests.search.colours import Colours, gallery, opened
from tests.waiting import waited

SYSTEM = ("@eaDir", "#recycle", "$RECYCLE.BIN", ".stversions", "lost+found", "System Volume Information")


@pytest.fixture
def photos(tmp_path: Path) -> Path:
    return gallery(tmp_path / "photos", "red.png", "trip/blue.png")


@pytest.fixture
def index(tmp_path: Path) -> Iterator[Index]:
    with Index.create(tmp_path / "index", Colours()) as made:
        yield made


def paths(index: Index) -> set[str]:
    return {item.path for item in index.store.photos().values()}


def test_folders_of_systems_are_left_out_and_counted(index: Index, photos: Path) -> None:
    for name in SYSTEM:
        gallery(photos / name, "green.png")
    gallery(photos / "trip" / "@eaDir" / "blue.png", "black.png")  # as a Synology keeps thumbnails
    report = index.update_images(photos)
    assert paths(index) == {"red.png", "trip/blue.png"}
    assert report.not_read == index.store.not_read() == {"system folder": len(SYSTEM) + 1}


def test_other_indexes_and_runs_among_the_photos_are_left_out_wherever_they_lie(
    index: Index, photos: Path
) -> None:
    with (
        Index.create(photos / "first", Colours()) as first,
        Index.create(photos / "second", Colours()) as second,
    ):
        for _ in range(2):
            first.update_images(photos)
            second.update_images(photos)
        assert first.count("image") == second.count("image") == 2
    shutil.copytree(photos / "first", photos / "trip" / "copy")
    gallery(photos / "run", "green.png")
    for name in ("run.json", "weights.safetensors"):
        (photos / "run" / name).write_bytes(b"")
    assert index.update_images(photos).not_read == {"seesay folder": 4}
    assert paths(index) == {"red.png", "trip/blue.png"}


def test_what_is_excluded_is_remembered_and_comes_back(index: Index, photos: Path, tmp_path: Path) -> None:
    gallery(photos, "Screenshots/green.png", "trip/white.PNG", "trip/deep/black.png", "kept.d/yellow.png")
    (photos / "kept.d" / ".nomedia").touch()
    index.update_images(photos, exclude=["screenshots", "trip/*.png"])
    assert paths(index) == {"red.png"}
    assert index.store.not_read() == {"excluded path": 5}
    assert index.info()["exclude"] == ["screenshots", "trip/*.png"]
    (photos / "kept.d" / ".nomedia").unlink()
    with opened(tmp_path / "index") as again:
        again.update_images()
        assert paths(again) == {"red.png", "kept.d/yellow.png"}
        again.update_images(exclude=["deep"])  # in place of the former ones
        assert paths(again) >= {"Screenshots/green.png", "trip/white.PNG"}
        assert again.update_images(exclude=["red.*"]).deleted == 1
        again.update_images(exclude=[""])
        assert len(paths(again)) == 6
        with pytest.raises(SeesayError, match="--exclude: at most 100 patterns"):
            again.update_images(exclude=["a" * 201])


@pytest.mark.parametrize("form", ["NFC", "NFD"])
def test_a_pattern_leaves_out_whatever_form_accents_have(index: Index, photos: Path, form: str) -> None:
    gallery(photos, f"{unicodedata.normalize('NFD', 'Café')}/green.png")
    index.update_images(photos, exclude=[unicodedata.normalize(form, "café")])
    assert paths(index) == {"red.png", "trip/blue.png"}


def test_a_pattern_that_leaves_nothing_of_one_of_several_folders_leaves_its_photos_out(
    index: Index, photos: Path, tmp_path: Path
) -> None:
    other = gallery(tmp_path / "other", "green.jpg")
    index.update_images([photos, other])
    report = index.update_images(exclude=["*.jpg"])
    assert (report.deleted, report.absent) == (1, [])
    assert paths(index) == {"photos/red.png", "photos/trip/blue.png"}
    assert index.update_images(exclude=[""]).added == 1
    (other / "green.jpg").rename(tmp_path / "elsewhere.jpg")  # as on a disk that is not mounted
    assert index.update_images().absent == [str(other)]
    assert index.count("image") == 3


def test_a_command_whose_pattern_leaves_nothing_says_so(photos: Path, tmp_path: Path) -> None:
    seesay("index", photos, "--out", tmp_path / "own")
    done = seesay("index", "--out", tmp_path / "own", "--exclude", "*.png", code=1)
    assert "0 images (2 deleted)" in done.stdout
    assert "left out by --exclude" in done.stderr
    assert f"{tmp_path / 'own'}: has no images now" in done.stderr
    assert "no images" in seesay("search", tmp_path / "own", "red", code=1).stderr


def test_no_pattern_takes_long(index: Index, photos: Path) -> None:
    gallery(photos, "a" * 200 + "/red.png")
    index.update_images(photos, exclude=["*a" * 90 + "b"])
    assert len(paths(index)) == 3


@pytest.mark.parametrize("target", ["..", "/"])
def test_a_watch_follows_no_link_that_an_update_leaves_out(
    photos: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, target: str
) -> None:
    (photos / "out").symlink_to(target)
    told, stop, updates = list[object](), threading.Event(), list[None]()
    with Index.create(tmp_path / "index", Colours()) as index:
        index.update_images(photos)
        update = index.update_images
        monkeypatch.setattr(index, "update_images", lambda: (updates.append(None), update())[1])
        thread = threading.Thread(target=follow, args=(index, told.append, stop, 0.05))
        thread.start()
        try:
            waited(lambda: bool(updates))
            gallery(tmp_path, "black.png")  # in the folder that a link leads to
            gallery(photos, "trip/new/green.png")
            waited(lambda: bool(told))
            gallery(photos, "trip/new/white.png")  # in a folder that is new
            waited(lambda: len(told) == 2)
        finally:
            stop.set()
            thread.join()
    assert [report.added for report in told] == [1, 1]
    assert len(updates) <= 4


def test_photos_stay_if_only_what_is_left_out_is_in_their_folder(photos: Path, tmp_path: Path) -> None:
    with Index.create(tmp_path / "index", Colours()) as index:
        index.update_images(photos, exclude=["cache"])
        photos.rename(tmp_path / "away")  # as if its drive were not mounted
        (photos / "cache").mkdir(parents=True)
        with pytest.raises(SeesayError, match=r"no images .*the index is unchanged"):
            index.update_images()
        assert index.count("image") == 2


def test_an_index_is_updated_though_its_folders_cannot_be_watched(
    photos: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refused(*_: object, **__: object) -> None:
        raise OSError("OS file watch limit reached")

    monkeypatch.setattr("seesay.search.watch.watch", refused)
    monkeypatch.setattr("seesay.search.watch.TRY_AGAIN_SECONDS", 0.05)
    told, stop = list[object](), threading.Event()
    with Index.create(tmp_path / "index", Colours()) as index:
        index.update_images(photos)
        gallery(photos, "green.png")
        thread = threading.Thread(target=follow, args=(index, told.append, stop, 0.05))
        thread.start()
        try:
            waited(lambda: index.count("image") == 3)
        finally:
            stop.set()
            thread.join()
    assert "watch limit reached" in str(told[0])
