import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from threading import Thread

import numpy as np
import pytest
from numpy.typing import NDArray

from seesay.paths import replacing
from seesay.search import neighbours as files
from seesay.search import store as stores
from seesay.search.filters import Filter
from seesay.search.hits import PageEnd
from seesay.search.index import create_store
from seesay.search.neighbours import Neighbours, scanned
from seesay.search.store import Store
from seesay.search.tables import AMONG_IDS, Content
from tests.search.stores import put_photos

DIM = 32


def unit(count: int, seed: int = 0) -> NDArray[np.float32]:
    rows = np.random.default_rng(seed).standard_normal((count, DIM)).astype(np.float32)
    return rows / np.linalg.norm(rows, axis=1, keepdims=True)


@pytest.fixture
def store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    for module in (stores, files):
        monkeypatch.setattr(module, "_ROWS_AT_ONCE", 128)  # vectors come in several parts
    made = create_store(tmp_path, "noise", "1", DIM)
    yield made
    made.close()


def neighbours(store: Store, tmp_path: Path) -> Neighbours:
    """FAISS compares more than 500 vectors, and more than 100 changes are written to the file."""
    near = Neighbours(store, "image", tmp_path / "v.f16")
    near.numpy_up_to, near.most_beside = 500, 100
    return near


def put(store: Store, vectors: NDArray[np.float32], name: str = "a") -> None:
    rows = enumerate(vectors)
    put_photos(store, {f"{name}{i}": (f"{name}{i}-{row[0]}", Content(row, (1, 1))) for i, row in rows})


def among(ids: NDArray[np.int64]) -> Filter:
    """The filter that items with some ids match."""
    return Filter(f"items.id {AMONG_IDS}", (json.dumps(ids.tolist()),))


def everything(store: Store) -> tuple[NDArray[np.int64], NDArray[np.float32]]:
    """The ids of a store's images, and their vectors."""
    ids, vectors = store.vectors(store.ids("image").tolist())
    return ids, vectors.astype(np.float32)


def assert_exact(near: Neighbours, store: Store, query: NDArray[np.float32], k: int = 10) -> None:
    """The answers against NumPy over what the store holds."""
    stored, vectors = everything(store)
    scores = vectors @ query
    order = np.argsort(-scores)[:k]
    ids, found = near.search(query, k)
    np.testing.assert_array_equal(ids, stored[order])
    np.testing.assert_allclose(found, scores[order], rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("count", [1, 7, 400])
def test_few_are_exact(store: Store, tmp_path: Path, count: int) -> None:
    put(store, unit(count))
    near = neighbours(store, tmp_path)
    near.refresh()
    for query in unit(5, seed=1):
        assert_exact(near, store, query)


def test_nothing_is_found_in_nothing(store: Store, tmp_path: Path) -> None:
    near = neighbours(store, tmp_path)
    near.refresh()
    ids, scores = near.search(unit(1)[0], 5)
    assert len(ids) == len(scores) == 0


def test_ties_come_in_order_of_ids(store: Store, tmp_path: Path) -> None:
    put(store, np.repeat(unit(1), 6, axis=0))
    near = neighbours(store, tmp_path)
    near.refresh()
    assert near.search(unit(1)[0], 6)[0].tolist() == [1, 2, 3, 4, 5, 6]
    assert store.nearest("image", unit(1)[0], 3)[0].tolist() == [1, 2, 3]


@pytest.mark.parametrize("count", [300, 900])
def test_the_best_among_some_are_exact(store: Store, tmp_path: Path, count: int) -> None:
    put(store, unit(count))
    near = neighbours(store, tmp_path)
    near.refresh()
    stored, vectors = everything(store)
    for seed, share in enumerate((0.01, 0.3, 1.0)):
        chosen = np.random.default_rng(seed).random(count) <= share
        some = among(np.concatenate([stored[chosen], [10_000]]))
        for query in unit(3, seed=seed):
            scores = vectors[chosen] @ query
            ids, found = near.search(query, 7, some)
            np.testing.assert_array_equal(ids, stored[chosen][np.argsort(-scores)[:7]])
            np.testing.assert_allclose(found, np.sort(scores)[::-1][:7], rtol=1e-5, atol=1e-6)
    assert len(near.search(unit(1)[0], 7, among(stored[:0]))[0]) == 0


def test_a_filter_is_read_once_until_the_index_changes(
    store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    put(store, unit(300))
    near, read, matching = neighbours(store, tmp_path), list[Filter](), store.matching
    monkeypatch.setattr(store, "matching", lambda where: matching(read.append(where) or where))
    where = Filter.parse("name:a1")
    for round_ in (1, 2):
        found = [near.search(query, 400, where)[0].tolist() for query in unit(5)]
        assert all(sorted(ids) == matching(where).tolist() for ids in found)
        assert len(read) == round_
        put(store, unit(20, seed=round_), f"a1-{round_}")


@pytest.mark.parametrize("count", [300, 900])
def test_additions_changes_and_removals_are_taken_up(store, tmp_path, count) -> None:
    put(store, unit(count))
    near = neighbours(store, tmp_path)
    near.refresh()
    put(store, unit(50, seed=2), "b")  # new
    put(store, unit(20, seed=3), "a")  # the first twenty, changed
    with store.write() as writer:
        writer.delete(range(100, 140))
    near.refresh()
    assert near.generation == store.generation()
    for query in unit(5, seed=4):
        assert_exact(near, store, query)


@pytest.mark.parametrize("count", [300, 900])
def test_what_is_deleted_while_vectors_are_read_is_not_found(
    store: Store, tmp_path: Path, count: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    put(store, unit(count))
    before = store.ids("image")
    with store.write() as writer:
        writer.delete([5, 250])
    near = neighbours(store, tmp_path)
    with monkeypatch.context() as patch:
        patch.setattr(store, "ids", lambda *_: before)
        near.refresh()
    for _ in range(2):
        ids, scores = near.search(unit(1, seed=1)[0], count)
        assert sorted(ids.tolist()) == sorted({*range(1, count + 1)} - {5, 250})
        assert np.isfinite(scores).all()
        near.refresh()


def test_a_deleted_file_is_written_again(store, tmp_path) -> None:
    put(store, unit(900))
    near = neighbours(store, tmp_path)
    near.refresh()
    near.save()
    (tmp_path / "v.f16").unlink()
    near.save()
    for reader in (near, neighbours(store, tmp_path)):
        reader.refresh()
        assert_exact(reader, store, unit(1, seed=7)[0])


@pytest.mark.parametrize(
    "harm",
    [
        lambda file: file.write_bytes(b""),
        lambda file: file.write_bytes(b"something else"),
        lambda file: file.write_bytes(file.read_bytes()[:-1000]),
        Path.unlink,
    ],
    ids=["empty", "other", "cut", "lost"],
)
def test_a_lost_or_cut_file_is_not_needed(store, tmp_path, harm) -> None:
    put(store, unit(900))
    near = neighbours(store, tmp_path)
    near.refresh()
    near.save()
    harm(tmp_path / "v.f16")
    again = neighbours(store, tmp_path)
    again.refresh()
    assert_exact(again, store, unit(1, seed=7)[0])


def test_the_file_of_another_index_is_not_read(store, tmp_path) -> None:
    other = create_store(tmp_path / "other", "noise", "1", DIM)
    put(other, unit(900, seed=8))
    near = neighbours(other, tmp_path)
    near.refresh()
    near.save()
    put(store, unit(900))
    again = neighbours(store, tmp_path)
    again.refresh()
    assert_exact(again, store, unit(1, seed=9)[0])


@pytest.mark.parametrize("count", [300, 900])
def test_pages_are_exact_to_the_last_item(store: Store, count: int, monkeypatch: pytest.MonkeyPatch) -> None:
    put(store, unit(count))
    monkeypatch.setattr(Neighbours, "numpy_up_to", 500)
    query, found = unit(1, seed=1)[0], list[int]()
    ids, scores = store.nearest("image", query, 70)
    while len(ids):
        found += ids.tolist()
        end = PageEnd(float(scores[-1]), int(ids[-1]), len(found))
        ids, scores = store.nearest("image", query, 70, after=end)
    assert found == store.nearest("image", query, count)[0].tolist()


def test_a_search_does_not_wait_while_the_file_is_written(
    store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    put(store, unit(900))
    near, found = neighbours(store, tmp_path), list[int]()

    @contextmanager
    def searching(path: Path) -> Iterator[Path]:
        with replacing(path) as beside:
            yield beside
            other = Thread(target=lambda: found.extend(near.search(unit(1)[0], 5)[0].tolist()))
            other.start()
            other.join(10)

    monkeypatch.setattr(files, "replacing", searching)
    near.save()
    assert len(found) == 5


def test_a_page_is_whole_though_items_came_before_it(store: Store) -> None:
    put(store, unit(900))
    query = unit(1, seed=1)[0]
    ids, scores = store.nearest("image", query, 10)
    expected = store.nearest("image", query, 20)[0][10:]
    put(store, np.repeat(query[None], 40, axis=0), "best")
    end = PageEnd(float(scores[-1]), int(ids[-1]), 10)
    assert store.nearest("image", query, 10, after=end)[0].tolist() == expected.tolist()


def test_few_ids_that_are_large_take_little_memory(store: Store, tmp_path: Path) -> None:
    put(store, unit(600))
    with store.write() as writer:
        writer._connection.execute("UPDATE items SET id = id + ? WHERE id > 590", (1 << 45,))
    near = neighbours(store, tmp_path)
    near.refresh()
    large = np.array([(1 << 45) + 595, 3], np.int64)
    ids, _ = near.search(unit(1)[0], 2, among(large))
    assert sorted(ids.tolist()) == sorted(large.tolist())


def test_a_new_process_maps_the_file_and_reads_only_the_changes_from_the_store(
    store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    put(store, unit(900))
    neighbours(store, tmp_path).save()
    put(store, unit(30, seed=5), "late")
    put(store, unit(2, seed=6), "a")
    with store.write() as writer:
        writer.delete([500])
    read, vectors = list[int](), store.vectors
    with monkeypatch.context() as patch:
        patch.setattr(store, "vectors", lambda ids: vectors(read.extend(ids) or ids))
        again = neighbours(store, tmp_path)
        again.refresh()
    assert len(read) == 32
    for query in unit(5, seed=6):
        assert_exact(again, store, query)


def test_the_file_is_written_again_only_once_much_has_changed(store: Store, tmp_path: Path) -> None:
    put(store, unit(900))
    near, reader = neighbours(store, tmp_path), neighbours(store, tmp_path)
    near.save()
    reader.refresh()
    file = tmp_path / "v.f16"
    before = file.stat().st_ino
    for seed, name in enumerate(("b", "c"), start=20):
        put(store, unit(40, seed=seed), name)  # new
        put(store, unit(3, seed=seed), "a")  # changed
        with store.write() as writer:
            writer.delete([100 + seed])
        near.save()
        assert file.stat().st_ino == before
        for each in (near, reader, neighbours(store, tmp_path)):
            each.refresh()
            for query in unit(5, seed=4):
                assert_exact(each, store, query)
            some = everything(store)[0][::3]
            assert set(each.search(unit(1)[0], 50, among(some))[0]) <= set(some)
    put(store, unit(40, seed=22), "d")
    near.save()
    assert file.stat().st_ino != before
    put(store, unit(1, seed=23), "e")
    for each in (near, reader, neighbours(store, tmp_path)):
        each.refresh()
        for query in unit(5, seed=4):
            assert_exact(each, store, query)


def test_a_file_of_numbers_that_are_none_finds_nothing_of_them(store: Store, tmp_path: Path) -> None:
    put(store, unit(900))
    neighbours(store, tmp_path).save()
    file = tmp_path / "v.f16"
    with file.open("r+b") as opened:
        opened.seek(-100 * 2 * DIM, os.SEEK_END)
        opened.write(np.repeat(np.array([np.nan, np.inf, -np.inf, 1], "<f2"), 25 * DIM).tobytes())
    near = neighbours(store, tmp_path)
    near.refresh()
    ids, scores = near.search(unit(1)[0], 900)
    assert 800 <= len(ids) < 900
    assert np.isfinite(scores).all()


def test_equal_vectors_score_the_same_wherever_they_stand(store: Store, tmp_path: Path) -> None:
    """Also in several blocks, and if some of them are deleted."""
    rows = unit(700)
    rows[[3, 250, 699]] = rows[130]
    put(store, rows)
    near = neighbours(store, tmp_path)
    near.refresh()
    put(store, np.repeat(rows[130][None], 300, axis=0), "more")
    with store.write() as writer:
        writer.delete([251, 710])
    near.refresh()
    ids, scores = near.search(rows[130], 5)
    assert ids.tolist() == [4, 131, 700, 701, 702]
    assert len(set(scores.tolist())) == 1


def test_a_scan_of_blocks_is_that_of_their_rows() -> None:
    rows = unit(600).astype(np.float16)
    query, chosen = unit(1, seed=1)[0], np.arange(600) % 7 == 0
    for blocks in ([rows], [rows[:0], rows[:100], rows[100:]]):
        at, scores = scanned(blocks, query, 20, chosen)
        exact = np.where(chosen, rows.astype(np.float32) @ query, -1)
        assert set(at.tolist()) == set(np.argsort(-exact)[:20].tolist())
        np.testing.assert_allclose(np.sort(scores), np.sort(exact)[-20:], rtol=1e-5)
