"""What ranks say, against plain loops."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from seesay.metrics.bootstrap import Answers
from seesay.metrics.ranks import Ranks, ranks
from seesay.metrics.recall import retrieval
from seesay.report.breakdown import (
    best,
    bins_of,
    equal_bins,
    hardest,
    image_retrieval_of,
    rank_bins,
    rank_shares,
    recall_curve,
)

RANKS = st.lists(st.integers(-1, 300), min_size=1, max_size=60).filter(lambda r: max(r) >= 0)
SCORES = st.lists(
    st.lists(st.integers(0, 4), min_size=6, max_size=6), min_size=3, max_size=3
)  # few values, so that there are ties


@given(RANKS, st.integers(1, 120))
def test_recall_at_each_k_is_a_count(found: list[int], most: int) -> None:
    asked = [rank for rank in found if rank >= 0]
    wanted = [100 * sum(rank < k for rank in asked) / len(asked) for k in range(1, most + 1)]
    np.testing.assert_allclose(recall_curve(np.array(found), most), wanted)


def test_the_curve_meets_the_recalls_of_the_table() -> None:
    found = np.random.default_rng(3).geometric(0.05, 500) - 1
    curve, told = recall_curve(found), retrieval(found)
    assert [curve[0], curve[4], curve[9]] == pytest.approx([told.r1, told.r5, told.r10])


@given(RANKS)
def test_every_rank_is_in_one_bin(found: list[int]) -> None:
    bins = rank_bins(max(found) + 1)
    assert all(low == before + 1 for (_, before), (low, _) in pairwise(bins))
    shares = rank_shares(np.array(found), bins)
    asked = [rank + 1 for rank in found if rank >= 0]
    wanted = [100 * sum(low <= rank <= high for rank in asked) / len(asked) for low, high in bins]
    np.testing.assert_allclose(shares, wanted)
    assert shares.sum() == pytest.approx(100)
    assert shares[-1] > 0


@given(st.lists(st.integers(0, 30), min_size=1, max_size=80), st.integers(1, 8))
def test_equal_bins_hold_every_value_once_and_about_as_many(values: list[int], wanted: int) -> None:
    numbers = np.array(values)
    bins = equal_bins(numbers, wanted)
    assert len(bins) <= wanted
    held = [sum(low <= value <= high for value in values) for low, high in bins]
    assert sum(held) == len(values)
    assert (min(values), max(values)) == (bins[0][0], bins[-1][1])
    most = max(np.bincount(numbers))  # equal values cannot be parted
    assert max(held) <= len(values) / wanted + most


def test_a_bin_without_sentences_is_left_out() -> None:
    bins = bins_of(np.array([1, 1, 7]), {"one": (1, 1), "few": (2, 5), "many": (6, 9)})
    assert [each.name for each in bins] == ["one", "many"]
    assert [each.chosen.tolist() for each in bins] == [[True, True, False], [False, False, True]]


@given(SCORES)
def test_the_right_answers_place_is_its_rank(rows: list[list[int]]) -> None:
    """The first right candidate stands where `ranks` counts it, ties against it."""
    scores, owners = np.array(rows, np.float32), np.array([0, 0, 1, 1, 2, 2])
    counted = ranks(scores, owners)
    for i in range(3):
        shown = best(scores[i], owners == i)
        assert shown.rank == counted.sentence[i] + 1
        assert [owners[j] == i for j in shown.first] == list(shown.right)
        assert sorted(scores[i], reverse=True)[:3] == [scores[i, j] for j in shown.first]
    for j in range(6):
        assert best(scores[:, j], np.arange(3) == owners[j]).rank == counted.image[j] + 1


def test_fewer_candidates_than_wanted() -> None:
    shown = best(np.array([0.1, 0.9]), np.array([True, False]), count=3)
    assert (shown.rank, shown.first, shown.right) == (2, (1, 0), (False, True))


def test_hardest_are_the_worst_and_no_image_without_sentences() -> None:
    assert hardest(np.array([4, -1, 9, 9, 0]), 3) == [2, 3, 0]
    assert hardest(np.array([-1, 2, -1]), 3) == [1]


def test_image_retrieval_of_some_sentences_counts_these_alone() -> None:
    owners = np.array([0, 0, 1, 2, 2])
    found = Answers(Ranks(np.array([0, 3, 5]), np.array([0, 8, 2, 4, 40])), owners)
    chosen = np.array([True, True, False, False, True])
    told = image_retrieval_of(found, chosen, resamples=50)
    assert {k: told[k] for k in ("sentences", "R@1", "R@5", "R@10")} == {
        "sentences": 3,
        "R@1": pytest.approx(100 / 3, abs=1e-3),
        "R@5": pytest.approx(100 / 3, abs=1e-3),
        "R@10": pytest.approx(200 / 3, abs=1e-3),
    }
    low, high = told["intervals"]["R@10"]
    assert low <= told["R@10"] <= high
