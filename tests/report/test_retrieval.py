"""What ranks say, against plain loops."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from seesay.data.corpus import Corpus
from seesay.metrics import ranks, recall_at_k
from seesay.protocols.evaluate import measure
from seesay.protocols.subject import Subject
from seesay.report.queries import best_answers, hardest
from seesay.report.retrieval import (
    Measured,
    bins_of,
    equal_bins,
    image_retrieval_of,
    recall_curve,
)
from seesay.runs.scores import MatrixScores

RANKS = st.lists(st.integers(-1, 300), min_size=1, max_size=60).filter(lambda r: max(r) >= 0)
SCORES = st.lists(
    st.lists(st.integers(0, 4), min_size=6, max_size=6), min_size=3, max_size=3
)  # few values, so that there are ties


@given(RANKS, st.integers(1, 120))
def test_recall_at_each_k_is_a_count(found: list[int], max_k: int) -> None:
    queries = [rank for rank in found if rank >= 0]
    wanted = [100 * sum(rank < k for rank in queries) / len(queries) for k in range(1, max_k + 1)]
    np.testing.assert_allclose(recall_curve(np.array(found), max_k), wanted)


def test_the_curve_meets_the_recalls_of_the_table() -> None:
    found = np.random.default_rng(3).geometric(0.05, 500) - 1
    curve = recall_curve(found)
    assert [curve[k - 1] for k in (1, 5, 10)] == pytest.approx([recall_at_k(found, k) for k in (1, 5, 10)])


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
    wanted = {"one": [True, True, False], "many": [False, False, True]}
    assert {name: chosen.tolist() for name, chosen in bins.items()} == wanted


@given(SCORES)
def test_the_right_answers_place_is_its_rank(rows: list[list[int]]) -> None:
    """The first right candidate stands where `ranks` counts it, ties against it."""
    scores, owners = np.array(rows, np.float32), np.array([0, 0, 1, 1, 2, 2])
    counted = ranks(scores, owners)
    for i in range(3):
        shown = best_answers(scores[i], owners == i)
        assert shown.rank == counted.sentence[i] + 1
        assert [owners[j] == i for j in shown.best] == list(shown.right)
        assert sorted(scores[i], reverse=True)[:3] == [scores[i, j] for j in shown.best]
    for j in range(6):
        assert best_answers(scores[:, j], np.arange(3) == owners[j]).rank == counted.image[j] + 1


def test_fewer_candidates_than_wanted() -> None:
    shown = best_answers(np.array([0.1, 0.9]), np.array([True, False]))
    assert (shown.rank, shown.best, shown.right) == (2, (1, 0), (False, True))


def test_hardest_are_the_worst_and_no_image_without_sentences() -> None:
    assert hardest(np.array([4, -1, 9, 9, 0, 5])) == [2, 3, 5, 0]
    assert hardest(np.array([-1, 2, -1])) == [1]


def test_image_retrieval_of_some_sentences_counts_these_alone(corpus: Corpus) -> None:
    part = corpus.split("test")
    scores = np.random.default_rng(0).normal(size=(len(part.images), len(part.sentences)))
    subject = Subject("drawn", "test", part, MatrixScores(scores))
    measured = Measured("drawn", subject, measure(subject, "standard"))
    chosen = np.arange(len(part.sentences)) % 3 == 0
    figures, low, high = image_retrieval_of(measured, chosen, resamples=50)
    ranks = measured.ranks.image[chosen]
    for k in (1, 5, 10):
        assert figures[f"R@{k}"] == pytest.approx(100 * np.mean(ranks < k), abs=1e-3)
    assert low <= figures["R@10"] <= high
