"""Average precision against scikit-learn, ties included."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from sklearn.metrics import average_precision_score

from seesay.errors import SeesayError
from seesay.metrics import auc, average_precision, calibration_error

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
def test_average_precision_equals_that_of_scikit_learn(drawn: tuple[np.ndarray, np.ndarray]) -> None:
    scores, targets = drawn
    found = average_precision(scores, targets)
    for c in range(targets.shape[1]):
        if targets[:, c].any():
            assert found[c] == pytest.approx(average_precision_score(targets[:, c], scores[:, c]))
        else:
            assert np.isnan(found[c])


def test_average_precision_of_a_small_example() -> None:
    # Targets at ranks 1 and 3: (1/1 + 2/3) / 2.
    found = average_precision(np.array([[4.0], [3], [2], [1]]), np.array([[1], [0], [1], [0]], bool))
    assert found[0] == pytest.approx((1 + 2 / 3) / 2)


def test_a_constant_scorer_gains_nothing() -> None:
    targets = np.random.default_rng(0).random((50, 4)) < 0.3
    np.testing.assert_allclose(average_precision(np.ones((50, 4)), targets), targets.mean(axis=0))


def test_unsigned_and_infinite_scores_rank_as_others() -> None:
    targets = np.array([[False], [True], [False], [True]])
    whole = np.array([[0], [3], [2], [1]])
    expected = average_precision(whole, targets)
    for dtype in (np.uint8, np.uint64, np.int8):
        np.testing.assert_array_equal(average_precision(whole.astype(dtype), targets), expected)
    # Masked rows tie, wherever their targets are.
    np.testing.assert_array_equal(average_precision(np.full((4, 1), -np.inf), targets), [0.5])


def test_a_nan_score_is_refused() -> None:
    with pytest.raises(SeesayError, match="NaN"):
        average_precision(np.array([[np.nan]]), np.array([[True]]))


def test_a_label_is_true_or_false() -> None:
    for labels in ([-1, 1, -1, 1], [1, 2, 1, 2]):
        with pytest.raises(SeesayError, match="labels: expected true or false, or 1 or 0"):
            auc([0.1, 0.9, 0.2, 0.8], labels)
        with pytest.raises(SeesayError, match="outcomes: expected true or false"):
            calibration_error([0.1, 0.9, 0.2, 0.8], labels)
    assert auc([0.1, 0.9, 0.2, 0.8], [0.0, 1.0, 0.0, 1.0]) == 1
