import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.metrics import roc_auc_score

from seesay.errors import SeesayError
from seesay.metrics import auc, calibration_error


@given(st.lists(st.tuples(st.integers(0, 4), st.booleans()), min_size=2, max_size=30))
def test_auc_equals_that_of_scikit_learn(rows):
    values, labels = zip(*rows, strict=True)
    if len(set(labels)) == 1:
        assert auc(values, labels) is None
    else:
        assert auc(values, labels) == pytest.approx(roc_auc_score(labels, values))


def test_auc_of_a_constant_is_one_half_and_shapes_must_fit():
    assert auc(np.ones(5), [True, False, True, False, False]) == 0.5
    with pytest.raises(SeesayError, match=r"labels: shape \(2,\); it must be \(3,\)"):
        auc([1, 2, 3], [True, False])
    with pytest.raises(SeesayError, match=r"values: NaN at \[1\]"):
        auc([0.1, np.nan], [0, 1])
    with pytest.raises(SeesayError, match=r"labels: NaN at \[1\]"):
        auc([0.1, 0.2], [0, np.nan])


def test_the_calibration_error_is_the_mean_over_bins():
    draw = np.random.default_rng(0)
    chances, outcomes = draw.random(200), draw.integers(0, 2, 200).astype(float)
    outcomes[:20] = np.nan  # unknown
    known, bins = ~np.isnan(outcomes), (10 * chances).astype(int)
    inside = [known & (bins == each) for each in range(10)]
    expected = sum(abs(chances[some].mean() - outcomes[some].mean()) * some.sum() for some in inside) / 180
    assert calibration_error(chances, outcomes) == pytest.approx(expected)
    assert calibration_error([1.0, 0.0], [True, False]) == 0
    with pytest.raises(SeesayError, match="probabilities: NaN"):
        calibration_error([np.nan], [True])
    for chance in (-0.5, 1.5):
        with pytest.raises(SeesayError, match=f"from 0 to 1, got {chance}"):
            calibration_error([0.5, chance], [True, False])
