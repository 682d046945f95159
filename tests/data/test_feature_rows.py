import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from seesay.data.feature_rows import FeatureRows


@given(st.lists(st.integers(0, 4), min_size=1, max_size=4), st.sampled_from([(3,), (2, 3)]), st.data())
def test_indexing_is_that_of_the_stacked_array(sizes, shape, data):
    parts = [np.random.default_rng(i).random((size, *shape), np.float32) for i, size in enumerate(sizes)]
    whole, rows = np.concatenate(parts), FeatureRows(parts)
    assert rows.shape == whole.shape
    assert rows.ndim == whole.ndim
    assert len(rows) == len(whole)
    assert (np.asarray(rows) == whole).all()
    assert (rows[1:3] == whole[1:3]).all()
    if len(whole):
        wanted = data.draw(st.lists(st.integers(-len(whole), len(whole) - 1)))
        assert (rows[wanted] == whole[np.array(wanted, int)]).all()
        assert (rows[len(whole) - 1] == whole[-1]).all()


def test_other_numbers_come_out_as_float32():
    rows = FeatureRows([np.ones((2, 3), np.float16), np.ones((2, 3), np.int64)])
    assert rows[[0, 3]].dtype == rows.dtype == np.float32


def test_rows_out_of_range_and_parts_that_do_not_fit_are_refused():
    with pytest.raises(IndexError, match="4 rows"):
        FeatureRows([np.zeros((4, 2))])[[4]]
    with pytest.raises(ValueError, match="one shape"):
        FeatureRows([np.zeros((4, 2)), np.zeros((4, 3))])
