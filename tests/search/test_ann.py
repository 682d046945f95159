import secrets
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from seesay.search.ann import Neighbours
from seesay.search.hits import Place
from seesay.search.quantise import make_lists, read_lists, write_lists
from seesay.search.store import Store

DIM = 32


def unit(count: int, seed: int = 0) -> NDArray[np.float32]:
    rows = np.random.default_rng(seed).standard_normal((count, DIM)).astype(np.float32)
    return rows / np.linalg.norm(rows, axis=1, keepdims=True)


@pytest.fixture
def store(tmp_path: Path):
    made = Store.create(tmp_path / "index.sqlite", "noise", "1", DIM)
    made.rows_at_once = 128  # vectors come in several parts
    yield made
    made.close()


def neighbours(store: Store, tmp_path: Path, probe_divisor: int = 1) -> Neighbours:
    """Lists above 500 items; every list is searched, so that the answers must be exact."""
    near = Neighbours(store, "image", tmp_path / "v.faiss")
    near.exact_up_to, near.probe_divisor = 500, probe_divisor
    return near


def put(store: Store, vectors: NDArray[np.float32], name: str = "a") -> None:
    with store.write() as writer:
        for i, vector in enumerate(vectors):
            writer.put_vector("image", f"{name}{i}-{vector[0]}", vector, (1, 1))
            writer.put_image(f"{name}{i}", f"{name}{i}-{vector[0]}", 0, 0)


def everything(store: Store) -> tuple[NDArray[np.int64], NDArray[np.float32]]:
    """The ids of a store's images, and their vectors."""
    ids, vectors = store.vectors(store.changes("image").ids.tolist())
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
    near.save()
    assert not (tmp_path / "v.faiss").exists()


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


@pytest.mark.parametrize("count", [300, 900])
def test_the_best_among_some_are_exact(store: Store, tmp_path: Path, count: int) -> None:
    """Even where only one in so many lists is searched otherwise."""
    put(store, unit(count))
    near = neighbours(store, tmp_path, probe_divisor=16)
    near.refresh()
    stored, vectors = everything(store)
    for seed, share in enumerate((0.01, 0.3, 1.0)):
        chosen = np.random.default_rng(seed).random(count) <= share
        among = np.concatenate([stored[chosen], [10_000]])
        for query in unit(3, seed=seed):
            scores = vectors[chosen] @ query
            ids, found = near.search(query, 7, among)
            np.testing.assert_array_equal(ids, stored[chosen][np.argsort(-scores)[:7]])
            np.testing.assert_allclose(found, np.sort(scores)[::-1][:7], rtol=1e-5, atol=1e-6)
    assert len(near.search(unit(1)[0], 7, np.empty(0, np.int64))[0]) == 0


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
    before = store.changes("image")
    with store.write() as writer:
        writer.delete([5, 250])
    near = neighbours(store, tmp_path)
    with monkeypatch.context() as patch:
        patch.setattr(store, "changes", lambda *_: before)
        near.refresh()
    for _ in range(2):
        ids, scores = near.search(unit(1, seed=1)[0], count)
        assert sorted(ids.tolist()) == sorted({*range(1, count + 1)} - {5, 250})
        assert np.isfinite(scores).all()
        near.refresh()


def test_lists_are_cached_and_the_cache_is_brought_up_to_date(store, tmp_path) -> None:
    put(store, unit(900))
    near = neighbours(store, tmp_path)
    near.refresh()
    near.save()
    put(store, unit(30, seed=5), "late")
    again = neighbours(store, tmp_path)
    again.refresh()
    assert again.trained == 900  # loaded: a rebuild would train on 930
    for query in unit(5, seed=6):
        assert_exact(again, store, query)
    again.save()
    third = neighbours(store, tmp_path)
    third.refresh()
    (tmp_path / "v.faiss").unlink()  # the lists that were read stay, and are written again
    third.save()
    for reader in (third, neighbours(store, tmp_path)):
        reader.refresh()
        assert reader.trained == 900
        assert_exact(reader, store, unit(1, seed=7)[0])


def test_lists_without_changes_are_written_again_if_their_file_is_deleted(store, tmp_path) -> None:
    put(store, unit(900))
    near = neighbours(store, tmp_path)
    near.refresh()
    near.save()
    (tmp_path / "v.faiss").unlink()
    near.save()
    for reader in (near, neighbours(store, tmp_path)):
        reader.refresh()
        assert_exact(reader, store, unit(1, seed=7)[0])


def test_lists_are_written_again_only_once_much_has_changed(store: Store, tmp_path: Path) -> None:
    """A hundred items are compared beside the lists: a fifth of what is searched without any."""
    put(store, unit(900))
    near = neighbours(store, tmp_path)
    near.save()
    file = tmp_path / "v.faiss"
    before = file.stat().st_mtime_ns
    for seed, name in enumerate(("b", "c"), start=20):
        put(store, unit(40, seed=seed), name)  # new
        put(store, unit(3, seed=seed), "a")  # changed
        with store.write() as writer:
            writer.delete([100 + seed])
        near.save()
        assert file.stat().st_mtime_ns == before
        reader = neighbours(store, tmp_path)
        for each in (near, reader):
            each.refresh()
            for query in unit(5, seed=4):
                assert_exact(each, store, query)
            among = everything(store)[0][::3]
            assert set(each.search(unit(1)[0], 50, among)[0]) <= set(among)
    put(store, unit(40, seed=22), "d")
    near.save()
    assert file.stat().st_mtime_ns > before
    again = neighbours(store, tmp_path)
    for each in (near, reader, again):
        each.refresh()
        assert each.trained == 900
        for query in unit(5, seed=4):
            assert_exact(each, store, query)


def corrupt_tail(file: Path) -> None:
    data = bytearray(file.read_bytes())
    data[-500:] = bytes(500)
    file.write_bytes(data)


@pytest.mark.parametrize(
    "harm",
    [
        corrupt_tail,
        lambda file: file.write_bytes(b""),
        lambda file: file.write_bytes(b"something else"),
        lambda file: file.write_bytes(file.read_bytes()[:-1000]),
        Path.unlink,
    ],
    ids=["corrupt", "empty", "other", "cut", "lost"],
)
def test_a_lost_or_damaged_cache_is_made_again(store, tmp_path, harm) -> None:
    put(store, unit(900))
    near = neighbours(store, tmp_path)
    near.refresh()
    near.save()
    harm(tmp_path / "v.faiss")
    again = neighbours(store, tmp_path)
    again.refresh()
    assert_exact(again, store, unit(1, seed=7)[0])


def test_the_cache_of_another_index_is_not_taken(store, tmp_path) -> None:
    other = Store.create(tmp_path / "other.sqlite", "noise", "1", DIM)
    put(other, unit(900, seed=8))
    near = neighbours(other, tmp_path)
    near.refresh()
    near.save()
    put(store, unit(900))
    again = neighbours(store, tmp_path)
    again.refresh()
    assert_exact(again, store, unit(1, seed=9)[0])


def test_lists_of_somebody_else_do_not_reach_faiss(
    store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    put(store, unit(600))
    file = tmp_path / "v.faiss"
    write_lists(file, make_lists(store, everything(store)[0]), {"identity": "i", "generation": 1})
    assert read_lists(file, "i", range(3)) is not None
    monkeypatch.setenv("SEESAY_CACHE", str(tmp_path / "another user's"))
    assert read_lists(file, "i", range(3)) is None


@pytest.mark.parametrize("generation", [1.5, [1], "1", None])
def test_a_generation_that_is_no_number_is_not_looked_for_in_all(
    store: Store, tmp_path: Path, generation: object
) -> None:
    put(store, unit(600))
    file = tmp_path / "v.faiss"
    write_lists(file, make_lists(store, everything(store)[0]), {"identity": "i", "generation": generation})
    assert read_lists(file, "i", range(2**50)) is None


def test_a_cache_that_is_replaced_while_it_is_read_is_read_as_it_was(
    store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    put(store, unit(600))
    index = make_lists(store, everything(store)[0])
    write_lists(tmp_path / "v.faiss", index, {"identity": "i", "generation": 1})
    before = index.ntotal
    index.remove_ids(np.arange(1, 20))
    compared = secrets.compare_digest

    def look(noted: bytes, found: bytes) -> bool:
        write_lists(tmp_path / "v.faiss", index, {"identity": "i", "generation": 2})
        return compared(noted, found)

    monkeypatch.setattr(secrets, "compare_digest", look)
    read = read_lists(tmp_path / "v.faiss", "i", range(3))
    assert read is not None
    assert read[1]["generation"] == 1
    assert read[0].ntotal == before
    _, ids = read[0].search(unit(1), 5)
    assert len(set(ids[0])) == 5


def test_lists_are_trained_again_when_they_doubled_and_given_up_when_few(store, tmp_path) -> None:
    put(store, unit(600))
    near = neighbours(store, tmp_path)
    near.refresh()
    assert near.trained == 600
    put(store, unit(900, seed=10), "more")
    near.save()
    assert near.trained == 1500
    with store.write() as writer:
        writer.delete(range(1, 1200))
    near.refresh()
    assert near.trained == 0
    assert_exact(near, store, unit(1, seed=11)[0])


def test_who_searches_takes_the_lists_that_an_update_has_made(store: Store, tmp_path: Path) -> None:
    put(store, unit(600))
    updating, searching = neighbours(store, tmp_path), neighbours(store, tmp_path)
    updating.save()
    searching.refresh()
    put(store, unit(900, seed=10), "more")
    searching.refresh()
    assert searching.trained == 600  # no query waits while lists are made
    assert_exact(searching, store, unit(1, seed=11)[0])
    updating.save()
    put(store, unit(1, seed=12), "last")
    searching.refresh()
    assert searching.trained == 1500
    assert_exact(searching, store, unit(1, seed=11)[0])
    put(store, unit(12_000 - 1501, seed=13), "many")
    searching.refresh()
    assert searching.trained == 1500
    put(store, unit(1, seed=14), "one")
    searching.refresh()
    assert searching.trained == 12_001  # nobody else does it
    assert_exact(searching, store, unit(1, seed=11)[0])


def test_recall_of_lists_that_are_probed_in_part(store, tmp_path) -> None:
    rng = np.random.default_rng(0)
    centres = rng.standard_normal((60, DIM))
    rows = (centres[rng.integers(0, 60, 4000)] + 0.7 * rng.standard_normal((4000, DIM))).astype(np.float32)
    rows /= np.linalg.norm(rows, axis=1, keepdims=True)
    put(store, rows)
    near = neighbours(store, tmp_path, probe_divisor=8)
    near.refresh()
    queries = rows[:100] + 0.05 * rng.standard_normal((100, DIM)).astype(np.float32)
    best = np.argsort(-(queries @ rows.T), axis=1)[:, :10] + 1
    hits = [len(set(near.search(q, 10)[0]) & set(truth)) for q, truth in zip(queries, best, strict=True)]
    assert np.mean(hits) >= 9.0


@pytest.mark.parametrize("count", [300, 900])
def test_pages_are_exact_to_the_last_item(store: Store, tmp_path: Path, count: int) -> None:
    put(store, unit(count))
    near = neighbours(store, tmp_path)
    near.refresh()
    query, found = unit(1, seed=1)[0], list[int]()
    ids, scores = near.search(query, 70)
    while len(ids):
        found += ids.tolist()
        ids, scores = near.search(query, 70, after=Place(float(scores[-1]), int(ids[-1]), len(found)))
    assert found == near.search(query, count)[0].tolist()


def test_a_page_is_whole_though_items_came_before_it(store: Store, tmp_path: Path) -> None:
    put(store, unit(900))
    near = neighbours(store, tmp_path)
    near.refresh()
    query = unit(1, seed=1)[0]
    ids, scores = near.search(query, 10)
    expected = near.search(query, 20)[0][10:]
    put(store, np.repeat(query[None], 40, axis=0), "best")
    near.refresh()
    place = Place(float(scores[-1]), int(ids[-1]), 10)
    assert near.search(query, 10, after=place)[0].tolist() == expected.tolist()


def test_few_ids_that_are_large_take_little_memory(store: Store, tmp_path: Path) -> None:
    put(store, unit(600))
    with store.write() as writer:
        writer._connection.execute("UPDATE items SET id = id + ? WHERE id > 590", (1 << 45,))
    near = neighbours(store, tmp_path)
    near.refresh()
    large = np.array([(1 << 45) + 595, 3], np.int64)
    ids, _ = near.search(unit(1)[0], 2, np.sort(large))
    assert sorted(ids.tolist()) == sorted(large.tolist())
