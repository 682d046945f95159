"""What an index in PostgreSQL has alone; test_index.py, test_filters.py and others run with every store."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from seesay.cli import main
from seesay.errors import MissingExtraError, SeesayError
from seesay.search.filters import EVERYTHING, Filter
from seesay.search.hits import PageEnd
from seesay.search.index import Index, create_store, open_store, store_exists
from seesay.search.store import Store
from seesay.search.tables import Content
from tests.search.colours import Colours, gallery
from tests.search.stores import address, place, put_photos
from tests.waiting import waited

psycopg = pytest.importorskip("psycopg", reason="psycopg is not installed")
pytest.importorskip("psycopg_pool", reason="psycopg_pool is not installed")
postgresql = pytest.importorskip("seesay.search.postgresql")
DatabaseStore = postgresql.DatabaseStore

DIM, COUNT = 32, 3000
RECALL = 0.95


@pytest.fixture(scope="module")
def vectors() -> NDArray[np.float32]:
    drawn = np.random.default_rng(0).standard_normal((COUNT, DIM)).astype(np.float32)
    return drawn / np.linalg.norm(drawn, axis=1, keepdims=True)


@pytest.fixture(scope="module")
def graph(vectors: NDArray[np.float32], tmp_path_factory: pytest.TempPathFactory) -> Iterator[Store]:
    """Images with a graph, of which every hundredth is in a folder of its own."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(DatabaseStore, "graph_from", 1000)
        store = create_store(place("postgresql", tmp_path_factory.mktemp("unused")), "noise", "1", DIM)
        put(store, vectors)
        store.settle("image")
        yield store
        store.close()


@pytest.fixture
def index(tmp_path: Path) -> Iterator[Index]:
    with Index.create(place("postgresql", tmp_path), Colours()) as made:
        made.update_images(gallery(tmp_path / "photos", "red.png", "blue.png", "sub/green.png"))
        yield made


def put(store: Store, vectors: NDArray[np.float32], start: int = 0) -> None:
    photos = dict[str, tuple[str, Content]]()
    for number, vector in enumerate(vectors, start):
        folder = "few" if number % 100 == 0 else "many"
        photos[f"{folder}/{number}.png"] = f"{number:032x}", Content(vector, (1, 1))
    put_photos(store, photos)


def best(
    store: Store, query: NDArray[np.float32], where: Filter = EVERYTHING, k: int = 10
) -> dict[int, float]:
    ids, scores = store.nearest("image", query, k, where)
    return dict(zip(ids.tolist(), scores.tolist(), strict=True))


def ask(query: str, *values: object) -> list[tuple[object, ...]]:
    with psycopg.connect(address(), autocommit=True) as connection:
        return list(connection.execute(query, values).fetchall())


def test_a_graph_finds_what_comparing_every_vector_finds(
    graph: Store, vectors: NDArray[np.float32], tmp_path: Path
) -> None:
    with closing(create_store(tmp_path / "index", "noise", "1", DIM)) as exact:
        put(exact, vectors)
        shares = list[float]()
        for query in np.random.default_rng(2).standard_normal((100, DIM)).astype(np.float32):
            expected, found = best(exact, query), best(graph, query)
            both = expected.keys() & found.keys()
            shares.append(len(both) / 10)
            assert [found[id_] for id_ in both] == pytest.approx([expected[id_] for id_ in both], abs=1e-5)
    assert np.mean(shares) >= RECALL


def test_among_many_vectors_the_search_of_the_graph_goes_on(
    graph: Store, vectors: NDArray[np.float32], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(postgresql, "_EF_SEARCH", 20)
    monkeypatch.setattr(postgresql, "_MOST_EF", 20)
    queries = np.random.default_rng(2).standard_normal((50, DIM)).astype(np.float32)
    right = list[int]()
    with closing(create_store(tmp_path / "index", "noise", "1", DIM)) as exact:
        put(exact, vectors)
        for large in (COUNT, COUNT - 1):
            monkeypatch.setattr(postgresql, "_WIDE_FROM", large)
            right.append(sum(len(best(exact, query).keys() & best(graph, query).keys()) for query in queries))
    assert right[1] > right[0]


def test_photos_are_written_with_a_few_statements_however_many_they_are(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, vectors: NDArray[np.float32]
) -> None:
    asked, execute = list[object](), psycopg.Cursor.execute

    def counted(cursor: psycopg.Cursor, query: object, *given: object, **options: object) -> object:
        asked.append(query)
        return execute(cursor, query, *given, **options)

    with closing(create_store(place("postgresql", tmp_path), "noise", "1", DIM)) as store:
        monkeypatch.setattr(psycopg.Cursor, "execute", counted)
        put(store, vectors[:500])
        assert len(asked) < 25
        assert store.count("image") == 500


@pytest.mark.parametrize(("bytes_", "fits"), [(None, True), (400, False)])
def test_a_graph_is_built_in_memory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, bytes_: int | None, fits: bool
) -> None:
    said, drawn = list[str](), np.random.default_rng(0).standard_normal((4 * COUNT, DIM))

    class Noting(postgresql.ConnectionPool):
        def __init__(self, *arguments: object, **options: object) -> None:
            super().__init__(*arguments, **options, configure=self.listen)

        def listen(self, connection: psycopg.Connection) -> None:
            connection.add_notice_handler(lambda notice: said.append(notice.message_primary or ""))

    monkeypatch.setattr(postgresql, "ConnectionPool", Noting)
    monkeypatch.setattr(postgresql, "_LEAST_BUILD_BYTES", 4 << 20)
    monkeypatch.setattr(postgresql, "_LINK_BYTES", bytes_ or postgresql._LINK_BYTES)
    monkeypatch.setattr(DatabaseStore, "graph_from", 1000)
    with closing(create_store(place("postgresql", tmp_path), "noise", "1", DIM)) as store:
        put(store, drawn.astype(np.float32))
        store.settle("image")
    assert any("maintenance_work_mem" in line for line in said) is not fits


def test_the_graph_is_built_once(graph: Store) -> None:
    graph.settle("image")
    schema = f"seesay_{graph.place.rpartition('#')[2]}"
    assert ask("SELECT indexname FROM pg_indexes WHERE schemaname = %s AND indexname ~ 'graph'", schema) == [
        ("graph_image",)
    ]


def test_a_filter_that_few_images_pass_finds_all_of_them(graph: Store) -> None:
    few = Filter.parse("folder:few")
    query = np.random.default_rng(3).standard_normal(DIM).astype(np.float32)
    assert sorted(best(graph, query, few, 100)) == graph.matching(few).tolist()
    assert len(graph.matching(few)) == COUNT // 100


def test_which_few_images_match_a_filter_is_read_once_until_the_index_changes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, vectors: NDArray[np.float32]
) -> None:
    asked, execute = list[str](), psycopg.Cursor.execute

    def told(cursor: psycopg.Cursor, query: bytes | str, *given: object, **options: object) -> object:
        asked.append(str(query))
        return execute(cursor, query, *given, **options)  # type: ignore[arg-type]

    few = Filter.parse("folder:few")
    monkeypatch.setattr(DatabaseStore, "graph_from", 1000)
    with closing(create_store(place("postgresql", tmp_path), "noise", "1", DIM)) as store:
        put(store, vectors[:2000])
        store.settle("image")
        assert len(best(store, vectors[0], few, k=50)) == 20
        monkeypatch.setattr(psycopg.Cursor, "execute", told)
        for query in vectors[:3]:
            assert len(best(store, query, few, k=50)) == 20
        assert asked
        assert not any("strpos" in query for query in asked)
        put(store, vectors[2000:2001], 2000)
        assert len(best(store, vectors[0], few, k=50)) == 21


def test_pages_after_the_first_are_complete(graph: Store, vectors: NDArray[np.float32]) -> None:
    ids, scores = graph.nearest("image", vectors[0], 500)
    seen = ids.tolist()
    while len(ids):
        after = PageEnd(float(scores[-1]), int(ids[-1]), len(seen))
        ids, scores = graph.nearest("image", vectors[0], 500, EVERYTHING, after)
        seen += ids.tolist()
    assert len(set(seen)) == len(seen)
    assert len(seen) >= RECALL * COUNT


def test_ties_are_in_the_order_of_their_ids_on_every_page(tmp_path: Path) -> None:
    with (
        closing(create_store(place("postgresql", tmp_path), "noise", "1", DIM)) as store,
        closing(create_store(tmp_path / "index", "noise", "1", DIM)) as exact,
    ):
        same = np.repeat(np.eye(3, DIM, dtype=np.float32), 20, axis=0)
        for each in (store, exact):
            put(each, same)
        after: PageEnd | None = None
        seen = list[int]()
        for _ in range(12):
            (ids, scores), (expected, _) = (
                each.nearest("image", same[0], 5, EVERYTHING, after) for each in (store, exact)
            )
            assert ids.tolist() == expected.tolist()
            seen += ids.tolist()
            after = PageEnd(float(scores[-1]), int(ids[-1]), len(seen))
        assert len(set(seen)) == 60


def test_connections_that_the_server_has_closed_are_made_again(index: Index) -> None:
    before = index.search("green")
    ask(
        "SELECT pg_terminate_backend(pid) FROM pg_stat_activity "
        "WHERE pid != pg_backend_pid() AND datname = current_database()"
    )
    assert index.search("green") == before


def test_several_processes_read_and_one_updates(index: Index, tmp_path: Path) -> None:
    with Index.open(index.place, Colours()) as other:
        gallery(tmp_path / "photos", "white.png")
        with index.store.sole_writer(), pytest.raises(SeesayError, match="another update is running"):
            other.update_images()
        assert other.update_images().added == 1
    assert index.search("white", k=1)[0].path == "white.png"


KILLED = """
import os, sys
from seesay.search.index import open_store
with open_store(sys.argv[1]).sole_writer():
    os.kill(os.getpid(), 9)
"""


def test_a_killed_update_leaves_no_lock(index: Index) -> None:
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)}
    subprocess.run([sys.executable, "-c", KILLED, index.place], env=environment, check=False)
    waited(lambda: not ask("SELECT 1 FROM pg_locks WHERE locktype = 'advisory'"))  # the server has noticed
    assert index.update_images().unchanged == 3


def test_an_update_whose_lock_is_lost_writes_nothing_more(index: Index, tmp_path: Path) -> None:
    gallery(tmp_path / "photos", "white.png")
    with index.store.sole_writer():
        ask("SELECT pg_terminate_backend(pid) FROM pg_locks WHERE locktype = 'advisory'")
        with pytest.raises(SeesayError, match="PostgreSQL cannot be used"), index.store.write() as writer:
            writer.set_meta(exclude='["*"]')
    assert index.store.exclude() == []
    assert index.update_images().added == 1


def test_queries_do_not_wait_for_an_update(index: Index) -> None:
    with index.store.write() as writer:
        writer.set_meta(exclude="[]")
        found = list[object]()
        thread = threading.Thread(target=lambda: found.extend(index.search("green")))
        thread.start()
        thread.join(30)
        assert len(found) == 3


def test_thumbnails_are_in_the_database(index: Index, tmp_path: Path) -> None:
    (tmp_path / "photos" / "red.png").unlink()
    photo = next(photo for photo in index.store.photos().values() if photo.path == "red.png")
    assert index.thumbnail(photo).startswith(b"\xff\xd8")
    index.update_images()
    with pytest.raises(OSError, match=r"red\.png"):
        index.thumbnail(photo)


def test_thumbnails_that_cannot_be_kept_are_made_each_time(index: Index) -> None:
    table = f"seesay_{index.place.rpartition('#')[2]}.thumbnails"
    with psycopg.connect(address(), autocommit=True) as connection:
        connection.execute(f"DELETE FROM {table}")
        connection.execute(f"ALTER TABLE {table} ADD CHECK (false)")
    for photo in index.store.photos().values():
        assert index.thumbnail(photo).startswith(b"\xff\xd8")


@pytest.mark.parametrize(
    "given",
    [
        "postgresql://me:hush-1+2@localhost/photos#a",
        "postgres://me:hush-1+2@localhost/photos#a",
        "postgresql://localhost/photos?user=me&password=hush-1#a",
        "postgresql://me:hush-1@localhost:port/photos#a",
        "postgresql://me:hush-1/2@localhost/photos#a",
        "postgresql://localhost/photos",
        'postgresql://localhost/photos#a"; DROP SCHEMA public',
    ],
)
def test_a_wrong_address_is_refused_and_a_password_never_shown(given: str) -> None:
    with pytest.raises(SeesayError, match=r"PGPASSWORD|named postgresql://USER@HOST") as told:
        open_store(given)
    assert "hush" not in str(told.value)


def test_a_server_that_does_not_answer_is_one_line(tmp_path: Path) -> None:
    with pytest.raises(SeesayError, match="PostgreSQL cannot be used"):
        Index.create("postgresql://127.0.0.1:1/photos#a", Colours())


def test_what_is_not_an_index_is_refused(index: Index, tmp_path: Path) -> None:
    there = place("postgresql", tmp_path)
    assert not store_exists(there)
    with pytest.raises(SeesayError, match="no index there"):
        open_store(there)
    with psycopg.connect(address(), autocommit=True) as connection:
        connection.execute(f"CREATE SCHEMA seesay_{there.rpartition('#')[2]}")
    with pytest.raises(SeesayError, match="by something else"):
        open_store(there)
    for taken in (there, index.place):
        with pytest.raises(SeesayError, match="already exists"):
            Index.create(taken, Colours())


@pytest.mark.parametrize(
    "strange",
    [
        "ALTER TABLE {schema}.skipped RENAME TO other; CREATE VIEW {schema}.skipped AS TABLE {schema}.other",
        "CREATE RULE strange AS ON INSERT TO {schema}.items DO ALSO SELECT 1",
        "ALTER TABLE {schema}.items ENABLE ROW LEVEL SECURITY",
        "CREATE TRIGGER strange BEFORE INSERT ON {schema}.items EXECUTE FUNCTION "
        "suppress_redundant_updates_trigger()",
    ],
    ids=["view", "rule", "policy", "trigger"],
)
def test_a_schema_that_runs_what_somebody_wrote_is_refused(index: Index, strange: str) -> None:
    with psycopg.connect(address(), autocommit=True) as connection:
        connection.execute(strange.format(schema=f"seesay_{index.place.rpartition('#')[2]}"))
    with pytest.raises(SeesayError, match="by something else"):
        open_store(index.place)


def test_vectors_that_no_graph_takes_are_refused(tmp_path: Path) -> None:
    with pytest.raises(SeesayError, match="up to 4000 dimensions, but those of this run have 4001"):
        create_store(place("postgresql", tmp_path), "noise", "1", 4001)


def test_damage_is_reported_and_nothing_else_is_read(index: Index) -> None:
    schema = f"seesay_{index.place.rpartition('#')[2]}"
    with psycopg.connect(address(), autocommit=True) as connection:
        connection.execute(f"UPDATE {schema}.vectors SET key = 'x' || id")
    with pytest.raises(SeesayError, match="damaged"):
        index.search("green")


def test_an_index_from_elsewhere_shows_no_folder_unasked(
    index: Index, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SEESAY_CACHE", str(tmp_path / "somebody-else"))
    unasked = pytest.raises(SeesayError, match="was not made here by you")
    with Index.open(index.place, Colours()) as opened, unasked:
        opened.check_roots()
    with Index.open(index.place, Colours(), root=tmp_path / "photos") as opened:
        opened.check_roots()


def test_without_its_client_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(sys.modules, "seesay.search.postgresql", raising=False)
    monkeypatch.setitem(sys.modules, "psycopg", None)
    with pytest.raises(MissingExtraError, match=r"pip install .*\[postgresql\]'"):
        Index.create("postgresql://localhost/photos#a", Colours())


def test_the_commands_take_an_address(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    photos, there = gallery(tmp_path / "photos", "red.png", "green.png"), place("postgresql", tmp_path)
    for arguments in (
        ["index", str(photos), "--out", there],
        ["search", there, "something green", "-k", "1"],
        ["info", there],
    ):
        with pytest.raises(SystemExit) as exit_:
            main(arguments)
        assert exit_.value.code == 0
    assert "green.png" in capsys.readouterr().out
