"""Scores become probabilities: the fit against scikit-learn's, and what must not change them."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.linear_model import LogisticRegression

from seesay.errors import SeesayError
from seesay.runs.calibration import Background, Calibration, known_share, unrelated_sentences
from seesay.runs.run import Run


@settings(max_examples=25, deadline=None)
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


@settings(max_examples=25, deadline=None)
@given(seed=st.integers(0, 2**32 - 1), scale=st.floats(0.01, 100), shift=st.floats(-10, 10))
def test_standardised_scores_have_no_unit_and_no_origin(seed: int, scale: float, shift: float) -> None:
    draw = np.random.default_rng(seed)
    unrelated, scores = draw.normal(size=(30, 20)), draw.normal(size=30)

    def standardised(factor: float, added: float) -> np.ndarray:
        of_query = factor * scores + added
        return Background.of_scores(factor * unrelated + added).standardised(of_query - of_query.mean())

    assert standardised(scale, shift) == pytest.approx(standardised(1, 0), rel=1e-6, abs=1e-6)


def test_half_of_the_unrelated_sentences_reach_the_median() -> None:
    scores = np.random.default_rng(0).normal(size=(50, 201))
    best = Background.of_scores(scores).standardised(scores.max(axis=0) - scores.mean(axis=0))
    assert (best >= 0).sum() == 101
    assert np.diff(np.quantile(best, [0.25, 0.75])) == pytest.approx(1.349)


def test_equal_scores_of_all_unrelated_sentences_divide_by_no_zero() -> None:
    background = Background.of_scores(np.ones((3, 5)))
    assert np.isfinite(background.standardised([0.0, 0.5])).all()


def test_a_calibration_is_finite_numbers() -> None:
    assert Calibration.from_dict({"intercept": -1, "slope": "0.5"}) == Calibration(-1.0, 0.5)
    assert Calibration(-1.23456, 0.54321).rounded() == Calibration(-1.2346, 0.5432)
    with pytest.raises(ValueError, match="not finite"):
        Calibration.from_dict({"intercept": float("nan"), "slope": 1})


def test_the_shipped_run_has_one() -> None:
    run = Run.load("seesay-small")
    assert run.calibration == run.config.calibration == Calibration(-1.9534, 0.8457)


def test_unknown_words_are_a_share() -> None:
    assert known_share(["a dog", "a dog"], []) == 1
    assert known_share(["xyzzy qwop"], ["xyzzy", "qwop"]) == 0
    assert known_share(["!"], []) == 1
    assert known_share(["!"], ["!"]) == 0


def test_unrelated_sentences_are_distinct() -> None:
    sentences = unrelated_sentences()
    assert len(sentences) == len(set(sentences)) >= 200
    assert all(sentence == sentence.strip() != "" for sentence in sentences)
