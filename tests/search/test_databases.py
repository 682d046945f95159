"""Databases as the store of an index's vectors; test_index.py and test_filters.py run with every store."""

from __future__ import annotations

import re
import shutil
import sys
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import numpy as np
import pytest
from numpy.typing import NDArray

from seesay.cli import main
from seesay.errors import MissingExtraError, SeesayError
from seesay.search.hits import Place
from seesay.search.index import Index
from seesay.search.neighbours import Neighbours
from seesay.search.store import Store
from tests.search.colours import Colours, gallery
from tests.search.stores import address

if TYPE_CHECKING:
    from seesay.search.postgresql import PostgreSQL

DIM = 16


@pytest.fixture
def where() -> str:
    """The address of a database."""
    return address("postgresql")


@pytest.fixture
def photos(tmp_path: Path) -> Path:
    return gallery(tmp_path / "photos", "red.png", "blue.png", "sub/green.png")


def paths(index: Index, query: str = "green", where: str | None = None) -> list[str | None]:
    return [hit.path for hit in index.search(query, where=where)]


def collection(index: Index) -> PostgreSQL:
    """The images of an index in its database."""
    return cast("PostgreSQL", index.store.searched("image"))


def told_before(index: Index, patch: pytest.MonkeyPatch, told: Callable[..., object], *names: str) -> None:
    """Have `told` called with what a method of the database's client gets, whose name is one of these."""
    kind = type(collection(index).client)
    (name,) = filter(partial(hasattr, kind), names)
    method = getattr(kind, name)

    def called(self: Any, *given: Any, **options: Any) -> Any:
        told(*given)
        return method(self, *given, **options)

    patch.setattr(kind, name, called)


def drop_collection(index: Index) -> None:
    near = collection(index)
    with near.client.transaction() as connection:
        connection.execute(f'DROP TABLE "{near.name}"')


def lose(index: Index, id_: int) -> None:
    """Delete a vector in the database, which the index does not see."""
    near = collection(index)
    with near.client.transaction() as connection:
        connection.execute(f'DELETE FROM "{near.name}" WHERE id = {id_}')


def test_an_index_remembers_where_its_vectors_are(tmp_path: Path, photos: Path, where: str) -> None:
    with Index.create(tmp_path / "index", Colours(), where) as index:
        index.update_images(photos)
        before = index.search("green")
    with Index.open(tmp_path / "index", Colours()) as index:  # as after a restart
        assert index.search("green") == before
        assert not list((tmp_path / "index").glob("*.f16"))
    with Index.open(tmp_path / "index", Colours(), store=where) as index:
        assert index.search("green") == before
    with pytest.raises(SeesayError, match="create a new index for that store"):
        Index.open(tmp_path / "index", Colours(), store="postgresql://localhost/other")


def test_what_is_lost_is_loaded_by_the_next_update(tmp_path: Path, photos: Path, where: str) -> None:
    with Index.create(tmp_path / "index", Colours(), where) as index:
        index.update_images(photos)
        before = index.search("green")
        drop_collection(index)
    with Index.open(tmp_path / "index", Colours()) as index:
        with pytest.raises(SeesayError, match="has no vectors of this index; run `seesay index` again"):
            index.search("green")
        report = index.update_images(photos)
        assert (report.unchanged, report.added) == (3, 0)  # nothing is embedded again
        assert index.search("green") == before


def index_and_copy(folder: Path, photos: Path, where: str) -> None:
    """Make the index of the photos in `folder/index`, and a copy of it in `folder/copy`."""
    with Index.create(folder / "index", Colours(), where) as index:
        index.update_images(photos)
    shutil.copytree(folder / "index", folder / "copy")


def test_an_older_copy_of_the_folder_is_taken_up(tmp_path: Path, photos: Path, where: str) -> None:
    index_and_copy(tmp_path, photos, where)
    with Index.open(tmp_path / "index", Colours()) as index:
        gallery(photos, "white.png")
        index.update_images(photos)
        assert len(paths(index)) == 4
    (photos / "white.png").unlink()
    with Index.open(tmp_path / "copy", Colours()) as index:
        index.update_images(photos)
        assert sorted(map(str, paths(index))) == ["blue.png", "red.png", "sub/green.png"]


def test_a_collection_that_vanishes_is_no_empty_answer(
    tmp_path: Path, photos: Path, where: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with Index.create(tmp_path / "index", Colours(), where) as index:
        index.update_images(photos)
        assert len(paths(index)) == 3
        asked = list[object]()
        names = ("get_mark", "get_collection", "describe_collection", "transaction")
        told_before(index, monkeypatch, lambda *_: asked.append(1), *names)
        assert len(paths(index)) == 3
        assert len(asked) == where.startswith("postgresql:")  # a query is one request
        drop_collection(index)
        with pytest.raises(SeesayError, match="cannot be used"):
            index.search("green")


def test_some_that_are_lost_are_loaded_by_the_next_update(tmp_path: Path, photos: Path, where: str) -> None:
    with Index.create(tmp_path / "index", Colours(), where) as index:
        index.update_images(photos)
        before = index.search("green")
        lose(index, 2)
        assert len(index.search("green")) == 2
        index.update_images(photos)
        assert index.search("green") == before


def test_copies_that_went_on_apart_are_not_mixed(tmp_path: Path, photos: Path, where: str) -> None:
    index_and_copy(tmp_path, photos, where)
    with Index.open(tmp_path / "index", Colours()) as index:
        index.update_images(gallery(photos, "white.png"))
        generation = index.store.generation()
    (photos / "white.png").unlink()
    with Index.open(tmp_path / "copy", Colours()) as index:
        index.update_images(gallery(photos, "yellow.png"))
        assert index.store.generation() == generation  # and the id of yellow is that of white
        assert index.search("white")[0].score == pytest.approx(0, abs=1e-3)
        assert index.search("yellow")[0].path == "yellow.png"
    with Index.open(tmp_path / "index", Colours()) as index:  # which is put back in turn
        index.update_images(photos)
        assert len(paths(index)) == 4
        assert index.search("yellow")[0].path == "yellow.png"


def test_queries_of_a_server_do_not_wait_for_an_update(
    tmp_path: Path, photos: Path, where: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with Index.create(tmp_path / "index", Colours(), where) as index:
        index.update_images(photos)
        begun, searched = threading.Event(), threading.Event()

        def slowly(*_: Any) -> None:
            begun.set()
            assert searched.wait(20)

        told_before(index, monkeypatch, slowly, "upsert")
        with ThreadPoolExecutor(1) as other:
            update = other.submit(index.update_images, gallery(photos, "white.png"))
            assert begun.wait(20)
            assert len(paths(index)) == 3
            searched.set()
            assert update.result().added == 1
        assert len(paths(index)) == 4


def test_only_what_is_new_is_sent(
    tmp_path: Path, photos: Path, where: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    sent: list[int] = []
    with Index.create(tmp_path / "index", Colours(), where) as index:
        told_before(
            index, monkeypatch, lambda _, rows: sent.append(len(getattr(rows, "ids", rows))), "upsert"
        )
        collection(index).numbers_at_once = 2 * Colours.dim
        index.update_images(photos)
        assert sent == [2, 1]  # large vectors are fewer in a request
        index.update_images(gallery(photos, "white.png"))
        assert sent == [2, 1, 1]
        index.update_images(photos)
        assert sent == [2, 1, 1]


def test_an_index_that_is_closed_leaves_the_others_connected(
    tmp_path: Path, photos: Path, where: str
) -> None:
    with Index.create(tmp_path / "one", Colours(), where) as one:
        one.update_images(photos)
        with Index.create(tmp_path / "two", Colours(), where) as two:
            two.update_images(photos)
            client = collection(one).client
        assert collection(one).client is client
        assert len(paths(one)) == 3


def test_filters_follow_a_file_that_has_moved(tmp_path: Path, photos: Path, where: str) -> None:
    with Index.create(tmp_path / "index", Colours(), where) as index:
        index.update_images(photos)
        (photos / "Other").mkdir()
        (photos / "sub" / "green.png").rename(photos / "Other" / "green.png")
        assert index.update_images(photos).moved == 1
        assert paths(index, where="folder:sub") == []
        assert paths(index, where="folder:other") == ["Other/green.png"]


@pytest.fixture
def store(tmp_path: Path):
    with_ties = np.repeat(np.random.default_rng(0).standard_normal((40, DIM)), 3, axis=0)
    made = Store.create(tmp_path / "index.sqlite", "noise", "1", DIM)
    with made.write() as writer:
        for number, vector in enumerate(with_ties.astype(np.float32)):
            writer.put_vector("image", f"{number:032x}", vector, (1, 1))
            writer.put_image(f"{number}.png", f"{number:032x}", 0, 0)
    yield made
    made.close()


def pages(vectors: Neighbours | PostgreSQL, query: NDArray[np.float32]) -> list[tuple[int, float]]:
    """All items, page by page."""
    found: list[tuple[int, float]] = []
    while True:
        after = Place(found[-1][1], found[-1][0], len(found)) if found else None
        ids, scores = vectors.search(query, 7, None, after)
        if not len(ids):
            return found
        found += zip(ids.tolist(), scores.tolist(), strict=True)


def test_pages_with_ties_are_those_of_the_embedded_store(store: Store, tmp_path: Path, where: str) -> None:
    from seesay.search.postgresql import PostgreSQL

    embedded = Neighbours(store, "image", tmp_path / "v.f16")
    database = PostgreSQL(where, store, "image")
    query = np.random.default_rng(1).standard_normal(DIM).astype(np.float32)
    embedded.save()
    database.save(lambda: np.empty((0, DIM), np.float32))
    there, here = pages(embedded, query), pages(database, query)
    assert [id_ for id_, _ in here] == [id_ for id_, _ in there]
    np.testing.assert_allclose([s for _, s in here], [s for _, s in there], rtol=1e-5, atol=1e-6)
    database.close()


@pytest.mark.parametrize(
    ("wrong", "told"),
    [
        ("qdrant", "write postgresql://USER@HOST:PORT/DATABASE"),
        ("postgresql://127.0.0.1:1/photos", "PostgreSQL cannot be used .*; start it, or check the address"),
        ("postgresql://127.0.0.1:port/photos", "write postgresql://USER@HOST:PORT/DATABASE"),
        ("postgresql+http://127.0.0.1", "write postgresql://USER@HOST:PORT/DATABASE"),
    ],
)
def test_addresses_that_lead_nowhere(wrong: str, told: str, tmp_path: Path, photos: Path) -> None:
    pytest.importorskip("psycopg", reason="psycopg is not installed")
    with pytest.raises(SeesayError, match=told), Index.create(tmp_path / "index", Colours(), wrong) as index:
        index.update_images(photos)
    # What is no address leaves nothing that the next attempt, with another one, would meet.
    assert (tmp_path / "index").exists() == ("cannot be used" in told)


def test_an_index_from_elsewhere_reaches_nothing_unasked(
    tmp_path: Path, photos: Path, monkeypatch: pytest.MonkeyPatch, where: str
) -> None:
    with Index.create(tmp_path / "index", Colours(), where) as index:
        index.update_images(photos)
    monkeypatch.setenv("SEESAY_CACHE", str(tmp_path / "somebody-else"))
    with pytest.raises(
        SeesayError, match=f"was not made here by you, .* Confirm that with --store {re.escape(where)}"
    ):
        Index.open(tmp_path / "index", Colours())
    with Index.open(tmp_path / "index", Colours(), store=where) as index:
        assert len(paths(index)) == 3


def test_without_its_client_the_extra_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(sys.modules, "seesay.search.postgresql", raising=False)
    monkeypatch.setitem(sys.modules, "psycopg", None)
    with pytest.raises(MissingExtraError, match=r"pip install .*\[postgresql\]'"):
        Index.create(tmp_path / "index", Colours(), "postgresql://localhost/photos")


def test_the_command_takes_a_store(
    tmp_path: Path, photos: Path, capsys: pytest.CaptureFixture[str], where: str
) -> None:
    for arguments in (
        ["index", str(photos), "--out", str(tmp_path / "index"), "--store", where],
        ["search", str(tmp_path / "index"), "something green", "-k", "1"],
    ):
        with pytest.raises(SystemExit) as exit_:
            main(arguments)
        assert exit_.value.code == 0
    assert "green.png" in capsys.readouterr().out
