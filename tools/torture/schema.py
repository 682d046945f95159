"""Each column of each table of an index set to what it never holds, and tables replaced by what hangs."""

from __future__ import annotations

import shutil
import sqlite3
import time
from collections.abc import Callable, Iterator
from contextlib import closing, suppress
from functools import partial
from pathlib import Path

from seesay.errors import SeesayError
from seesay.progress import visible
from seesay.search.filters import Filter
from seesay.search.index import Index
from seesay.search.photo import Photo
from tests.search.colours import Colours, gallery
from tools.torture.base import Outcome, Stage, attack

SECONDS = 30.0  # of a use; undamaged ones take milliseconds
VALUES = (
    *("NULL", "-1", "0", "1", "1.5", "9223372036854775807", "-9223372036854775808", "1e308", "9e999"),
    *(
        "''",
        "'x'",
        "x''",
        "x'00'",
        "x'ff'",
        "zeroblob(10000000)",
        "CAST(x'eda080' AS TEXT)",
        "char(0, 10, 27)",
    ),
    *("'../../../etc/passwd'", "'/etc/passwd'", "'s3://nowhere/x'", "printf('%.*c', 1000000, 'x')"),
    *("printf('%.*c', 100000, '[')", "'{}'", "'[]'", "'null'", "'NaN'", '\'{"a": {"b": 1}}\''),
)
ENDLESS = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT i"

USES: dict[str, Callable[[Index, Path], object]] = {
    "search": lambda index, _: [hit.path for hit in index.search("red - blue", 5)],
    "filter": lambda index, _: index.search("red", 5, where="name:png taken:2019 folder:a"),
    "like": lambda index, _: index.search("id:1"),
    "sentences": lambda index, photos: index.sentences_for(photos / "red.png"),
    "newest": lambda index, _: index.store.newest(9),
    "months": lambda index, _: index.store.months(Filter.parse("name:png")),
    "folders": lambda index, _: index.store.folders(),
    "facts": lambda index, _: index.store.photos([1, 2]),
    "skipped": lambda index, _: index.store.skipped(),
    "not read": lambda index, _: index.store.not_read(),
    "roots": lambda index, _: [index.absent(), *map(index.file_at, ["red.png", "a/../../x"])],
    "files": lambda index, _: [_opened(index, item) for item in index.store.photos().values()],
    "update": lambda index, photos: index.update_images(photos),
    "readable": lambda index, _: index.check_readable(),
}


def _opened(index: Index, item: Photo) -> bool:
    with suppress(OSError):
        index.open_image(item).close()
        return True
    return False


def tables(file: Path) -> dict[str, list[str]]:
    """The columns of each table."""
    with closing(sqlite3.connect(file)) as connection:
        names = [
            name
            for (name,) in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")
            if not name.startswith("sqlite_")
        ]
        return {name: [row[1] for row in connection.execute(f"PRAGMA table_info({name})")] for name in names}


def set_column(file: Path, table: str, column: str, value: str) -> bool:
    """Set a column of all rows, whatever the schema forbids; whether that could be done."""
    loose = "sql"
    for follows in (",", " CHECK", " REFERENCES", "\n"):  # not that of a condition
        loose = f"replace({loose}, ' NOT NULL{follows}', '{follows}')"
    with closing(sqlite3.connect(file, isolation_level=None)) as connection:
        connection.execute("PRAGMA ignore_check_constraints = ON")
        before = connection.execute("SELECT rowid, sql FROM sqlite_master").fetchall()
        connection.execute("PRAGMA writable_schema = ON")
        connection.execute(f"UPDATE sqlite_master SET sql = {loose} WHERE name = ?", (table,))
    with closing(sqlite3.connect(file, isolation_level=None)) as connection:
        connection.execute("PRAGMA ignore_check_constraints = ON")
        done = False
        with suppress(sqlite3.Error):
            connection.execute(f"UPDATE OR REPLACE {table} SET {column} = {value}")
            done = True
        connection.execute("PRAGMA writable_schema = ON")
        connection.executemany(
            "UPDATE sqlite_master SET sql = ? WHERE rowid = ?", [(b, a) for a, b in before]
        )
    return done


def damages(file: Path) -> Iterator[tuple[str, Callable[[Path], bool]]]:
    """Every damage, with a name: columns set to each value, then tables that run queries without end."""
    found = tables(file)
    for table, columns in found.items():
        for column in columns:
            for value in VALUES:
                set_it = partial(set_column, table=table, column=column, value=value)
                yield f"{table}.{column} = {value}", set_it
    for table, columns in found.items():
        cells = ", ".join(f"i AS {column}" for column in columns)
        yield (
            f"{table} is a view",
            _script(f"DROP TABLE {table}; CREATE VIEW {table} AS SELECT {cells} FROM ({ENDLESS} FROM n)"),
        )
        for event in ("INSERT", "UPDATE", "DELETE"):
            body = f"SELECT count(*) FROM ({ENDLESS} FROM n)"
            yield (
                f"{table} has a trigger on {event}",
                _script(f"CREATE TRIGGER t AFTER {event} ON {table} BEGIN {body}; END"),
            )
        yield f"{table} is gone", _script(f"DROP TABLE {table}")
        yield f"{table} is empty", _script(f"DELETE FROM {table}")


def _script(statements: str) -> Callable[[Path], bool]:
    def run(file: Path) -> bool:
        try:
            with closing(sqlite3.connect(file)) as connection:
                connection.executescript(statements)
        except sqlite3.Error:
            return False
        return True

    return run


@attack(
    "schema",
    "every column of every table of an index set to 27 unexpected values, and endless views and triggers: "
    "an answer or a one-line error within 30 s",
)
def schema(stage: Stage) -> Outcome:
    """Damage a copy of a sound index in each way, in an order that is drawn, and use it in each way."""
    outcome, sound, copy = Outcome(), stage.folder / "sound", stage.folder / "copy"
    photos = gallery(stage.folder / "photos", "red.png", "blue.png", "a/green.png")
    (photos / "broken.png").write_bytes(b"no image")
    with Index.create(sound, Colours()) as index:
        index.update_images(photos)
        index.add_sentences(["something red", "something blue"])
    every = list(damages(sound / "index.sqlite"))
    stage.draw.shuffle(every)
    tried = 0
    for name, damage in every:
        if not stage.goes_on:
            break
        shutil.rmtree(copy, ignore_errors=True)
        shutil.copytree(sound, copy)
        if not damage(copy / "index.sqlite"):
            continue
        tried += 1
        for use, ask in USES.items():
            _use(outcome, copy, photos, f"{name}: {use}", ask)
    outcome.measured = f"{tried} damages of {len(every)}, each used in {len(USES)} ways"
    return outcome


def _use(
    outcome: Outcome, folder: Path, photos: Path, name: str, ask: Callable[[Index, Path], object]
) -> None:
    started, wrong = time.monotonic(), ""
    try:
        with Index.open(folder, Colours()) as index:
            ask(index, photos)
    except SeesayError as error:
        wrong = "more than one line" if "\n" in visible(str(error)) else ""  # as it is printed
    except Exception as error:
        wrong = f"{type(error).__name__}: {error}"[:200]
    took = time.monotonic() - started
    outcome.check(not wrong and took < SECONDS, f"{name}: {wrong or f'{took:.0f} s'}")
