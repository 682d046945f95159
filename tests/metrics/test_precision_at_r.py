"""R-precision and mAP@R against a loop over a ranked list in which wrong answers win ties."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from seesay.errors import SeesayError
from seesay.metrics import precision_at_r


def ranked_loop(scores, right):
    """R-precision, mAP@R and R@1 as the papers define them, from a list in which wrong ones win ties."""
    order = sorted(range(len(scores)), key=lambda j: (-scores[j], j in right))
    r = len(right)
    precisions = [sum(j in right for j in order[: at + 1]) / (at + 1) for at in range(r)]
    average = sum(precisions[at] for at in range(r) if order[at] in right) / r
    return precisions[-1], average, float(order[0] in right)


@given(st.integers(0, 2**32 - 1), st.integers(1, 6), st.integers(1, 40), st.integers(1, 30), st.data())
@settings(max_examples=60)
def test_precisions_are_those_of_a_loop(seed, queries, candidates, levels, data):
    scores = np.random.default_rng(seed).integers(0, levels, (queries, candidates)).astype(np.float32)
    answers = [
        np.array(sorted(data.draw(st.sets(st.integers(0, scores.shape[1] - 1)))), np.int64) for _ in scores
    ]
    for row, found in enumerate(precision_at_r(scores, answers)):
        if len(answers[row]):
            assert found == pytest.approx(ranked_loop(scores[row].tolist(), set(answers[row].tolist())))
        else:
            assert np.isnan(found).all()


def test_map_at_r_by_hand():
    # Ranked: right, wrong, right, right; R = 3. mAP@R = (1 + 0 + 2/3) / 3.
    (found,) = precision_at_r([[9.0, 8.0, 7.0, 6.0, 1.0]], [np.array([0, 2, 3])])
    assert found == pytest.approx([2 / 3, 5 / 9, 1])


def test_wrong_input_is_refused():
    with pytest.raises(SeesayError, match="answers: 1 lists"):
        precision_at_r(np.zeros((2, 3)), [[0]])
    with pytest.raises(SeesayError, match=r"scores: NaN at \[0, 1\]"):
        precision_at_r([[0.1, np.nan]], [[0]])


@pytest.mark.parametrize("answers", [[True, False, True], [0, 0], [-1], [1.9], [7]])
def test_answers_that_are_no_distinct_columns_are_refused(answers):
    with pytest.raises(SeesayError, match=r"answers\[0\]: "):
        precision_at_r([[0.1, 0.2, 0.3]], [answers])
