"""Sharded indexes, compared with one index of the same photos."""

from __future__ import annotations

import json
import os
import shutil
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from seesay.cli import main
from seesay.errors import SeesayError
from seesay.search import searcher
from seesay.search import shards as shards_module
from seesay.search.duplicates import near_duplicates
from seesay.search.filters import Filter
from seesay.search.hits import Answer, Hit
from seesay.search.index import Index
from seesay.search.store import Facts
from tests.search.colours import RGB, Colours, gallery, picture

NAMES = [f"{name}.png" for name in ("a", "b", "c", "d", "e", "f", "g", "h", "i", "j")]
FOLDERS = ("", "italy/", "italy/rome/", "work/")
COLOURS = st.lists(st.sampled_from(list(RGB)), min_size=1, max_size=3)
PHOTO = st.tuples(st.sampled_from(FOLDERS), COLOURS, st.integers(0, 2))
GALLERIES = st.dictionaries(st.sampled_from(NAMES), PHOTO, min_size=1)
QUERIES = ("red", "green and blue", "2*yellow - black", '"white"')
WHERES = (None, "folder:rome", "taken:2019", "taken:2018-02..2019-03 orientation:landscape", "width:>65")


def written(folder: Path, photos: dict[str, tuple[str, list[str], int]]) -> None:
    """Make a folder hold exactly these photos, by the names of their files."""
    wanted = {folder / f"{within}{name}": (name, *rest) for name, (within, *rest) in photos.items()}
    for file in [file for file in folder.rglob("*.png") if file not in wanted]:
        file.unlink()
    for file, (name, colours, year) in wanted.items():
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(picture(*colours, size=(60 + 10 * year, 70 - 10 * year)))
        taken = 1_520_000_000 + 30_000_000 * year + NAMES.index(name)
        os.utime(file, (taken, taken))


def pages(index: Index, query: str | Path, k: int, where: str | None) -> Iterator[Answer]:
    """All pages of a query."""
    end = None
    while True:
        yield (page := index.search(query, k, where, end))
        if page.end is None:
            return
        end = page.end


def alike(hits: Sequence[Hit], is_new: bool) -> list[tuple[float, float, str]]:
    """What is the same in any index: of equal scores, ids choose the order.

    A gallery is not judged anew when contents have changed, so only those of new indexes are the same.
    """
    scores = [hit.score for hit in hits]
    assert scores == sorted(scores, reverse=True)
    known = [(hit.score, round(hit.probability or 0, 4) if is_new else 0, hit.path or "") for hit in hits]
    return sorted(known)


def browsed(index: Index, k: int) -> list[list[str]]:
    """Pages of the newest images."""
    found, after = list[list[str]](), None
    while page := index.store.newest(k, after=after):
        found.append([facts.path for facts in page])
        after = page[-1].time, page[-1].id
    return found


def check_same(one: Index, sharded: Index, k: int, photo: Path, is_new: bool) -> None:
    """Compare everything that an index answers."""
    asked = [(query, None) for query in (*QUERIES, photo)]
    for query, where in [*asked, *((QUERIES[1], where) for where in WHERES[1:])]:
        expected, found = (list(pages(index, query, k, where)) for index in (one, sharded))
        assert [len(page) for page in found] == [len(page) for page in expected]
        for answer, other in zip(found, expected, strict=True):
            assert [hit.score for hit in answer] == [hit.score for hit in other]
        hits = [hit for page in found for hit in page]
        assert alike(hits, is_new) == alike([hit for page in expected for hit in page], is_new)
        assert len({hit.id for hit in hits}) == len(hits)
        for hit in hits:
            assert sharded.store.items([hit.id])[hit.id].path == hit.path
            assert sharded.file_at(hit.path or "") == one.file_at(hit.path or "")
    for where in map(Filter.parse, filter(None, WHERES)):
        assert sharded.store.months(where) == one.store.months(where)
    assert sharded.store.folders() == one.store.folders()
    assert sharded.store.skipped().keys() == one.store.skipped().keys()
    assert sharded.store.not_read() == one.store.not_read()
    assert browsed(sharded, k) == browsed(one, k)
    assert sharded.count("image") == one.count("image")
    said = [[(hit.score, hit.text) for hit in index.sentences_for(photo, 100)] for index in (one, sharded)]
    assert sorted(said[0], key=str) == sorted(said[1], key=str)
    copies = []
    for index in (one, sharded):
        ids = index.store.changes("image").ids
        paths: dict[int, Facts] = index.store.facts(ids.tolist())
        groups = near_duplicates(*index.store.vectors(ids.tolist()))
        copies.append(sorted(sorted(paths[id_].path for id_ in group) for group in groups))
    assert copies[0] == copies[1]


@settings(max_examples=5)
@given(st.lists(GALLERIES, min_size=1, max_size=3), st.integers(2, 4), st.integers(1, 4))
def test_shards_answer_as_one_index_does(
    galleries: list[dict[str, tuple[str, list[str], int]]], shards: int, k: int
) -> None:
    with tempfile.TemporaryDirectory() as made:
        folder = Path(made).resolve()
        photos = gallery(folder / "photos", "red.png")
        (photos / "broken.jpg").write_bytes(b"no image")
        (photos / "film.mp4").write_bytes(b"")
        with (
            Index.create(folder / "one", Colours()) as one,
            Index.create(folder / "sharded", Colours(), shards=shards) as sharded,
        ):
            for index in (one, sharded):
                assert index.add_sentences(["red", "a blue  sky", "green", "red"]) == 3
            for state in galleries:
                written(photos, state)
                reports = [index.update_images(photos) for index in (one, sharded)]
                for name in ("added", "changed", "moved", "deleted", "unchanged", "not_read"):
                    assert getattr(reports[1], name) == getattr(reports[0], name)
                assert sorted(reports[1].skipped) == sorted(reports[0].skipped)
                check_same(one, sharded, k, next(photos.rglob("[a-j].png")), state is galleries[0])


@pytest.fixture
def photos(tmp_path: Path) -> Path:
    return gallery(tmp_path / "photos", "red.png", "blue.png", "sub/green.png", "red-blue.png", "white.png")


@pytest.fixture
def sharded(tmp_path: Path, photos: Path) -> Iterator[Index]:
    with Index.create(tmp_path / "index", Colours(), shards=2) as index:
        index.update_images(photos)
        yield index


def paths(index: Index) -> set[str | None]:
    return {hit.path for hit in index.search("red", k=100)}


def test_a_shard_is_an_index_that_keeps_to_its_share(sharded: Index, photos: Path) -> None:
    everything, shares = paths(sharded), list[set[str | None]]()
    gallery(photos, "yellow.png", "black.png", "red-green.png", "green-white.png")
    for folder in sorted(sharded.folder.glob("shard-*-of-2")):
        with Index.open(folder, Colours()) as shard:
            shard.update_images()  # on another machine, for example
            shares.append(paths(shard))
            [root] = shard.roots()
            assert root.folder == photos
    assert all(shares)
    assert not shares[0] & shares[1]
    assert paths(sharded) == shares[0] | shares[1] > everything
    report = sharded.update_images()
    assert (report.unchanged, report.added) == (9, 0)


def test_thumbnails_are_the_shards_own(sharded: Index, photos: Path) -> None:
    assert len(list(sharded.folder.glob("shard-*/thumbnails/*/*.jpg"))) == 5
    for hit in sharded.search("red"):
        key = sharded.store.items([hit.id])[hit.id].key
        assert sharded.thumbnail(key, photos / "no such file.png").startswith(b"\xff\xd8")


def test_folders_join_move_and_leave(sharded: Index, photos: Path, tmp_path: Path) -> None:
    scans = gallery(tmp_path / "scans", "red.png", "x/yellow.png")
    sharded.update_images(scans)
    assert [root.name for root in sharded.roots()] == ["photos", "scans"]
    assert {"photos/red.png", "scans/red.png", "scans/x/yellow.png"} < paths(sharded)
    moved = photos.rename(tmp_path / "elsewhere")
    report = sharded.update_images(moved)
    assert (report.unchanged, report.added, report.absent) == (5, 0, [])
    assert sharded.remove_images(scans) == 2
    assert len(paths(sharded)) == 5
    with pytest.raises(SeesayError, match="scans: not a folder of"):
        sharded.remove_images(scans)


def test_a_kill_between_two_shards_is_mended(sharded: Index, photos: Path, tmp_path: Path) -> None:
    scans = gallery(tmp_path / "scans", "red.png")
    before = tmp_path / "before"
    shutil.copytree(sharded.folder / "shard-1-of-2", before)
    sharded.update_images(scans)
    after = paths(sharded)
    sharded.close()
    for number in (1, 2):  # one of them is as before the update, in which folders were named
        folder = sharded.folder / f"shard-{number}-of-2"
        if number == 1:
            shutil.rmtree(folder)
            shutil.copytree(before, folder)
        with Index.open(sharded.folder, Colours()) as index:
            index.update_images([photos, scans])
            assert paths(index) == after
            assert [root.name for root in index.roots()] == ["photos", "scans"]


def test_a_folder_that_one_shard_has_is_known(sharded: Index, photos: Path, tmp_path: Path) -> None:
    scans = gallery(tmp_path / "scans", "red.png", "x/yellow.png")
    sharded.close()
    with Index.open(sharded.folder / "shard-2-of-2", Colours()) as shard:
        shard.update_images([photos, scans])
    with Index.open(sharded.folder, Colours()) as index:
        assert [root.name for root in index.roots()] == ["photos", "scans"]
        assert index.update_images().absent == []
        assert all(index.file_at(path) for path in paths(index))
        assert {"scans/red.png", "scans/x/yellow.png"} < paths(index)
        assert len(paths(index)) == 7


def test_a_running_index_learns_the_folders_of_a_shard(sharded: Index, photos: Path, tmp_path: Path) -> None:
    scans = gallery(tmp_path / "scans", "red.png", "x/yellow.png", "x/blue.png")
    for number in (1, 2):
        with Index.open(sharded.folder / f"shard-{number}-of-2", Colours()) as shard:
            shard.update_images([photos, scans])
    assert [root.name for root in sharded.roots()] == ["photos", "scans"]
    found = paths(sharded)
    assert {"scans/red.png", "scans/x/yellow.png", "scans/x/blue.png"} < found
    assert all(sharded.file_at(path or "") for path in found)


def test_shards_call_a_moved_folder_by_its_new_name(sharded: Index, photos: Path, tmp_path: Path) -> None:
    sharded.close()
    moved, scans = photos.rename(tmp_path / "moved"), gallery(tmp_path / "scans", "red.png")
    with Index.open(sharded.folder, Colours(), root=moved) as index:
        assert index.update_images([moved, scans]).added == 1
        assert [root.name for root in index.roots()] == ["moved", "scans"]


def test_all_shards_name_folders_before_one_encodes(
    sharded: Index, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shards_module, "_WRITERS", 1)
    scans = gallery(tmp_path / "scans", "red.png")
    missing = list[str]()

    def look(_done: int, _total: int) -> None:
        missing.extend(path for path in paths(sharded) if sharded.file_at(path) is None)

    sharded.update_images(scans, look)
    assert not missing


def test_shards_share_the_loaded_run(sharded: Index, monkeypatch: pytest.MonkeyPatch) -> None:
    sharded.close()
    loaded, load = list[str](), lambda name, *_: (loaded.append(name), Colours())[1]
    monkeypatch.setattr(searcher, "load_embedder", load)
    with Index.open(sharded.folder) as index:
        index.update_images()
        for shard in index._shards:  # type: ignore[attr-defined]
            assert shard._queries().shape[1] == index.store.dim
    assert len(loaded) == 1


def test_a_lost_shard_is_indexed_again(sharded: Index, photos: Path) -> None:
    everything = paths(sharded)
    sharded.close()
    shutil.rmtree(sharded.folder / "shard-1-of-2")
    with pytest.raises(SeesayError, match="shard-1-of-2: missing; restore"):
        Index.open(sharded.folder, Colours())
    with Index.open_or_create(sharded.folder, Colours()) as index:
        assert paths(index) < everything
        report = index.update_images()
        assert 0 < report.added < 5
        assert paths(index) == everything


def test_another_number_of_shards_is_refused(sharded: Index, photos: Path) -> None:
    sharded.close()
    with pytest.raises(SeesayError, match=r"--shards 3: .* has 2; create a new index"):
        Index.open_or_create(sharded.folder, Colours(), photos=[photos], shards=3)
    shutil.copytree(sharded.folder / "shard-1-of-2", sharded.folder / "shard-1-of-3")
    for opened in (Index.open, Index.open_or_create):
        with pytest.raises(
            SeesayError, match=r"several indexes \(shard-1-of-2, shard-1-of-3, shard-2-of-2\)"
        ):
            opened(sharded.folder, Colours())


def test_two_processes_that_create_an_index_agree_on_its_identity(tmp_path: Path) -> None:
    with Index.create(tmp_path / "theirs", Colours(), shards=2) as theirs:
        identity = theirs.store.meta["identity"]
    (tmp_path / "ours").mkdir()
    shutil.move(tmp_path / "theirs" / "shard-1-of-2", tmp_path / "ours")  # so far
    shards_module.create_shards(tmp_path / "ours", Colours(), 2)
    with Index.open(tmp_path / "ours" / "shard-2-of-2", Colours()) as shard:
        assert shard.store.meta["identity"] == identity


def test_shards_hide_no_index_that_is_there(photos: Path, tmp_path: Path) -> None:
    with Index.create(tmp_path / "one", Colours()) as index:
        added = index.update_images(photos).added
    with pytest.raises(SeesayError, match="one: has an index without shards"):
        Index.create(tmp_path / "one", Colours(), shards=2)
    with Index.open(tmp_path / "one", Colours()) as index:
        assert index.count("image") == added
    Index.create(tmp_path / "two", Colours(), shards=2).close()
    with pytest.raises(SeesayError, match="two: has an index of 2 shards"):
        Index.create(tmp_path / "two", Colours())


def test_folders_of_photos_that_are_named_like_shards_are_none(tmp_path: Path) -> None:
    photos = gallery(tmp_path / "photos", "shard-1-of-2/red.png")
    with pytest.raises(SeesayError, match="photos: no index there"):
        Index.open(photos, Colours())
    with Index.create(photos / "index", Colours()) as index:
        assert index.update_images(photos).added == 1


def test_what_cannot_be_created_is_said(sharded: Index) -> None:
    sharded.close()
    shutil.rmtree(sharded.folder / "shard-1-of-2")
    (sharded.folder / "shard-1-of-2").write_bytes(b"")
    with pytest.raises(SeesayError, match="shard-1-of-2: cannot hold a shard"):
        Index.open_or_create(sharded.folder, Colours())


def test_shards_of_other_indexes_are_refused(sharded: Index, tmp_path: Path) -> None:
    sharded.close()
    first, second = (sharded.folder / f"shard-{number}-of-2" for number in (1, 2))
    shutil.rmtree(second)
    shutil.copytree(first, second)
    with pytest.raises(SeesayError, match="shard-2-of-2: not this shard"):
        Index.open(sharded.folder, Colours())


def test_shards_of_equal_indexes_are_refused(sharded: Index, photos: Path, tmp_path: Path) -> None:
    sharded.close()
    with Index.create(tmp_path / "other", Colours(), shards=2) as other:
        other.update_images(photos)
    shutil.rmtree(sharded.folder / "shard-2-of-2")
    shutil.copytree(tmp_path / "other" / "shard-2-of-2", sharded.folder / "shard-2-of-2")
    with pytest.raises(SeesayError, match="shard-2-of-2: not this shard"):
        Index.open(sharded.folder, Colours())


def test_an_index_inside_its_photos_leaves_out_all_shards(photos: Path) -> None:
    with Index.create(photos / "index", Colours(), shards=2) as index:
        assert index.update_images(photos).added == 5
        assert index.update_images(photos).added == 0
    with Index.open(photos / "index" / "shard-1-of-2", Colours()) as shard:
        assert shard.update_images().added == 0


def test_shards_are_for_vectors_in_this_process(tmp_path: Path) -> None:
    with pytest.raises(SeesayError, match="--shards: only for vectors in this process"):
        Index.create(tmp_path / "index", Colours(), "qdrant+http://localhost:6333", shards=2)
    with pytest.raises(SeesayError, match="--shards 101: expected"):
        Index.create(tmp_path / "index", Colours(), shards=101)
    assert not (tmp_path / "index").exists()


def test_the_command(photos: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = tmp_path / "index"

    def said(*arguments: str) -> dict[str, Any]:
        with pytest.raises(SystemExit, match="0"):
            main([*arguments, "--json"])
        said: dict[str, Any] = json.loads(capsys.readouterr().out)
        return said

    command = ("index", "--out", str(folder))
    assert said(*command, str(photos), "--shards", "2")["added"] == 5
    assert sorted(each.name for each in folder.iterdir()) == ["shard-1-of-2", "shard-2-of-2"]
    assert said(*command)["unchanged"] == 5
    assert len(said("search", str(folder), "something green", "-k", "2")["results"]) == 2
    assert said("info", str(folder))["images"] == 5
