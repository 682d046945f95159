"""An index whose file was edited, by accident or to do harm."""

from __future__ import annotations

import shutil
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest

from seesay.errors import SeesayError
from seesay.search import Index
from seesay.search.filters import Filter
from tests.linear import check_linear
from tests.search.colours import Colours, gallery, opened

ENDLESS = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT i FROM n"


@pytest.fixture
def photos(tmp_path: Path) -> Path:
    return gallery(tmp_path / "photos", "red.png", "blue.png")


@pytest.fixture
def folder(tmp_path: Path, photos: Path) -> Path:
    with Index.create(tmp_path / "index", Colours()) as index:
        index.update_images(photos)
    return tmp_path / "index"


def edit(folder: Path, *statements: str) -> None:
    with closing(sqlite3.connect(folder / "index.sqlite")) as connection, connection:
        connection.execute("PRAGMA ignore_check_constraints = ON")
        for statement in statements:
            connection.execute(statement)


USES: dict[str, Callable[[Index, Path], object]] = {
    "search": lambda index, _: index.search("red - blue"),
    "page": lambda index, _: index.store.newest(9),
    "months": lambda index, _: index.store.months(Filter.parse("name:png")),
    "folders": lambda index, _: index.store.folders(),
    "facts": lambda index, _: index.store.photos([1, 2]),
    "roots": lambda index, _: index.roots(),
    "not read": lambda index, _: index.store.not_read(),
    "like": lambda index, _: index.search("id:1"),
    "update": lambda index, photos: index.update_images(photos),
    "new photo": lambda index, photos: index.update_images(gallery(photos, "green.png")),
}

DEEP = "'" + "[" * 100_000 + "'"


@pytest.mark.parametrize(
    ("use", "statement"),
    [
        ("search", "UPDATE meta SET value = 'many' WHERE key = 'generation'"),
        ("search", "DELETE FROM meta WHERE key = 'generation'"),
        ("new photo", "UPDATE vectors SET id = 9223372036854775807 WHERE id = 1"),
        ("update", "UPDATE meta SET value = '-1' WHERE key = 'generation'"),
        ("search", "UPDATE vectors SET data = 7"),
        ("search", "UPDATE vectors SET data = 'short'"),
        ("like", "UPDATE vectors SET data = x'00'"),
        ("search", "UPDATE items SET path = x'ff' WHERE id = 1"),
        ("search", "UPDATE vectors SET width = 'wide'"),
        ("update", "UPDATE items SET mtime_ns = 'late'"),
        ("update", "INSERT INTO skipped VALUES ('a.png', 'late', 'large', 'late', x'00')"),
        ("page", "UPDATE items SET time = NULL"),
        ("facts", "UPDATE vectors SET height = 1.5"),
        ("months", "UPDATE items SET time = x'ff'"),
        ("folders", "UPDATE items SET path = NULL"),
        ("facts", "UPDATE items SET dated_by = x'00'"),
        ("roots", "UPDATE roots SET seal = x'00'"),
        ("roots", "UPDATE roots SET folder = '/' || printf('%.*c', 100000, 'x')"),
        ("roots", "UPDATE roots SET folder = '/photos' || char(0)"),
        ("update", "UPDATE roots SET folder = 'photos'"),
        ("roots", f"INSERT INTO roots SELECT i, i, '', '{{}}' FROM ({ENDLESS} LIMIT 100000)"),
        ("not read", f"UPDATE roots SET not_read = {DEEP}"),
        ("not read", "UPDATE roots SET not_read = '[1]'"),
        ("not read", 'UPDATE roots SET not_read = \'{"raw": "many"}\''),
    ],
)
def test_values_that_cannot_be_are_damage(folder: Path, photos: Path, use: str, statement: str) -> None:
    edit(folder, statement)
    with pytest.raises(SeesayError, match="damaged") as raised, opened(folder) as index:
        USES[use](index, photos)
    assert "\n" not in str(raised.value)


@pytest.mark.parametrize(
    "statement",
    [
        *(
            f"UPDATE meta SET value = x'61' WHERE key = '{key}'"
            for key in ("identity", "dim", "embedder", "fingerprint")
        ),
        "INSERT INTO meta VALUES (x'61', 'a')",
        "INSERT OR REPLACE INTO meta VALUES ('background', x'61')",
    ],
)
def test_what_an_index_says_of_itself_is_checked_when_it_is_opened(folder: Path, statement: str) -> None:
    edit(folder, statement)
    with pytest.raises(SeesayError, match="damaged") as raised:
        opened(folder)
    assert "\n" not in str(raised.value)


@pytest.mark.parametrize(
    "statement",
    [
        f"CREATE VIEW more AS {ENDLESS}",
        "CREATE TRIGGER more AFTER UPDATE ON meta BEGIN DELETE FROM items; END",
        "CREATE TABLE more (id INTEGER)",
        "DROP INDEX items_by_time",
        "ALTER TABLE items ADD COLUMN stars INTEGER",
        "ALTER TABLE items RENAME TO things",
    ],
)
def test_a_file_of_another_schema_is_refused_before_it_is_read(folder: Path, statement: str) -> None:
    edit(folder, statement)
    with pytest.raises(SeesayError, match=r"damaged \(its schema\)"):
        opened(folder)


def test_a_long_path_is_taken_apart_in_linear_time(folder: Path) -> None:
    with opened(folder) as index:

        def find(path: str) -> None:
            edit(folder, f"UPDATE items SET path = 'photos/{path}' WHERE id = 1")
            assert index.store.folders() == {"photos": 1}

        check_linear(find, lambda size: "a" * (size // 2) + "b" * (size // 2), 64_000)


def test_a_view_in_place_of_a_table_holds_nobody_up(folder: Path) -> None:
    edit(folder, "DROP TABLE roots", f"CREATE VIEW roots AS SELECT i AS name, i AS folder FROM ({ENDLESS})")
    with pytest.raises(SeesayError, match=r"damaged \(its schema\)"):
        opened(folder)


def contents(folder: Path) -> dict[Path, bytes]:
    return {file: file.read_bytes() for file in folder.rglob("*") if file.is_file()}


@pytest.mark.parametrize("replaced", [False, True])
def test_an_index_that_was_deleted_or_replaced_takes_no_update(
    folder: Path, photos: Path, replaced: bool
) -> None:
    with opened(folder) as index:
        shutil.rmtree(folder)
        if replaced:
            Index.create(folder, Colours()).close()
        before = contents(folder)
        assert list(before) == ([folder / "index.sqlite"] if replaced else [])
        item = next(iter(index.store.photos().values()))
        index.thumbnail(item)
        for use in (
            lambda: index.update_images(photos),
            lambda: index.add_sentences(["a dog"]),
            index.check_readable,
        ):
            with pytest.raises(SeesayError, match="was deleted or replaced while it was in use"):
                use()
        assert contents(folder) == before
        assert folder.exists() == replaced
