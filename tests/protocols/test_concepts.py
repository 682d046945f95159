from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from sklearn.metrics import average_precision_score

from seesay.errors import SeesayError
from seesay.protocols.concepts import (
    _drawn_precision,
    average_precision,
    concept_intervals,
    concept_measures,
)
from seesay.text.concepts import Concept, ConceptVocabulary

SHAPES = hnp.array_shapes(min_dims=2, max_dims=2, max_side=12)


@given(
    SHAPES.flatmap(
        # Few different scores, so that many are equal.
        lambda shape: st.tuples(
            hnp.arrays(np.float32, shape, elements=st.sampled_from([-2.0, 0.0, 0.5, 1.0])),
            hnp.arrays(bool, shape),
        )
    )
)
def test_average_precision_is_scikit_learns(drawn: tuple[np.ndarray, np.ndarray]) -> None:
    scores, targets = drawn
    found = average_precision(scores, targets)
    for c in range(targets.shape[1]):
        if targets[:, c].any():
            assert found[c] == pytest.approx(average_precision_score(targets[:, c], scores[:, c]))
        else:
            assert np.isnan(found[c])


def test_by_hand() -> None:
    # Targets at ranks 1 and 3: (1/1 + 2/3) / 2.
    found = average_precision(np.array([[4.0], [3], [2], [1]]), np.array([[1], [0], [1], [0]], bool))
    assert found[0] == pytest.approx((1 + 2 / 3) / 2)


def test_a_constant_scorer_gains_nothing() -> None:
    targets = np.random.default_rng(0).random((50, 4)) < 0.3
    np.testing.assert_allclose(average_precision(np.ones((50, 4)), targets), targets.mean(axis=0))


def test_a_score_that_is_no_number_is_refused() -> None:
    with pytest.raises(SeesayError, match="not a number"):
        average_precision(np.array([[np.nan]]), np.array([[True]]))


def _vocabulary() -> ConceptVocabulary:
    words = (Concept("dog", "noun", 9), Concept("run", "verb", 5), Concept("red", "adjective", 2))
    return ConceptVocabulary(words, 3, 10, 0)


def test_means_over_concepts_and_over_images() -> None:
    # "red" occurs in no image, and the last image has no concept.
    targets = np.array([[1, 1, 0], [0, 1, 0], [1, 0, 0], [0, 0, 0]], bool)
    scores = np.random.default_rng(1).random((4, 3))
    measured = concept_measures(scores, targets, _vocabulary())

    def mean(scores: np.ndarray, targets: np.ndarray) -> float:
        there = [c for c in range(targets.shape[1]) if targets[:, c].any()]
        return 100 * float(np.mean([average_precision_score(targets[:, c], scores[:, c]) for c in there]))

    assert measured["mAP"] == pytest.approx(mean(scores, targets))
    assert measured["image mAP"] == pytest.approx(mean(scores.T, targets.T))
    assert (measured["images"], measured["concepts"], measured["images_without_concepts"]) == (4, 2, 1)
    baseline = measured["baselines"]["training frequency"]
    assert baseline["mAP"] == pytest.approx(50)  # two of four images each
    assert baseline["image mAP"] == pytest.approx(mean(np.tile([9.0, 5, 2], (4, 1)).T, targets.T))
    assert measured["by kind"]["adjectives"] == {"mAP": None}
    assert "numbers" not in measured["by kind"]


def test_truth_is_a_hundred() -> None:
    targets = np.array([[1, 0, 0], [0, 1, 1]], bool)
    measured = concept_measures(targets.astype(float), targets, _vocabulary())
    assert measured["mAP"] == measured["image mAP"] == 100


@given(st.integers(1, 10), st.integers(0, 2**32 - 1))
def test_the_precision_of_a_draw_is_that_of_repeated_images(n: int, seed: int) -> None:
    draw = np.random.default_rng(seed)
    scores, targets = draw.integers(0, 4, n) / 3, draw.random(n) < 0.5
    weights = draw.integers(0, 3, (4, n)).astype(np.int32)
    for found, times in zip(_drawn_precision(scores, targets, weights), weights, strict=True):
        rows = np.repeat(np.arange(n), times)
        if targets[rows].any():
            assert found == pytest.approx(average_precision(scores[rows, None], targets[rows, None])[0])
        else:
            assert np.isnan(found)


def test_it_says_how_sure_it_is() -> None:
    draw = np.random.default_rng(1)
    targets = draw.random((80, 3)) < 0.4
    scores = targets + draw.normal(size=(80, 3))
    measured, told = concept_measures(scores, targets, _vocabulary()), concept_intervals(scores, targets, 200)
    for name in ("mAP", "image mAP"):
        low, high = told[name]
        assert low < measured[name] < high
