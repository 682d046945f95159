"""An index of several folders, which come and go."""

from __future__ import annotations

import errno
import os
import shlex
import shutil
import threading
from pathlib import Path
from typing import Any

import pytest

from seesay.errors import SeesayError
from seesay.search import Index
from seesay.search.watch import follow
from tests.search.colours import Colours, gallery, opened
from tests.search.stores import STORES, place
from tests.search.test_watch import waited


@pytest.fixture
def photos(tmp_path: Path) -> Path:
    return gallery(tmp_path / "photos", "red.png", "trip/blue.png")


@pytest.fixture
def scans(tmp_path: Path) -> Path:
    return gallery(tmp_path / "scans", "red.png", "green.png")


@pytest.fixture(params=STORES)
def where(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """Where the index is."""
    return place(request.param, tmp_path)


@pytest.fixture
def index(tmp_path: Path, photos: Path, scans: Path, where: str):
    with Index.create(where, Colours()) as made:
        made.update_images([photos, scans])
        yield made


def thumbnails(index: Index) -> int:
    """The number of contents whose thumbnail an index keeps."""
    keys = {photo.key for photo in index.store.photos().values()}
    return sum(index.store.thumbnail(key) is not None for key in keys)


def paths(index: Index) -> list[str]:
    return sorted(hit.path or "" for hit in index.search("red", k=100))


ALL = ["photos/red.png", "photos/trip/blue.png", "scans/green.png", "scans/red.png"]


def test_paths_begin_with_the_name_of_their_folder(index: Index, photos: Path, scans: Path) -> None:
    assert paths(index) == ALL
    assert index.file_at("scans/red.png") == scans / "red.png"
    assert index.file_at("photos/trip/blue.png") == photos / "trip" / "blue.png"
    assert index.file_at("photos/green.png") is None
    assert index.file_at("red.png") is None
    told = index.search("green", k=1).to_dict(index.roots())
    assert told["results"][0]["path"] == str(scans / "green.png")
    assert thumbnails(index) == 3  # two images have one content


def test_a_filter_by_folder_takes_the_name_of_a_folder(index: Index) -> None:
    found = {
        where: {hit.path for hit in index.search("red", where=where)}
        for where in ("folder:scans", "folder:trip")
    }
    assert found == {
        "folder:scans": {"scans/green.png", "scans/red.png"},
        "folder:trip": {"photos/trip/blue.png"},
    }


def test_a_folder_that_joins_later_gives_the_first_its_name(
    tmp_path: Path, photos: Path, scans: Path, where: str
) -> None:
    matcher = Colours()
    gallery(photos, "photos/red-blue.png")  # its new path is photos/photos/red-blue.png
    with Index.create(where, matcher) as index:
        (photos / "broken.png").write_bytes(b"no image")
        index.update_images(photos)
        before = {hit.path: hit.id for hit in index.search("red")}
        assert set(before) == {"red.png", "trip/blue.png", "photos/red-blue.png"}
        report = index.update_images(scans)
        assert (report.added, report.deleted) == (2, 0)
        after = {hit.path: hit.id for hit in index.search("red")}
        assert all(after[f"photos/{path}"] == id_ for path, id_ in before.items())
        assert sorted(matcher.embedded).count("red.png") == 1
        report = index.update_images()
        assert (report.added, report.changed, report.unchanged) == (0, 0, 5)
        assert report.skipped[0][0] == "photos/broken.png"


def test_images_of_an_emptied_subfolder_stay_until_it_is_forgotten(index: Index, photos: Path) -> None:
    trip = photos / "trip"
    (trip / "blue.png").rename(photos.parent / "away.png")
    for _ in range(2):
        report = index.update_images()
        assert (report.deleted, report.absent) == (0, [str(trip)])
    assert paths(index) == ALL
    with pytest.raises(SeesayError, match="not a folder of"):
        index.remove_images(photos / "tirp")
    (photos.parent / "away.png").rename(trip / "blue.png")
    with pytest.raises(SeesayError, match="not a folder of"):
        index.remove_images(trip)
    assert (index.update_images().unchanged, index.update_images().absent) == (4, [])
    (trip / "blue.png").unlink()
    index.update_images()
    assert index.remove_images(trip) == 1
    assert paths(index) == [path for path in ALL if "trip" not in path]
    report = index.update_images()
    assert (report.unchanged, report.absent) == (3, [])


def test_only_the_folders_that_are_named_are_looked_at(index: Index, photos: Path, scans: Path) -> None:
    (photos / "red.png").unlink()
    gallery(scans, "blue.png")
    report = index.update_images(scans)
    assert (report.added, report.deleted, report.unchanged) == (1, 0, 2)
    assert "photos/red.png" in paths(index)
    assert index.update_images().deleted == 1


def test_a_file_that_moves_to_the_other_folder_keeps_its_id(index: Index, photos: Path, scans: Path) -> None:
    (blue,) = index.search("blue", k=1)
    (photos / "trip" / "blue.png").rename(scans / "blue.png")
    assert index.update_images().moved == 1
    assert [(hit.id, hit.path) for hit in index.search("blue", k=1)] == [(blue.id, "scans/blue.png")]


@pytest.mark.parametrize("empty", [False, True])
def test_images_of_a_drive_that_is_not_mounted_are_kept(index: Index, scans: Path, empty: bool) -> None:
    scans.rename(scans.parent / "away")
    if empty:  # as the place of a drive is
        scans.mkdir()
    else:
        assert [root.folder for root in index.absent()] == [scans]
    report = index.update_images()
    assert (report.deleted, report.absent) == (0, [str(scans)])
    assert paths(index) == ALL
    assert index.file_at("scans/red.png") is None
    with pytest.raises(SeesayError, match=f"{scans}: .*"):
        index.update_images(scans)
    if empty:
        scans.rmdir()
    (scans.parent / "away").rename(scans)
    report = index.update_images()
    assert (report.unchanged, report.absent) == (4, [])


def test_a_folder_by_another_name_is_the_same_one(
    index: Index, scans: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    gallery(tmp_path / "SCANS", "red.png", "green.png")  # stands for a disk on which case does not count
    monkeypatch.setattr(Path, "samefile", lambda self, other: str(self).casefold() == str(other).casefold())
    assert index.update_images(tmp_path / "SCANS").unchanged == 2
    assert paths(index) == ALL


def test_a_folder_that_was_moved_is_known_by_its_files(index: Index, scans: Path, tmp_path: Path) -> None:
    scans.rename(tmp_path / "elsewhere")
    others = gallery(tmp_path / "others", "white.png", "red.png", "black.png")
    assert index.update_images(others).absent == []
    assert index.update_images(tmp_path / "elsewhere").unchanged == 2
    assert {root.name: root.folder for root in index.roots()} == {
        "photos": tmp_path / "photos",
        "scans": tmp_path / "elsewhere",
        "others": others,
    }


def test_the_copy_of_a_part_does_not_take_the_place_of_a_folder_that_is_away(
    tmp_path: Path, photos: Path
) -> None:
    gallery(photos, "white.png")
    copied = Path(shutil.copytree(photos, tmp_path / "copied"))
    (copied / "white.png").unlink()
    with Index.create(tmp_path / "index", Colours()) as index:
        index.update_images(photos)
        photos.rename(tmp_path / "away")
        index.update_images(copied)
        assert {root.folder for root in index.roots()} == {photos, copied}
        assert index.count("image") == 5


def test_a_folder_that_gets_a_name_leaves_the_lists_of_vectors_as_they_are(
    tmp_path: Path, photos: Path, scans: Path
) -> None:
    with Index.create(tmp_path / "index", Colours()) as index:
        index.update_images(photos)
        first = index.store.generation()
        index.update_images(scans)
        assert [index.photo(id_).path for id_ in index.store.ids("image", first).tolist()] == [
            "scans/green.png",
            "scans/red.png",
        ]


def test_folders_of_one_name(index: Index, tmp_path: Path) -> None:
    index.update_images(gallery(tmp_path / "more" / "Photos", "white.png"))
    assert index.search("white", k=1)[0].path == "Photos-2/white.png"


def test_a_folder_taken_out(index: Index, photos: Path, scans: Path) -> None:
    scans.rename(scans.parent / "away")
    assert index.remove_images(scans) == 2
    assert paths(index) == ALL[:2]
    assert thumbnails(index) == 2
    with pytest.raises(SeesayError, match=rf"there is {photos}"):
        index.remove_images(scans)
    assert index.remove_images("photos") == 2
    assert index.roots() == []
    with pytest.raises(SeesayError, match="has no folders yet"):
        index.update_images()
    index.update_images(photos)
    assert paths(index) == ["red.png", "trip/blue.png"]


def test_a_folder_in_another_one_is_refused(index: Index, photos: Path, tmp_path: Path) -> None:
    for inner in (photos / "trip", tmp_path):
        with pytest.raises(SeesayError, match=rf"{photos}.*: lies in .*leave it out"):
            index.update_images(inner)
    with pytest.raises(SeesayError, match=r"empty: no images"):
        index.update_images([photos, gallery(tmp_path / "empty")])
    assert index.update_images([photos, photos / "trip" / ".."]).unchanged == 2


@pytest.mark.parametrize("where", ["embedded"], indirect=True)
def test_an_index_made_elsewhere_has_all_its_folders_confirmed(
    index: Index, photos: Path, scans: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    index.check_roots()
    monkeypatch.setenv("SEESAY_CACHE", str(tmp_path / "another user's"))
    with pytest.raises(SeesayError, match=rf"--root photos={photos} --root scans={scans}"):
        index.check_roots()
    with pytest.raises(SeesayError, match="not made here by you"):
        index.update_images()  # would seal what nobody has named
    copied = shutil.copytree(scans, tmp_path / "copied")
    with pytest.raises(SeesayError, match=r"with photos=FOLDER and scans=FOLDER"):
        Index.open(index.place, Colours(), root=copied)
    with (
        Index.open(index.place, Colours(), root={"scans": copied}) as half,
        pytest.raises(SeesayError, match=rf"images in {photos}\. .*--root photos={photos},"),
    ):
        half.check_roots()
    with Index.open(index.place, Colours(), root={"scans": copied, "photos": photos}) as confirmed:
        confirmed.check_roots()
        assert confirmed.file_at("scans/red.png") == copied / "red.png"
        assert confirmed.update_images().unchanged == 4
    opened(Path(index.place)).check_roots()


@pytest.mark.parametrize("where", ["embedded"], indirect=True)
def test_nothing_is_confirmed_by_watching(
    index: Index, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SEESAY_CACHE", str(tmp_path / "another user's"))
    with pytest.raises(SeesayError, match="not made here by you"):
        follow(index, lambda _: None, threading.Event())
    with pytest.raises(SeesayError, match="--root photos="):
        index.check_roots()


@pytest.mark.parametrize("where", ["embedded"], indirect=True)
def test_a_folder_that_cannot_be_reached_is_absent(
    index: Index, photos: Path, scans: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = os.stat

    def stat(path: Any, *given: Any, **options: Any) -> os.stat_result:
        if isinstance(path, str | Path) and Path(path).is_relative_to(scans):
            raise OSError(errno.ENOTCONN, os.strerror(errno.ENOTCONN), str(path))
        return asked(path, *given, **options)

    monkeypatch.setattr(os, "stat", stat)
    gallery(photos, "black.png")
    report = index.update_images()
    assert (report.added, report.deleted, report.absent) == (1, 0, [str(scans)])
    assert [root.folder for root in index.absent()] == [scans]
    assert index.file_at("scans/red.png") is None
    assert index.file_at("photos/red.png") == photos / "red.png"


def test_a_folder_whose_name_is_no_text_is_refused(tmp_path: Path) -> None:
    folder = Path(os.fsdecode(os.fsencode(tmp_path) + b"/caf\xe9"))
    try:
        gallery(folder, "red.png")
    except OSError:
        pytest.skip("the file system has no such names")
    with (
        Index.create(tmp_path / "index", Colours()) as index,
        pytest.raises(SeesayError, match="its name is not valid UTF-8; rename it"),
    ):
        index.update_images(folder)


@pytest.mark.slow
@pytest.mark.parametrize("where", ["embedded"], indirect=True)
def test_all_folders_are_watched_and_one_that_comes_back(index: Index, photos: Path, scans: Path) -> None:
    told, stop = [], threading.Event()
    thread = threading.Thread(target=follow, args=(index, told.append, stop))
    thread.start()
    try:
        gallery(photos, "black.png")
        waited(lambda: len(told) == 1)
        gallery(scans, "white.png")
        waited(lambda: len(told) == 2)
        scans.rename(scans.parent / "away")
        waited(lambda: len(told) == 3)
        gallery(scans.parent / "away", "blue.png").rename(scans)
        waited(lambda: len(told) == 4)
    finally:
        stop.set()
        thread.join()
    assert [(each.added, each.deleted, each.absent) for each in told] == [
        (1, 0, []),
        (1, 0, []),
        (0, 0, [str(scans)]),
        (1, 0, []),
    ]


def test_copies_in_two_folders_are_a_stack(index: Index) -> None:
    (group,) = index.stacks()
    assert [photo.path for photo in group] == ["photos/red.png", "scans/red.png"]


def test_what_an_error_says_to_confirm_can_be_copied_into_a_shell(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    photos = gallery(tmp_path / "my photos; ls", "red.png")
    with Index.create(tmp_path / "index", Colours()) as index:
        index.update_images(photos)
        monkeypatch.setenv("SEESAY_CACHE", str(tmp_path / "another user's"))
        with pytest.raises(SeesayError) as raised:
            index.check_roots()
    words = shlex.split(str(raised.value).partition("--root ")[2])
    assert words[0].removesuffix(",") == str(photos)


def test_a_folder_that_was_moved_and_changed_keeps_its_vectors_where_it_is_named(
    tmp_path: Path, photos: Path
) -> None:
    gallery(photos, "white.png")
    matcher = Colours()
    with Index.create(tmp_path / "index", matcher) as index:
        index.update_images(photos)
    (photos / "red.png").unlink()
    photos.rename(tmp_path / "elsewhere")
    matcher.embedded.clear()
    with Index.open(tmp_path / "index", matcher, tmp_path / "elsewhere") as index:
        report = index.update_images()
        assert (report.unchanged, report.deleted, matcher.embedded) == (2, 1, [])
    with opened(tmp_path / "index") as index:
        assert [root.folder for root in index.roots()] == [tmp_path / "elsewhere"]


def test_a_missing_folder_without_images_is_nowhere_else(tmp_path: Path, photos: Path) -> None:
    (tmp_path / "broken").mkdir()
    (tmp_path / "broken" / "a.png").write_bytes(b"no image")
    with Index.create(tmp_path / "index", Colours()) as index:
        index.update_images([photos, tmp_path / "broken"])
        (tmp_path / "broken").rename(tmp_path / "away")
        index.update_images(gallery(tmp_path / "more", "green.png"))
        assert [root.name for root in index.roots()] == ["broken", "more", "photos"]


def test_a_folder_may_be_named_as_it_is_shown(photos: Path, tmp_path: Path) -> None:
    with Index.create(tmp_path / "index", Colours()) as made:
        made.update_images(photos)
    moved = photos.rename(tmp_path / "elsewhere")
    with Index.open(tmp_path / "index", root={photos.name: moved}) as index:
        assert index.info()["folders"] == [{"name": "elsewhere", "folder": str(moved), "available": True}]
