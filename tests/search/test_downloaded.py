"""An index that somebody else made, to do harm where it is opened."""

from __future__ import annotations

import sqlite3
import struct
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest

from seesay.errors import SeesayError
from seesay.search import Index
from tests.search.colours import Colours, gallery, opened, picture


@pytest.fixture
def photos(tmp_path: Path) -> Path:
    return gallery(tmp_path / "photos", "red.png")


@pytest.fixture
def folder(tmp_path: Path, photos: Path) -> Path:
    """An index of a photo with its thumbnail."""
    with Index.create(tmp_path / "there" / "index", Colours()) as index:
        index.update_images(photos)
    return tmp_path / "there" / "index"


def edit(folder: Path, statement: str, *values: str) -> None:
    with closing(sqlite3.connect(folder / "index.sqlite")) as connection, connection:
        connection.execute(statement, values)


@pytest.mark.parametrize("key", ["../../pictures/wedding", "", "A" * 32, "a" * 31, "a" * 32 + "\0/../x"])
def test_an_index_whose_keys_are_no_content_keys_is_refused(folder: Path, photos: Path, key: str) -> None:
    edit(folder, "UPDATE vectors SET key = ? WHERE id = 1", key)
    with opened(folder) as index:
        for use in (lambda: index.search("red"), lambda: index.update_images(photos)):
            with pytest.raises(SeesayError, match=r"damaged \(a content key"):
                use()


def test_an_index_without_an_identity_is_refused(folder: Path) -> None:
    edit(folder, "DELETE FROM meta WHERE key = 'identity'")
    with pytest.raises(SeesayError, match=r"damaged \(no identity"):
        opened(folder)


def test_no_key_leads_out_of_the_folder_of_thumbnails(tmp_path: Path) -> None:
    other = tmp_path / "pictures" / "wedding.jpg"
    other.parent.mkdir()
    other.write_bytes(picture("white", format="JPEG"))
    with Index.create(tmp_path / "there" / "index", Colours()) as index:
        index.update_images(gallery(tmp_path / "photos", "red.png"))
        (item,) = index.store.photos().values()
        elsewhere = replace(item, key="../../pictures/wedding")
        assert index.thumbnail(elsewhere) == index.thumbnail(item)  # and not the other picture
        index.store.drop_thumbnails([elsewhere.key])
    assert other.exists()


def test_an_update_deletes_no_file_that_a_key_names(folder: Path, photos: Path) -> None:
    other = folder.parents[1] / "pictures" / "wedding.jpg"  # seen from thumbnails/..
    other.parent.mkdir()
    other.write_bytes(picture("white", format="JPEG"))
    edit(folder, "UPDATE vectors SET key = '../../pictures/wedding'")
    (photos / "red.png").unlink()
    gallery(photos, "blue.png")
    with opened(folder) as index, pytest.raises(SeesayError):
        index.update_images(photos)
    assert other.exists()


def test_thumbnails_that_came_with_an_index_are_not_shown(
    folder: Path, photos: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with opened(folder) as index:
        (item,) = index.store.photos().values()
        made = index.thumbnail(item)
    for file in (folder / "thumbnails").rglob("*.jpg"):
        file.write_bytes(b"of somebody else")
    monkeypatch.setenv("SEESAY_CACHE", str(folder.parent / "cache of another user"))
    with Index.open(folder, Colours(), root=photos) as index:
        assert index.thumbnail(item) == made


@pytest.mark.parametrize("linked", ["file", "folder", "all"])
def test_links_among_the_thumbnails_are_not_followed(
    folder: Path, photos: Path, tmp_path: Path, linked: str
) -> None:
    with opened(folder) as index:
        (item,) = index.store.photos().values()
        (file,) = (folder / "thumbnails").rglob("*.jpg")
        place = {"file": file, "folder": file.parent, "all": folder / "thumbnails"}[linked]
        away = place.rename(tmp_path / "away")
        place.symlink_to(away, target_is_directory=away.is_dir())
        secret = away / file.relative_to(place) if away.is_dir() else away
        secret.write_bytes(b"secret")
        assert index.thumbnail(item) != b"secret"
        index.store.drop_thumbnails([item.key])
        assert secret.read_bytes() == b"secret"


def with_journal(file: Path, pages: int, page_size: int, named: Path) -> None:
    """Put a rollback journal beside a file, which tells SQLite to delete another one."""
    magic, name = bytes.fromhex("d9d505f920a163d7"), str(named).encode()
    head = (magic + struct.pack(">IIIII", 0, 1, pages, 512, page_size)).ljust(512, b"\0")
    end = struct.pack(">II", len(name), sum(name)) + magic
    journal = head + struct.pack(">I", (1 << 30) // page_size + 1) + name + end
    file.with_name(f"{file.name}-journal").write_bytes(journal)


@pytest.mark.parametrize("name", ["index.sqlite", "update.lock"])
def test_no_journal_deletes_a_file_of_this_machine(
    folder: Path, photos: Path, tmp_path: Path, name: str
) -> None:
    diary, file = tmp_path / "diary.txt", folder / name
    diary.write_text("my only copy")
    with closing(sqlite3.connect(folder / "index.sqlite")) as connection:
        connection.execute("PRAGMA journal_mode = DELETE")
        (pages,) = connection.execute("PRAGMA page_count").fetchone()
        (size,) = connection.execute("PRAGMA page_size").fetchone()
    if name == "update.lock":
        file.write_bytes((folder / "index.sqlite").read_bytes())
    with_journal(file, pages, size, diary)
    with pytest.raises(SeesayError, match=r"damaged; index again|not a lock file"):
        opened(folder).update_images(photos)
    assert diary.read_text() == "my only copy"


def test_a_path_that_would_take_long_is_damage(folder: Path, photos: Path) -> None:
    edit(folder, "UPDATE items SET path = ?", "a/" * 5000 + "x.jpg")
    with opened(folder) as index, pytest.raises(SeesayError, match=r"damaged \(a path that cannot be"):
        index.update_images(photos)
