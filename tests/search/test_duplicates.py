import time

import numpy as np
import pytest
from scipy.sparse.csgraph import connected_components

from seesay.search.duplicates import near_duplicates


def plainly(ids, vectors, similarity) -> list[list[int]]:
    """Groups by comparing every pair at once."""
    unit = vectors.astype(np.float64)
    unit /= np.linalg.norm(unit, axis=1, keepdims=True)
    count, group_of = connected_components(unit @ unit.T >= similarity, directed=False)
    groups = [sorted(ids[group_of == group].tolist()) for group in range(count)]
    found = [group for group in groups if len(group) > 1]
    return sorted(found, key=lambda group: (-len(group), group))


@pytest.mark.parametrize("count", [300, 2500])  # within one block, and over two
def test_groups_are_those_of_all_pairs(count: int) -> None:
    draw = np.random.default_rng(count)
    base = draw.standard_normal((count * 2 // 5, 512))
    near = base[draw.integers(0, len(base), count - len(base))]
    near += 0.15 * draw.standard_normal(near.shape)
    vectors = np.concatenate([base, near]).astype(np.float16)
    ids = draw.permutation(9000)[:count]
    found = near_duplicates(ids, vectors, 0.97)
    assert found == plainly(ids, vectors, 0.97)
    assert len(found) > 10


def test_copies_are_alike_though_a_cosine_is_rounded() -> None:
    rows = np.random.default_rng(0).standard_normal((200, 512)).astype(np.float16)
    assert len(near_duplicates(np.arange(400), np.concatenate([rows, rows]), 1.0)) == 200


def test_nothing_is_alike_in_nothing() -> None:
    assert near_duplicates(np.empty(0, np.int64), np.empty((0, 8), np.float16)) == []


def test_many_copies_are_grouped_without_looking_at_every_pair() -> None:
    """5,000 copies are 12 million pairs, which take minutes if they are joined one by one."""
    copies = np.random.default_rng(0).standard_normal((1, 64)).astype(np.float16).repeat(5000, axis=0)
    started = time.process_time()
    assert near_duplicates(np.arange(5000), copies) == [list(range(5000))]
    assert time.process_time() - started < 20
