import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.metrics import roc_auc_score

from seesay.errors import SeesayError
from seesay.metrics import auc


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
