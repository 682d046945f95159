"""An index is copied from a folder to PostgreSQL and back, bit for bit."""

from __future__ import annotations

import sqlite3
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from seesay.cli import main
from seesay.errors import SeesayError
from seesay.search.index import Index
from seesay.search.store import Store
from tests.search.colours import Colours, gallery
from tests.search.stores import STORES, place


@pytest.fixture(params=STORES)
def index(tmp_path: Path, request: pytest.FixtureRequest):
    """Two folders with a broken photo, a photo that was deleted, and sentences."""
    photos = gallery(tmp_path / "photos", "red.png", "blue.png", "sub/green.png", "white.png")
    gallery(tmp_path / "more", "yellow.png", "red-blue.png")
    (photos / "broken.png").write_text("no image")
    (photos / "notes.txt").write_text("no image")
    with Index.create(place(request.param, tmp_path), Colours()) as made:
        made.update_images([photos, tmp_path / "more"], exclude=["Screenshots"])
        made.add_sentences(["something red", "etwas Grünes 🌲"])
        for file in sorted(photos.rglob("*.png"))[:2]:
            file.unlink()
        made.update_images()
        yield made


def contents(store: Store) -> dict[str, object]:
    """All that a store holds."""
    found: dict[str, Any] = {"meta": store.metadata()}
    for table, rows in store.rows():
        values = [[each.tobytes() if isinstance(each, np.ndarray) else each for each in row] for row in rows]
        found.setdefault(table, []).extend(values)
    return {name: sorted(each) if isinstance(each, list) else each for name, each in found.items()}


@pytest.mark.parametrize("store", STORES)
def test_a_copy_holds_the_same_bit_for_bit(index: Index, tmp_path: Path, store: str) -> None:
    there = place(store, tmp_path / "copy")
    index.copy_to(there)
    with Index.open(there, Colours()) as copy:
        assert contents(copy.store) == contents(index.store)
        for query in ("something green", "blue and red", "id:4"):
            assert copy.search(query) == index.search(query)
        photos = index.store.photos().values()
        kept = [index.store.thumbnail(photo.key) for photo in photos]
        assert all(kept)
        assert [copy.store.thumbnail(photo.key) for photo in photos] == kept
        assert copy.info() | {"index": ""} == index.info() | {"index": ""}
        report = copy.update_images()
        assert (report.unchanged, report.added) == (len(photos), 0)


@pytest.mark.parametrize("store", STORES)
def test_ids_that_the_index_has_given_are_not_given_again(index: Index, tmp_path: Path, store: str) -> None:
    last, there = max(index.store.photos()), place(store, tmp_path / "copy")
    with index.store.write() as writer:
        writer.delete([last])
    index.copy_to(there)
    with Index.open(there, Colours()) as copy:
        assert copy.update_images().added == 1
        assert max(copy.store.photos()) > last


@pytest.mark.parametrize("store", STORES)
def test_a_copy_that_failed_is_made_again_by_the_same_call(
    index: Index, tmp_path: Path, store: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    there, rows = place(store, tmp_path / "copy"), index.store.rows

    def interrupted():
        for number, each in enumerate(rows()):
            if number == 3:
                raise KeyboardInterrupt
            yield each

    with monkeypatch.context() as patch:
        patch.setattr(index.store, "rows", interrupted)
        with pytest.raises(KeyboardInterrupt):
            index.copy_to(there)
    with Index.open(there, Colours()) as begun:
        assert begun.count("image") == 0
    index.copy_to(there)
    with Index.open(there, Colours()) as copy:
        assert contents(copy.store) == contents(index.store)


def test_an_index_is_not_written_over(index: Index, tmp_path: Path) -> None:
    before = contents(index.store)
    with Index.create(tmp_path / "other", Colours()) as other:
        for taken in (index.place, other.place):
            with pytest.raises(SeesayError, match="already exists; copy to another place"):
                index.copy_to(taken)
        with index.store.sole_writer(), pytest.raises(SeesayError, match="another update is running"):
            index.copy_to(tmp_path / "third")
    assert contents(index.store) == before


def test_damaged_vectors_are_not_copied(tmp_path: Path) -> None:
    with Index.create(tmp_path / "index", Colours()) as index:
        index.update_images(gallery(tmp_path / "photos", "red.png"))
        with sqlite3.connect(tmp_path / "index" / "index.sqlite") as connection:
            connection.execute("UPDATE vectors SET data = x'00'")
        connection.close()
        with pytest.raises(SeesayError, match="damaged"):
            index.copy_to(tmp_path / "copy")


def test_the_command_copies_in_both_directions(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    def run(*arguments: object) -> None:
        with pytest.raises(SystemExit) as exit_:
            main([*map(str, arguments)])
        assert exit_.value.code == 0

    first, second, third = tmp_path / "a.seesay", place("postgresql", tmp_path), tmp_path / "c.seesay"
    run("index", gallery(tmp_path / "photos", "red.png", "green.png"), "--out", first)
    run("copy", first, second)
    run("copy", second, third)
    capsys.readouterr()
    run("search", third, "something green", "-k", "1")
    assert "green.png" in capsys.readouterr().out
    with Index.open(first) as one, Index.open(third) as three:
        assert contents(one.store) == contents(three.store)


@pytest.mark.parametrize("damage", ["width = 'wide'", "width = x'00'", "width = 1.5", "taken = x'ff'"])
def test_values_of_a_wrong_type_are_not_copied(tmp_path: Path, damage: str) -> None:
    with Index.create(tmp_path / "index", Colours()) as index:
        index.update_images(gallery(tmp_path / "photos", "red.png"))
        with sqlite3.connect(tmp_path / "index" / "index.sqlite") as connection:
            connection.execute(f"UPDATE vectors SET {damage}")
        connection.close()
        there = place("postgresql", tmp_path)
        with pytest.raises(SeesayError, match="damaged"):
            index.copy_to(there)
