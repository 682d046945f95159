"""nDCG against scikit-learn, and against a plain loop over the worst order of ties."""

from itertools import permutations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.metrics import ndcg_score

from seesay.errors import SeesayError
from seesay.metrics import ndcg
from seesay.metrics.ndcg import ndcg_by_chance


@st.composite
def cases(draw, most=200):
    q, c, top = draw(st.integers(1, 6)), draw(st.integers(1, 40)), draw(st.integers(1, 30))
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    many = draw(st.integers(1, most))
    return rng.integers(0, many, (q, c)).astype(np.float32), rng.integers(0, 5, (q, c)) / 4, top


@given(cases())
@settings(max_examples=60)
def test_ndcg_is_scikit_learns_where_no_scores_are_equal(case):
    scores, relevance, top = case
    scores = scores.argsort(axis=1).argsort(axis=1).astype(np.float32)  # one of a kind
    for row, found in enumerate(ndcg(scores, relevance, top)):
        if not relevance[row].any():
            assert np.isnan(found)
        elif scores.shape[1] > 1:  # scikit-learn needs two candidates
            expected = ndcg_score(2 ** relevance[[row]] - 1, scores[[row]], k=top)
            assert found == pytest.approx(expected)


@given(cases())
@settings(max_examples=60)
def test_ndcg_of_equal_scores_is_that_of_the_worst_order(case):
    scores, relevance, top = case
    for row, found in enumerate(ndcg(scores, relevance, top)):
        order = sorted(range(scores.shape[1]), key=lambda j, r=row: (-scores[r, j], relevance[r, j]))
        gained, ideal = (
            sum((2 ** relevance[row, j] - 1) / np.log2(rank + 2) for rank, j in enumerate(some[:top]))
            for some in (order, sorted(range(scores.shape[1]), key=lambda j, r=row: -relevance[r, j]))
        )
        assert found == pytest.approx(gained / ideal) if ideal else np.isnan(found)


def test_chance_is_the_mean_over_all_orders():
    relevance = np.array([[0, 0.25, 1, 0.5], [1, 0, 0, 0], [0, 0, 0, 0]])
    orders = np.array(list(permutations(range(4))), float)
    expected = [np.mean(ndcg(orders, np.broadcast_to(row, (24, 4)), 3)) for row in relevance]
    assert ndcg_by_chance(relevance, 3) == pytest.approx(expected, nan_ok=True)
    assert np.isnan(expected[2])


def test_large_relevance_in_half_precision():
    relevance = np.array([[17, 3, 0], [0, 17, 3]], np.float16)
    scores = np.tile(np.arange(3.0), (2, 1))
    for half, double in (
        (ndcg(scores, relevance), ndcg(scores, relevance.astype(float))),
        (ndcg_by_chance(relevance), ndcg_by_chance(relevance.astype(float))),
    ):
        assert half.tolist() == double.tolist()
        assert (half < 1).all()


def test_a_constant_scorer_gains_nothing():
    assert ndcg(np.ones((1, 30)), np.eye(1, 30)).tolist() == [0]


@pytest.mark.parametrize(
    ("scores", "relevance", "message"),
    [
        (np.zeros((2, 3)), np.zeros((3, 2)), r"relevance: shape \(3, 2\); it must be \(2, 3\)"),
        (np.zeros(3), np.zeros(3), r"scores: shape \(3,\); it must be \(q, c\)"),
        (np.zeros((2, 0)), np.zeros((2, 0)), "at least one candidate"),
        ([[0.1, np.nan]], [[0, 1]], r"scores: NaN at \[0, 1\]"),
        ([[0.1, 0.2]], [[0, np.nan]], r"relevance: NaN at \[0, 1\]"),
        ([[0.1, 0.2]], [[0, -1]], "relevance: expected numbers of at least 0, got -1"),
    ],
)
def test_wrong_input_is_refused(scores, relevance, message):
    with pytest.raises(SeesayError, match=message):
        ndcg(scores, relevance)


def test_no_answer_that_counts_is_refused():
    with pytest.raises(SeesayError, match="top: expected a whole number of at least 1, got 0"):
        ndcg([[0.1]], [[1]], top=0)
