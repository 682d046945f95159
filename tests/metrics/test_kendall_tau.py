"""Weighted τ against SciPy's of the rows repeated."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import kendalltau

from seesay.errors import SeesayError
from seesay.metrics.bootstrap import intervals
from seesay.metrics.kendall_tau import TauSample, kendall_tau
from seesay.metrics.paired_test import compare


@given(st.integers(2, 30), st.integers(1, 12), st.integers(1, 5), st.integers(0, 2**32 - 1))
@settings(max_examples=150)
def test_it_is_that_of_repeated_rows(n: int, scores: int, ratings: int, seed: int) -> None:
    draw = np.random.default_rng(seed)
    x, y, weights = draw.integers(0, scores, n) / 7, draw.integers(0, ratings, n), draw.integers(0, 4, n)
    found = TauSample(x, y, np.arange(n)).metrics(weights[None])[0] / 100
    rows = np.repeat(np.arange(n), weights)
    if len(set(x[rows])) < 2 or len(set(y[rows])) < 2:
        assert np.isnan(found).all()
        return
    for tau, variant in zip(found, "bc", strict=True):
        assert tau == pytest.approx(kendalltau(x[rows], y[rows], variant=variant).statistic, abs=1e-9)


def test_shared_sentences_widen_the_interval_and_compare_as_before() -> None:
    draw = np.random.default_rng(5)
    images, sentences = np.repeat(np.arange(60), 4), np.tile(np.arange(8), 30)
    ratings = draw.integers(1, 5, 240) + 3 * (sentences % 2)
    scores = ratings + 4 * draw.normal(size=8)[sentences]  # an error that belongs to the sentence
    by_image, both = TauSample(scores, ratings, images), TauSample(scores, ratings, images, sentences)
    narrow, wide = (intervals([sample], 200)["tau-c"] for sample in (by_image, both))
    assert narrow is not None
    assert wide is not None
    assert wide.high - wide.low > 2 * (narrow.high - narrow.low)
    permuted = draw.permutation(scores)
    other = TauSample(permuted, ratings, images, sentences)
    test = compare([both], [other], resamples=100, swaps=200)["tau-c"]
    assert test.difference == pytest.approx(
        both.taus(np.ones(240, int))[1] * 100 - (test.theirs or 0), abs=2e-3
    )
    assert test.p is not None
    assert test.p < 0.05
    # Answers are exchanged by image, whether sentences are drawn or not.
    close = scores + draw.normal(size=240)
    for others in (permuted, close):
        second = [TauSample(others, ratings, images, names) for names in (None, sentences)]
        tests = [
            compare([each], [other], 10, 200) for each, other in zip((by_image, both), second, strict=True)
        ]
        assert tests[0]["tau-c"].p == tests[1]["tau-c"].p


def test_kendall_tau_is_scipys() -> None:
    draw = np.random.default_rng(3)
    scores, ratings = draw.normal(size=500), draw.integers(1, 5, 500)
    expected = [kendalltau(scores, ratings, variant=variant).statistic for variant in "bc"]
    assert kendall_tau(scores, ratings) == pytest.approx(expected)


@pytest.mark.parametrize(
    ("scores", "ratings", "message"),
    [
        ([0.1, 0.1], [1, 2], r"scores: all 2 are 0\.1"),
        ([0.1, 0.2], [4, 4], "ratings: all 2 are 4"),
        ([0.1, np.nan], [1, 2], r"scores: NaN at \[1\]"),
        ([0.1, 0.2], [1, 2, 3], r"ratings: shape \(3,\); it must be \(2,\)"),
        ([], [], "there are none"),
    ],
)
def test_kendall_tau_refuses_what_has_no_tau(scores: list[float], ratings: list[float], message: str) -> None:
    with pytest.raises(SeesayError, match=message):
        kendall_tau(scores, ratings)
