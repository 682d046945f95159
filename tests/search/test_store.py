import os
import signal
import sqlite3
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import closing, suppress
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from seesay.data.images import content_key
from seesay.errors import SeesayError
from seesay.search import Index
from seesay.search.filters import Filter
from seesay.search.index import create_store, open_store
from seesay.search.photo import FileState
from seesay.search.store import Store
from seesay.search.tables import Content
from tests.search.colours import Colours, gallery, opened
from tests.search.stores import STATE, put_photos


@pytest.fixture
def store(tmp_path: Path):
    made = create_store(tmp_path, "colours", "1", 4)
    yield made
    made.close()


def key_of(name: str) -> str:
    """The content key of a file whose content is its name."""
    return content_key(name.encode())


def put(store: Store, *paths: str, value: float = 1.0) -> None:
    content = Content(np.full(4, value, np.float32), (30, 20))
    put_photos(store, {path: (key_of(path), content) for path in paths})


def test_items_come_back_as_they_went_in(store: Store) -> None:
    put(store, "a.jpg", "sub/ü.jpg")
    with store.write() as writer:
        writer.put_vectors("sentence", {key_of("k"): Content(np.arange(4, dtype=np.float32))})
        writer.put_sentences({"Zwei Hunde.": key_of("k")})
    photos = {photo.path: photo for photo in store.photos([1, 2, 3, 99]).values()}
    assert set(photos) == {"a.jpg", "sub/ü.jpg"}
    assert store.sentences([1, 2, 3, 99]) == {3: "Zwei Hunde."}
    image = photos["sub/ü.jpg"]
    assert (image.width, image.height, image.state.mtime_ns, image.state.size) == (30, 20, 7, 9)
    assert store.ids("sentence").tolist() == [3]
    np.testing.assert_array_equal(store.vectors([3])[1], [[0, 1, 2, 3]])


def test_a_failed_transaction_leaves_nothing(store: Store) -> None:
    put(store, "a.jpg")

    def fail() -> None:
        with store.write() as writer:
            writer.delete([1])
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fail()
    assert store.count("image") == 1
    assert store.generation() == 1


def test_every_write_is_a_generation_and_its_items_can_be_listed(store: Store) -> None:
    put(store, "a.jpg", "b.jpg")
    first = store.generation()
    put(store, "c.jpg")
    assert store.generation() == first + 1
    assert store.ids("image", since=first).tolist() == [3]
    assert store.ids("image").tolist() == [1, 2, 3]
    with store.write() as writer:
        writer.delete([2])
    assert store.ids("image", since=first + 1).tolist() == []
    assert store.ids("image").tolist() == [1, 3]


def test_ids_are_never_used_again(store: Store) -> None:
    put(store, "a.jpg")
    with store.write() as writer:
        writer.delete([1])
    put(store, "b.jpg")
    assert list(store.photos()) == [2]


def test_orphaned_vectors_go_and_shared_ones_stay(store: Store) -> None:
    put(store, "a.jpg", "b.jpg")
    with store.write() as writer:
        writer.put_images({"copy of a.jpg": (key_of("a.jpg"), STATE)})
        writer.delete([1, 2])
        assert writer.drop_orphans() == [key_of("b.jpg")]
    assert store.known("image", [key_of("a.jpg"), key_of("b.jpg")]) == {key_of("a.jpg")}


def test_a_reader_sees_whole_transactions_while_a_writer_writes(store: Store) -> None:
    pairs = 60
    reader = open_store(store.place)

    def write() -> None:
        for i in range(pairs):
            put(store, f"{i}-left.jpg", f"{i}-right.jpg")

    thread = threading.Thread(target=write)
    thread.start()
    counts = []
    while thread.is_alive():
        counts.append(len(reader.ids("image")))
    thread.join()
    assert all(count % 2 == 0 for count in counts)
    assert len(reader.ids("image")) == 2 * pairs
    reader.close()


WRITER = """
import sys, numpy as np
from pathlib import Path
from seesay.search.index import open_store
from seesay.search.tables import Content
from tests.search.stores import put_photos
store = open_store(sys.argv[1])
n = 0
while True:
    content = Content(np.ones(4, np.float32), (1, 1))
    put_photos(store, {f"{i}.jpg": (str(i), content) for i in range(n, n + 50)})
    n += 50
    print(n, flush=True)
"""


@pytest.mark.parametrize("delay", [0.0, 0.013, 0.041])
def test_a_kill_in_the_middle_loses_no_finished_batch(store: Store, delay: float) -> None:
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)}
    command = [sys.executable, "-c", WRITER, store.place]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment)
    assert process.stdout is not None
    said = [process.stdout.readline() for _ in range(3)]
    time.sleep(delay)
    process.send_signal(signal.SIGKILL)
    process.wait()
    said += process.stdout.read().split()
    again = open_store(store.place)
    count = again.count("image")
    assert count >= int(said[-1])
    assert count % 50 == 0
    again.close()
    with closing(sqlite3.connect(store.path)) as connection:
        assert connection.execute("PRAGMA integrity_check").fetchone() == ("ok",)


def test_a_damaged_file_says_so(store: Store) -> None:
    for i in range(5):
        put(store, *(f"{i}-{j}.jpg" for j in range(200)))
    store.close()  # which moves the log of what was written into the file
    data = bytearray(store.path.read_bytes())
    data[4096 : len(data) * 3 // 4] = b"\x55" * (len(data) * 3 // 4 - 4096)
    store.path.write_bytes(data)
    with pytest.raises(SeesayError, match=r"damaged.*index again"):
        open_store(store.place).photos()


def test_images_are_in_the_order_of_their_times_whatever_changes_them(store: Store) -> None:
    with store.write() as writer:
        dated = Content(np.ones(4, np.float32), (3, 2), "2019-06-30T12:00:00")
        writer.put_vectors("image", {key_of("b.jpg"): dated})
    put(store, "a.jpg", "b.jpg", "c.jpg")
    with store.write() as writer:
        writer.move_images({1: "moved.jpg"})
        changed = FileState(1_500_000_000 * 10**9, 9, 0)
        writer.put_images({"moved.jpg": (key_of("a.jpg"), changed), "c.jpg": (key_of("b.jpg"), STATE)})
    assert [(each.path, each.time) for each in store.newest(9)] == [
        ("c.jpg", "2019-06-30T12:00:00"),
        ("b.jpg", "2019-06-30T12:00:00"),
        ("moved.jpg", "2017-07-14T02:40:00"),
    ]
    assert store.months() == {"2019-06": 2, "2017-07": 1}
    assert store.months(Filter.parse("taken:2019")) == {"2019-06": 2}


@pytest.mark.parametrize("where", [Filter(), Filter.parse("taken:2019 folder:italy")])
@pytest.mark.parametrize("offset", [0, 7])
def test_a_page_of_the_newest_images_sorts_nothing(store: Store, where: Filter, offset: int) -> None:
    asked: list[str] = []
    store._connection.set_trace_callback(asked.append)
    store.newest(40, where, offset)
    store._connection.set_trace_callback(None)
    (query,) = [each for each in asked if each.startswith("SELECT")]
    plan = [row[-1] for row in store._connection.execute(f"EXPLAIN QUERY PLAN {query}")]
    assert "items_by_time" in plan[0]
    assert not any("TEMP B-TREE" in step for step in plan)


@pytest.mark.parametrize("id_", [1 << 63, 1 << 70, -1, -(1 << 70)])
def test_ids_that_no_item_can_have_are_absent(store: Store, id_: int) -> None:
    put(store, "a.jpg")
    assert store.vector(id_) is None
    assert store.photos([id_]) == {}
    assert store.vectors([id_, 1])[0].tolist() == [1]
    assert [each.id for each in store.newest(1 << 70)] == [1]


def test_an_index_without_its_width_is_damaged(store: Store) -> None:
    store.close()
    with sqlite3.connect(store.path) as connection:
        connection.execute("DELETE FROM meta WHERE key = 'dim'")
    connection.close()
    with pytest.raises(SeesayError, match="damaged"):
        open_store(store.place)


def test_an_index_that_another_process_creates_meanwhile_exists(tmp_path: Path) -> None:
    path = tmp_path / "index.sqlite"
    with closing(sqlite3.connect(path, isolation_level=None)) as other, ThreadPoolExecutor(1) as threads:
        other.execute("BEGIN IMMEDIATE")
        other.execute("CREATE TABLE meta (key)")
        created = threads.submit(create_store, tmp_path, "noise", "1", 2)
        wait([created], timeout=0.3)
        other.execute("COMMIT")
        with pytest.raises(SeesayError, match="already exists; open it"):
            created.result()


def test_ids_say_what_is_there_and_what_is_new(tmp_path: Path) -> None:
    store = create_store(tmp_path, "noise", "1", 2)
    since = 0

    def put(*names: str) -> None:
        put_photos(store, {name: (name, Content(np.ones(2, np.float32), (1, 1))) for name in names})

    def look() -> tuple[list[int], list[int]]:
        nonlocal since
        new = store.ids("image", since)
        since = store.generation()
        return store.ids("image").tolist(), new.tolist()

    assert look() == ([], [])
    put("a", "b", "c")
    assert look() == ([1, 2, 3], [1, 2, 3])
    assert look() == ([1, 2, 3], [])
    put("d", "a")  # of which one is as it was
    assert look() == ([1, 2, 3, 4], [4])
    with store.write() as writer:
        writer.put_images({"a": ("b", STATE)})
    assert look() == ([1, 2, 3, 4], [1])
    with store.write() as writer:
        writer.delete([2])
    put("e")  # as many as before
    alive, new = look()
    assert alive == [1, 3, 4, *new]
    with store.write() as writer:
        writer.delete([3])
    assert look() == ([1, 4, *new], [])
    store.close()


def test_a_forked_process_is_told_to_open_the_index_again(tmp_path: Path) -> None:
    """It would wait for ever for a lock that another thread held."""
    photos = gallery(tmp_path / "photos", "red.png")
    with Index.create(tmp_path / "index", Colours()) as index:
        index.update_images(photos)
        with index.store.write(), index._loading, index._judge._lock:
            child = os.fork()
            if child == 0:
                signal.alarm(20)
                told = 0
                for use in (
                    lambda: index.search("red"),
                    lambda: index.update_images(photos),
                    lambda: index.add_sentences(["red"]),
                    lambda: index.stacks(),
                    lambda: index.count("image"),
                    lambda: index.info(),
                ):
                    with suppress(SeesayError):
                        use()
                        told -= 1
                    told += 1
                index.close()
                os._exit(told)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 6
        child = os.fork()
        if child == 0:
            signal.alarm(20)
            os._exit(len(opened(index.place).search("red")))
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 1
        assert len(index.search("red")) == 1


def test_an_index_that_cannot_be_opened_leaves_nothing_open(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    connections, connect = list[int](), sqlite3.connect

    class Connection(sqlite3.Connection):
        def __init__(self, *given: Any, **options: Any) -> None:
            super().__init__(*given, **options)
            connections.append(id(self))

        def close(self) -> None:
            super().close()
            connections.remove(id(self))

    with Index.create(tmp_path / "index", Colours()) as index:
        index.update_images(gallery(tmp_path / "photos", "red.png"))
    monkeypatch.setattr(
        sqlite3, "connect", lambda *given, **options: connect(*given, **options, factory=Connection)
    )
    for wrong in (
        lambda: Index.open(tmp_path / "index", Colours("other")),
        lambda: Index.open(tmp_path / "index", Colours(), {"unknown": tmp_path}),
        lambda: create_store(tmp_path / "index", "colours", "1", 4),
    ):
        with pytest.raises(SeesayError):
            wrong()
        assert not connections
