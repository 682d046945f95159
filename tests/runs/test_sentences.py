from __future__ import annotations

import numpy as np

from seesay.matchers.settings import MATCHERS
from seesay.recipes.load import load_recipe
from seesay.runs.prepare import PreparedSentences, count_cut


def sentences(*lengths: int) -> PreparedSentences:
    """Sentences whose words are numbered from 0 on."""
    vectors = np.arange(2.0 * len(lengths), dtype=np.float32).reshape(-1, 2)
    return PreparedSentences(np.arange(sum(lengths)), np.array(lengths), vectors)


def test_sentences_are_taken_with_their_own_words_and_vectors() -> None:
    some = sentences(2, 1, 3).take(np.array([2, 0, 2]))
    assert some.words.tolist() == [3, 4, 5, 0, 1, 3, 4, 5]
    assert some.lengths.tolist() == [3, 2, 3]
    assert some.vectors.tolist() == [[4, 5], [0, 1], [4, 5]]
    assert [len(part) for part in sentences(1, 2, 3).split(2)] == [2, 1]
    assert sentences(1, 2, 3).split(2)[1].words.tolist() == [3, 4, 5]


def test_tensors_hold_the_same_sentences() -> None:
    some = sentences(2, 1, 3)
    tensors = some.to_tensors()
    for name in ("words", "lengths", "vectors"):
        np.testing.assert_array_equal(getattr(tensors, name).numpy(), getattr(some, name))


def test_longer_sentences_are_counted() -> None:
    some = sentences(30, 31, 5, 60)
    assert count_cut(MATCHERS["mcnn"]().max_words, some) == {"cut_sentences": 2, "max_length": 30}
    assert count_cut(MATCHERS["sco"](max_length=50).max_words, some) == {
        "cut_sentences": 1,
        "max_length": 50,
    }
    assert count_cut(load_recipe("irmatch-s").matcher.max_words, some) == {}


def test_an_ensemble_reads_what_all_its_members_read() -> None:
    members = (MATCHERS["similarity-network"](), MATCHERS["mcnn"]())
    assert MATCHERS["ensemble"](members=("a", "b"), matchers=members).max_words == 30
    assert MATCHERS["ensemble"](members=("a", "b"), matchers=members[:1] * 2).max_words is None
