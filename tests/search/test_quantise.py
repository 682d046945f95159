"""Lists of fewer bytes: their recall against NumPy, what is refined, what an index remembers."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from seesay.errors import SeesayError
from seesay.search.ann import Neighbours
from seesay.search.hits import Place
from seesay.search.index import Index
from seesay.search.quantise import VECTORS, lists_of_recall
from seesay.search.store import Store
from tests.search.colours import Colours, gallery

DIM, COUNT, CENTRES = 16, 700, 20


def clustered(count: int, seed: int) -> NDArray[np.float32]:
    """Unit vectors around forty centres, as of photographs of forty kinds."""
    rng = np.random.default_rng(seed)
    centres = np.random.default_rng(0).standard_normal((CENTRES, DIM))
    rows = centres[rng.integers(0, CENTRES, count)] + 0.6 * rng.standard_normal((count, DIM))
    return (rows / np.linalg.norm(rows, axis=1, keepdims=True)).astype(np.float32)


def put(store: Store, vectors: NDArray[np.float32], name: str) -> None:
    with store.write() as writer:
        for i, vector in enumerate(vectors):
            writer.put_vector("image", f"{name}{i}", vector, (1, 1))
            writer.put_image(f"{name}{i}.png", f"{name}{i}", 0, 0)


@pytest.fixture
def store(tmp_path: Path):
    made = Store.create(tmp_path / "index.sqlite", "noise", "1", DIM)
    made.rows_at_once = 128  # vectors come in several parts
    put(made, clustered(COUNT, seed=1), "a")
    yield made
    made.close()


def neighbours(store: Store, tmp_path: Path) -> Neighbours:
    near = Neighbours(store, "image", tmp_path / "v.faiss", lambda: clustered(50, seed=2))
    near.exact_up_to = 500
    return near


def set_recall(store: Store, recall: float) -> None:
    with store.write() as writer:
        writer.set_meta(recall=repr(recall))


def measured(near: Neighbours, store: Store, queries: NDArray[np.float32]) -> float:
    """Recall@10 against NumPy over what the store holds; scores have to be those of the vectors."""
    stored, vectors = store.vectors(store.changes("image").ids.tolist())
    hits = 0
    for query in queries:
        scores = vectors.astype(np.float32) @ query
        ids, found = near.search(query, 10)
        np.testing.assert_allclose(found, scores[np.searchsorted(stored, ids)], rtol=1e-5, atol=1e-6)
        assert (np.diff(found) <= 0).all()
        hits += len(set(ids) & set(stored[np.argsort(-scores)[:10]]))
    return hits / (10 * len(queries))


@pytest.mark.parametrize("recall", [0.9, 1.0])
def test_the_recall_that_was_asked_for_is_reached(store: Store, tmp_path: Path, recall: float) -> None:
    set_recall(store, recall)
    near = neighbours(store, tmp_path)
    near.refresh()
    assert measured(near, store, clustered(200, seed=3)) >= recall - 0.05  # of other queries than measured


def test_queries_far_from_all_images_are_measured_too(tmp_path: Path) -> None:
    rng = np.random.default_rng(3)
    common = np.eye(256, dtype=np.float32)[0]
    rows = rng.standard_normal((COUNT, 256)) / 16 + 0.5 * common
    store = Store.create(tmp_path / "index.sqlite", "noise", "1", 256)
    put(store, rows.astype(np.float32), "a")
    queries = rng.standard_normal((200, 256)) / 16 - 0.25 * common  # their best scores are about zero
    made = lists_of_recall(store, store.changes("image").ids, queries.astype(np.float32), 1.0)
    assert made.recall == 1.0
    store.close()


def test_less_is_kept_for_less(store: Store) -> None:
    ids = store.changes("image").ids
    queries = clustered(50, seed=2)
    made = [lists_of_recall(store, ids, queries, recall) for recall in (0.6, 0.9, 1.0)]
    bytes_ = [each.index.code_size for each in made]
    assert bytes_ == sorted(bytes_)
    assert bytes_[0] < 2 * DIM
    assert all(each.recall >= recall for each, recall in zip(made, (0.6, 0.9, 1.0), strict=True))


def test_updates_are_taken_up_in_codes(store: Store, tmp_path: Path) -> None:
    set_recall(store, 0.8)
    near = neighbours(store, tmp_path)
    near.refresh()
    assert near.quantiser != VECTORS
    put(store, clustered(100, seed=4), "new")
    with store.write() as writer:
        writer.delete(range(1, 50))
    near.refresh()
    assert near.trained == COUNT
    assert measured(near, store, clustered(100, seed=4)) >= 0.7
    ids, _ = near.search(clustered(1, seed=5)[0], 300)
    assert len(set(ids)) == 300
    assert ids.min() >= 50


def test_the_cache_knows_its_codes_and_another_recall_makes_lists_again(store: Store, tmp_path: Path) -> None:
    set_recall(store, 0.8)
    near = neighbours(store, tmp_path)
    near.refresh()
    near.save()
    again = neighbours(store, tmp_path)
    again.refresh()
    query = clustered(1, seed=6)[0]
    assert again.quantiser == near.quantiser
    np.testing.assert_array_equal(again.search(query, 10)[0], near.search(query, 10)[0])
    set_recall(store, 1.0)
    again.refresh()
    assert again.quantiser == near.quantiser  # no query waits while others are made
    near.save()
    put(store, clustered(1, seed=8), "late")
    again.refresh()
    assert measured(again, store, clustered(50, seed=2)) == 1.0


def test_a_deep_page_of_codes_reads_vectors_in_parts(
    store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    set_recall(store, 0.5)
    near, read, vectors = neighbours(store, tmp_path), list[int](), store.vectors
    near.refresh()
    assert near.quantiser != VECTORS
    monkeypatch.setattr(store, "vectors", lambda ids: (read.append(len(ids)), vectors(ids))[1])
    ids, scores = near.search(clustered(1, seed=3)[0], COUNT, after=Place(9.0, 0, 2**31))
    assert max(read) <= store.rows_at_once
    assert len(ids) > 0.9 * COUNT
    assert (np.diff(scores) <= 0).all()


def test_filters_and_codes(store: Store, tmp_path: Path) -> None:
    set_recall(store, 0.8)
    near = neighbours(store, tmp_path)
    near.refresh()
    ids, _ = near.search(clustered(1, seed=7)[0], 10, among=np.arange(100, 160))
    assert len(ids) == 10
    assert ((ids >= 100) & (ids < 160)).all()


def test_another_recall_is_of_sentences_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    photos = gallery(tmp_path / "photos", "red.png")
    with Index.create(tmp_path / "index", Colours()) as index:
        saved = list[str]()
        for kind in ("image", "sentence"):
            with index.using(kind) as near:
                monkeypatch.setattr(near, "save", lambda kind=kind: saved.append(kind))
        index.set_recall(0.9)
        index.update_images(photos)
        assert saved == ["image", "sentence"]
        index.update_images(photos)
        assert saved == ["image", "sentence", "image"]


def test_an_index_remembers_the_recall(tmp_path: Path) -> None:
    photos = gallery(tmp_path / "photos", "red.png", "blue.png")
    with Index.create(tmp_path / "index", Colours()) as index:
        index.set_recall(0.9)
        index.update_images(photos)
        assert len(index.search("red")) == 2  # few are all compared
    with Index.open(tmp_path / "index", Colours()) as index:
        assert index.store.recall() == 0.9
        index.set_recall(1)
        assert index.store.recall() == 1.0


@pytest.mark.parametrize("wrong", [0.4, 1.1, float("nan")])
def test_no_recall_out_of_range(tmp_path: Path, wrong: float) -> None:
    with Index.create(tmp_path / "index", Colours()) as index, pytest.raises(SeesayError, match=r"from 0\.5"):
        index.set_recall(wrong)


def test_databases_have_settings_of_their_own(tmp_path: Path) -> None:
    pytest.importorskip("qdrant_edge", reason="qdrant-edge-py is not installed")
    with (
        Index.create(tmp_path / "index", Colours(), f"qdrant+edge:{tmp_path}/vectors") as index,
        pytest.raises(SeesayError, match="a database has its own settings"),
    ):
        index.set_recall(0.9)
