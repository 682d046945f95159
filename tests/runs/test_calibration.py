"""Scores become probabilities: the fit against scikit-learn's, and what must not change them."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.linear_model import LogisticRegression

from seesay.errors import SeesayError
from seesay.runs.calibration import Calibration, ScoreCalibration, known_share
from seesay.runs.run import Run


@settings(max_examples=25)
@given(seed=st.integers(0, 2**32 - 1), slope=st.floats(0.2, 4), intercept=st.floats(-3, 3))
def test_the_fit_is_the_maximum_of_the_likelihood(seed: int, slope: float, intercept: float) -> None:
    draw = np.random.default_rng(seed)
    scores = draw.normal(size=300)
    right = draw.random(300) < 1 / (1 + np.exp(-(intercept + slope * scores)))
    if right.all() or not right.any():
        return
    weights = draw.uniform(0.5, 2, 300)
    found = Calibration.fit(scores, right, weights)
    other = LogisticRegression(C=np.inf, tol=1e-8).fit(scores[:, None], right, sample_weight=weights)
    given_ = found.probabilities(scores)
    assert np.abs(given_ - other.predict_proba(scores[:, None])[:, 1]).max() < 5e-3
    assert (weights * given_).sum() == pytest.approx((weights * right).sum(), rel=0.01)


def test_separable_answers_have_finite_parameters() -> None:
    found = Calibration.fit([-1.0, -2.0, 1.0, 2.0], [False, False, True, True])
    assert np.isfinite([found.intercept, found.slope]).all()
    assert found.probabilities([-2, 2]).round(2).tolist() == [0, 1]
    assert found.probabilities([-1e9, 1e9]).tolist() == [0, 1]


@pytest.mark.parametrize("right", [[True, True], [False, False]])
def test_one_kind_of_answers_is_refused(right: list[bool]) -> None:
    with pytest.raises(SeesayError, match="one kind is missing"):
        Calibration.fit([0.0, 1.0], right)


def test_the_longer_a_query_is_the_more_it_is_judged_as_a_sentence() -> None:
    both = ScoreCalibration(Calibration(-5.0, 12.0), Calibration(-14.0, 28.0))
    assert both.of("dog") == both.of("a dog") == both.of("!") == both.of_words
    assert both.of("one two three four five six seven eight nine ten") == both.of_sentences
    assert both.of("dog", "cat") == both.of("dog cat")
    slopes = [both.of(" ".join(["dog"] * n)).slope for n in range(1, 13)]
    assert slopes == sorted(slopes)
    assert slopes[9:] == [28.0] * 3


def test_the_shipped_run_has_one() -> None:
    run = Run.load("seesay-small")
    assert isinstance(run.calibration, ScoreCalibration)
    assert run.calibration == run.config.calibration


def test_unknown_words_are_a_share() -> None:
    assert known_share(["a dog", "a dog"], []) == 1
    assert known_share(["xyzzy qwop"], ["xyzzy", "qwop"]) == 0
    assert known_share(["!"], []) == 1
    assert known_share(["!"], ["!"]) == 0
