import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from seesay.errors import SeesayError
from seesay.metrics.recall import Retrieval, mean_of, mean_recall, retrieval


@given(st.lists(st.integers(0, 30), min_size=1, max_size=60))
def test_measures_are_those_of_the_definition(ranks):
    found = retrieval(ranks)
    for k, value in ((1, found.r1), (5, found.r5), (10, found.r10)):
        assert value == pytest.approx(100 * sum(rank + 1 <= k for rank in ranks) / len(ranks))
    middle = sorted(ranks)
    half = len(ranks) // 2
    median = middle[half] if len(ranks) % 2 else (middle[half - 1] + middle[half]) // 2
    assert found.median_rank == median + 1


def test_median_rank_of_an_even_number_of_queries_is_floored():
    assert retrieval([0, 1]).median_rank == 1
    assert retrieval([0, 3]).median_rank == 2


def test_images_without_sentences_are_no_queries():
    assert retrieval([0, -1, -1, 7]) == retrieval([0, 7])
    with pytest.raises(SeesayError, match="no query"):
        retrieval(np.array([-1, -1]))


def test_means():
    one, two = Retrieval(10, 20, 30, 4), Retrieval(20, 40, 60, 7)
    assert mean_of([one, two]) == Retrieval(15, 30, 45, 5.5)
    assert mean_recall(one, two) == pytest.approx(30)
