"""Weighted τ against SciPy's of the rows repeated."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import kendalltau

from seesay.metrics.kendall import Tau


@given(st.integers(2, 30), st.integers(1, 12), st.integers(1, 5), st.integers(0, 2**32 - 1))
@settings(max_examples=150, deadline=None)
def test_it_is_that_of_repeated_rows(n: int, scores: int, ratings: int, seed: int) -> None:
    draw = np.random.default_rng(seed)
    x, y, weights = draw.integers(0, scores, n) / 7, draw.integers(0, ratings, n), draw.integers(0, 4, n)
    found = Tau.of(x, y).weighted(weights)
    rows = np.repeat(np.arange(n), weights)
    if len(set(x[rows])) < 2 or len(set(y[rows])) < 2:
        assert np.isnan(found).all()
        return
    for tau, variant in zip(found, "bc", strict=True):
        assert tau == pytest.approx(kendalltau(x[rows], y[rows], variant=variant).statistic, abs=1e-9)


def test_rows_that_count_once_are_as_they_are() -> None:
    draw = np.random.default_rng(3)
    scores, ratings = draw.normal(size=500), draw.integers(1, 5, 500)
    expected = [kendalltau(scores, ratings, variant=variant).statistic for variant in "bc"]
    assert Tau.of(scores, ratings).weighted(np.ones(500)) == pytest.approx(expected)
