"""Average precision against scikit-learn, ties included."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from sklearn.metrics import average_precision_score

from seesay.errors import SeesayError
from seesay.metrics import auc, average_precision
from seesay.metrics.bootstrap import intervals
from seesay.metrics.precision import PrecisionSample, precisions_of_targets
from seesay.metrics.significance import compare

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


@given(st.integers(1, 10), st.integers(0, 2**32 - 1))
def test_a_draw_counts_each_target_as_often_as_its_image_is_drawn(n: int, seed: int) -> None:
    draw = np.random.default_rng(seed)
    precisions = precisions_of_targets(draw.integers(0, 4, (n, 3)) / 3, draw.random((n, 3)) < 0.5)
    weights = draw.integers(0, 3, (4, n)).astype(np.int32)
    for found, times in zip(PrecisionSample(precisions).metrics(weights)[:, 0], weights, strict=True):
        drawn = np.repeat(precisions, times, axis=0)
        columns = [column[~np.isnan(column)].mean() for column in drawn.T if not np.isnan(column).all()]
        assert np.isnan(found) if not columns else found == pytest.approx(100 * np.mean(columns))


def test_a_mean_average_precision_has_an_interval_and_is_compared() -> None:
    draw = np.random.default_rng(0)
    targets = draw.random((200, 80)) < 0.05
    noise = draw.random((2, 200, 80))
    good, poor = (
        PrecisionSample(precisions_of_targets(scores, targets))
        for scores in (noise[0] + targets / 2, noise[1])
    )
    figure = good.metrics(np.ones((1, 200), np.int32))[0, 0]
    interval = intervals([good], resamples=200)["mAP"]
    assert interval is not None
    assert interval.low < figure < interval.high
    test = compare([good], [poor], 200, 200)["mAP"]
    assert test.interval is not None
    assert test.interval.low < test.difference < test.interval.high
    assert test.p < 0.02
    for others in (np.roll(targets, 1, axis=1), targets[:, :-1]):  # of other concepts
        with pytest.raises(SeesayError, match="needs the same queries"):
            compare([good], [PrecisionSample(precisions_of_targets(others * 1.0, others))], 2, 2)


def test_a_label_is_true_or_false() -> None:
    for labels in ([-1, 1, -1, 1], [1, 2, 1, 2]):
        with pytest.raises(SeesayError, match="labels: expected true or false, or 1 or 0"):
            auc([0.1, 0.9, 0.2, 0.8], labels)
    assert auc([0.1, 0.9, 0.2, 0.8], [0.0, 1.0, 0.0, 1.0]) == 1
