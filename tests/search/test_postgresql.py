"""What PostgreSQL alone has: a graph whose search is as wide as a recall needs, connections, passwords."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from seesay.errors import SeesayError
from seesay.search.filters import Filter
from seesay.search.hits import Place
from seesay.search.neighbours import Neighbours
from seesay.search.store import Store
from tests.search.stores import address

pytest.importorskip("psycopg", reason="psycopg is not installed")

from psycopg.sql import SQL, Literal

from seesay.search.postgresql import RECALL, Connections, PostgreSQL, checked_address

DIM, COUNT = 32, 3000
NONE = np.empty((0, DIM), np.float32)  # queries for which recall is measured


@pytest.fixture(scope="module")
def vectors() -> NDArray[np.float32]:
    drawn = np.random.default_rng(0).standard_normal((COUNT, DIM)).astype(np.float32)
    return drawn / np.linalg.norm(drawn, axis=1, keepdims=True)


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory, vectors: NDArray[np.float32]) -> Iterator[Store]:
    """Images, of which every hundredth is in a folder of its own."""
    made = Store.create(tmp_path_factory.mktemp("store") / "index.sqlite", "noise", "1", DIM)
    with made.write() as writer:
        for number, vector in enumerate(vectors):
            writer.put_vector("image", f"{number:032x}", vector, (1, 1))
            folder = "few" if number % 100 == 0 else "many"
            writer.put_image(f"{folder}/{number}.png", f"{number:032x}", 0, 0)
    yield made
    made.close()


@pytest.fixture(scope="module")
def graph(
    store: Store, vectors: NDArray[np.float32], tmp_path_factory: pytest.TempPathFactory
) -> Iterator[PostgreSQL]:
    """Their vectors in PostgreSQL, with a graph."""
    queries = np.random.default_rng(1).standard_normal((50, DIM)).astype(np.float32)
    where = address("postgresql")
    opened = PostgreSQL(where, store, "image")
    opened.graph_from = 1000
    opened.save(lambda: queries)
    opened.refresh()
    yield opened
    opened.close()


def found(
    near: Neighbours | PostgreSQL, query: NDArray[np.float32], among: NDArray[np.int64] | None = None
) -> dict[int, float]:
    ids, scores = near.search(query, 10, among)
    return dict(zip(ids.tolist(), scores.tolist(), strict=True))


def test_the_graph_finds_what_comparing_all_finds(store: Store, graph: PostgreSQL, tmp_path: Path) -> None:
    all_ = Neighbours(store, "image", tmp_path / "unused")
    all_.refresh()
    hits, queries = 0, np.random.default_rng(2).standard_normal((50, DIM)).astype(np.float32)
    for query in queries:
        there, here = found(graph, query), found(all_, query)
        hits += len(there.keys() & here.keys())
        for id_ in there.keys() & here.keys():
            assert there[id_] == pytest.approx(here[id_], rel=1e-5)
    assert hits / (10 * len(queries)) >= RECALL - 0.03


def test_how_wide_the_graph_is_searched_is_told_and_remembered(
    tmp_path: Path, vectors: NDArray[np.float32], capsys: pytest.CaptureFixture[str]
) -> None:
    few = Store.create(tmp_path / "index.sqlite", "noise", "1", DIM)
    with few.write() as writer:
        for number, vector in enumerate(vectors[:500]):
            writer.put_vector("image", f"{number:032x}", vector, (1, 1))
            writer.put_image(f"{number}.png", f"{number:032x}", 0, 0)
    near = PostgreSQL(address("postgresql"), few, "image")
    near.graph_from = 500
    near.save(lambda: NONE)
    told = re.search(r"500 vectors, hnsw.ef_search ([0-9]+); recall@10 ([0-9.]+)", capsys.readouterr().err)
    assert told
    assert float(told[2]) >= RECALL
    client = Connections(near.address)
    ((comment,),) = client.rows(SQL("SELECT obj_description(to_regclass({}))").format(Literal(near.name)))
    client.close()
    assert json.loads(comment)["ef"] == int(told[1])
    near.save(lambda: NONE)
    assert not capsys.readouterr().err  # nothing is measured again
    near.close()
    few.close()


def test_a_filter_that_lets_few_through_finds_all_of_them(store: Store, graph: PostgreSQL) -> None:
    few = store.matching(Filter.parse("folder:few"))
    query = np.random.default_rng(3).standard_normal(DIM).astype(np.float32)
    ids, _ = graph.search(query, 100, few)
    assert sorted(ids.tolist()) == few.tolist()
    assert len(ids) == COUNT // 100


def test_pages_behind_the_first_are_complete(graph: PostgreSQL, vectors: NDArray[np.float32]) -> None:
    ids, scores = graph.search(vectors[0], 500)
    seen = ids.tolist()
    while len(ids):
        ids, scores = graph.search(vectors[0], 500, None, Place(float(scores[-1]), int(ids[-1]), len(seen)))
        seen += ids.tolist()
    assert len(set(seen)) == len(seen)
    assert len(seen) >= RECALL * COUNT


def test_connections_that_the_server_has_closed_are_made_again(
    graph: PostgreSQL, vectors: NDArray[np.float32]
) -> None:
    before = found(graph, vectors[0])
    client = Connections(graph.address)
    client.execute(
        SQL(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity "
            "WHERE pid != pg_backend_pid() AND datname = current_database()"
        )
    )
    client.close()
    assert found(graph, vectors[0]) == before


@pytest.mark.parametrize(
    "given",
    [
        "postgresql://me:hush-1+2@localhost/photos",
        "postgres://me:hush-1+2@localhost/photos",
        "postgresql://localhost/photos?user=me&password=hush-1",
        "postgresql://me:hush-1@localhost:port/photos",
        "postgresql://me:hush-1/2@localhost/photos",
        "postgresql+postgresql://me:hush-1@localhost/photos",
    ],
)
def test_a_password_is_neither_kept_nor_shown(given: str) -> None:
    with pytest.raises(SeesayError, match=r"PGPASSWORD|write postgresql://USER@HOST") as told:
        checked_address(given)
    assert "hush" not in str(told.value)


def test_connections_are_used_again_where_a_thousand_files_are_open(graph: PostgreSQL) -> None:
    resource = pytest.importorskip("resource", reason="Windows has no such limit")
    limits = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(limits[0], min(limits[1], 2000)), limits[1]))
    client = Connections(graph.address)
    with ExitStack() as files:
        files.callback(resource.setrlimit, resource.RLIMIT_NOFILE, limits)
        files.callback(client.close)
        for _ in range(1050):
            files.enter_context(open(os.devnull))  # noqa: PTH123
        for _ in range(2):
            assert client.rows(SQL("SELECT 1")) == [(1,)]


def test_a_server_that_does_not_answer_is_given_up(store: Store) -> None:
    near = PostgreSQL("postgresql://127.0.0.1:1/photos", store, "image")
    with pytest.raises(SeesayError, match="PostgreSQL cannot be used"):
        near.search(np.zeros(DIM, np.float32), 1)
    near.close()


def test_vectors_that_no_graph_takes_are_refused(graph: PostgreSQL, tmp_path: Path) -> None:
    wide = Store.create(tmp_path / "index.sqlite", "noise", "1", 4001)
    near = PostgreSQL(graph.address, wide, "image")
    with pytest.raises(SeesayError, match="up to 4000 dimensions, but those of this run have 4001"):
        near.save(lambda: NONE)
    near.close()
    wide.close()
