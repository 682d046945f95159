import errno
import os
import sqlite3
from contextlib import closing
from pathlib import Path

import numpy as np
import pytest

from seesay.errors import SeesayError
from seesay.search.filters import EVERYTHING
from seesay.search.index import create_store, open_store, store_exists
from seesay.search.store import Store
from seesay.search.tables import Content
from tests.search.stores import put_photos


@pytest.fixture
def store(tmp_path: Path):
    """Two images, of which one says when it was taken."""
    made = create_store(tmp_path, "colours", "1", 4)
    for name, taken in (("a", ""), ("b", "2019-06-30T12:00:00")):
        put_photos(made, {f"{name}.jpg": (name, Content(np.ones(4, np.float32), (30, 20), taken))})
    yield made
    made.close()


def test_not_an_index(tmp_path: Path) -> None:
    with pytest.raises(SeesayError, match="no index there"):
        open_store(tmp_path)
    file = tmp_path / "index.sqlite"
    file.write_text("This is some text, and by no means a database of any kind. " * 50)
    with pytest.raises(SeesayError, match="not a seesay index"):
        open_store(tmp_path)
    file.unlink()
    with closing(sqlite3.connect(file)) as other:
        other.execute("CREATE TABLE meta (key, value)")
    with pytest.raises(SeesayError, match="not a seesay index"):
        open_store(tmp_path)


def test_a_damaged_schema_that_is_not_text_is_one_message(store: Store) -> None:
    store.close()
    content = store.path.read_bytes()
    assert content.count(b"CREATE TABLE meta (") == 1
    store.path.write_bytes(content.replace(b"CREATE TABLE meta (", b"CREATE \xef\xbe\xc1\xf5E meta ("))
    assert store_exists(store.place)
    with pytest.raises(SeesayError, match="damaged"):
        open_store(store.place)


def test_an_index_of_another_version_is_refused(store: Store) -> None:
    store.close()
    with closing(sqlite3.connect(store.path)) as connection:
        connection.execute("PRAGMA user_version = 4")
    with pytest.raises(SeesayError, match="another version of seesay"):
        open_store(store.place)


def broken_read(*_: object, **__: object) -> None:
    raise OSError(errno.EIO, os.strerror(errno.EIO))


def test_a_disk_that_does_not_say_whether_there_is_an_index_is_one_line(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Path, "stat", broken_read)
    for ask in (open_store, store_exists):
        with pytest.raises(SeesayError, match=r"cannot be read or written \(Input/output error\)"):
            ask(store.place)


def test_an_index_whose_bytes_were_changed_is_said_to_be_damaged(store: Store) -> None:
    store.close()
    content = bytearray(store.path.read_bytes())
    content[4096 : 2 * 4096] = b"\xff" * 4096
    store.path.write_bytes(content)
    with (
        pytest.raises(SeesayError, match=r"damaged \(.*\); index again"),
        closing(open_store(store.place)) as again,
    ):
        again.items()


def test_creating_twice_is_refused_but_an_empty_file_is_none(tmp_path: Path) -> None:
    path = tmp_path / "index.sqlite"
    path.touch()
    assert not store_exists(tmp_path)
    create_store(tmp_path, "colours", "1", 4).close()
    assert store_exists(tmp_path)
    with pytest.raises(SeesayError, match="already exists"):
        create_store(tmp_path, "colours", "1", 4)


def test_photos_and_texts_of_a_few_ids_are_looked_up_and_not_searched_for(
    store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """SQLite would read all photos by the index of kinds: at a million, most of the time of a query."""
    asked = []
    rows = Store._rows
    monkeypatch.setattr(
        Store, "_rows", lambda self, query, *rest: asked.append((query, rest[0])) or rows(self, query, *rest)
    )
    store.photos([7, 8])
    store.sentences([7, 8])
    store.with_words(["a", "dog"], 5, EVERYTHING)
    assert len(asked) == 3
    (file,) = tmp_path.rglob("index.sqlite")
    with closing(sqlite3.connect(file)) as database:
        for query, values in asked:
            steps = [step[3] for step in database.execute(f"EXPLAIN QUERY PLAN {query}", values)]
            assert not any("kind=?" in step or step == "SCAN items" for step in steps), steps
