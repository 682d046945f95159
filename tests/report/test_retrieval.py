"""What ranks say, against plain loops."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from seesay.data.corpus import Corpus, CorpusImage, Sentence
from seesay.metrics import Ranks, ranks
from seesay.report.queries import RankedAnswer, SplitQueries

SCORES = st.lists(
    st.lists(st.integers(0, 4), min_size=6, max_size=6), min_size=3, max_size=3
)  # few values, so that there are ties


@given(SCORES)
def test_the_right_answers_place_is_its_rank(rows: list[list[int]]) -> None:
    """The first right candidate stands where `ranks` counts it, ties against it."""
    scores, owners = np.array(rows, np.float32), np.array([0, 0, 1, 1, 2, 2])
    counted = ranks(scores, owners)
    for i in range(3):
        shown = RankedAnswer.of(scores[i], owners == i)
        assert shown.rank == counted.sentence[i] + 1
        assert [owners[j] == i for j in shown.best] == list(shown.right)
        assert sorted(scores[i], reverse=True)[:3] == [scores[i, j] for j in shown.best]
    for j in range(6):
        assert RankedAnswer.of(scores[:, j], np.arange(3) == owners[j]).rank == counted.image[j] + 1


def test_fewer_candidates_than_wanted() -> None:
    shown = RankedAnswer.of(np.array([0.1, 0.9]), np.array([True, False]))
    assert (shown.rank, shown.best, shown.right) == (2, (1, 0), (False, True))


def test_hardest_are_the_worst_and_no_image_without_sentences() -> None:
    images = [CorpusImage(f"{i}.jpg", "test", None) for i in range(6)]
    split = Corpus("made", Path(), images, [Sentence(f"text {i}", i) for i in range(6)])
    hardest = SplitQueries.hardest(split, Ranks(np.array([4, -1, 9, 9, 0, 5]), np.array([-1, 2, -1])))
    assert list(hardest.images) == [2, 3, 5, 0]
    assert list(hardest.sentences) == [("text 1", [1])]
