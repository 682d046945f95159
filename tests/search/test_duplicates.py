import time

import numpy as np
import pytest

from seesay.search.duplicates import near_duplicates


def plainly(ids, vectors, similarity) -> list[list[int]]:
    """Groups by comparing every pair, and joining until nothing changes."""
    unit = vectors.astype(np.float64)
    unit /= np.linalg.norm(unit, axis=1, keepdims=True)
    groups = [{i} for i in range(len(ids))]
    for i in range(len(ids)):
        for j in range(i):
            if unit[i] @ unit[j] >= similarity:
                a = next(group for group in groups if i in group)
                b = next(group for group in groups if j in group)
                if a is not b:
                    groups.remove(b)
                    a |= b
    found = [sorted(int(ids[i]) for i in group) for group in groups if len(group) > 1]
    return sorted(found, key=lambda group: (-len(group), group))


@pytest.mark.parametrize("seed", range(3))
def test_groups_are_those_of_all_pairs(seed: int, monkeypatch) -> None:
    monkeypatch.setattr("seesay.search.duplicates._BLOCK", 64)
    draw = np.random.default_rng(seed)
    base = draw.standard_normal((120, 512))
    near = base[draw.integers(0, 120, 180)] + 0.15 * draw.standard_normal((180, 512))
    vectors = np.concatenate([base, near]).astype(np.float16)
    ids = draw.permutation(1000)[:300]
    found = near_duplicates(ids, vectors, 0.97)
    assert found == plainly(ids, vectors, 0.97)
    assert len(found) > 10


def test_nothing_is_alike_in_nothing() -> None:
    assert near_duplicates(np.empty(0, np.int64), np.empty((0, 8), np.float16)) == []


def test_many_copies_are_grouped_without_looking_at_every_pair() -> None:
    """5,000 copies are 12 million pairs, which take minutes if they are joined one by one."""
    copies = np.random.default_rng(0).standard_normal((1, 64)).astype(np.float16).repeat(5000, axis=0)
    started = time.process_time()
    assert near_duplicates(np.arange(5000), copies) == [list(range(5000))]
    assert time.process_time() - started < 20
