"""Words that a query may use, and those that mean nothing."""

import pytest

from seesay.text.vocabulary import Vocabulary
from seesay.text.words import is_word, unknown_words


@pytest.mark.parametrize("word", ["café", "crème", "zürich", "jalapeño", "malmö", "résumé", "a", "4x4"])
def test_words_with_accents_are_known_as_without(word: str) -> None:
    assert is_word(word)


@pytest.mark.parametrize("word", ["xyzzy", "qwöp", "é!", "狗", "🐶", "!"])
def test_what_is_no_english_word(word: str) -> None:
    assert not is_word(word)


def test_signs_without_words_are_unknown() -> None:
    vocabulary = Vocabulary(["dog"])
    assert unknown_words(["!!!", "🐶 a dog", "🐶", "狗", " "], vocabulary, english=True) == [
        "!!!",
        "🐶",
        "狗",
    ]


def test_a_vocabulary_knows_its_own_accents_first() -> None:
    vocabulary = Vocabulary(["cafe", "café", "creme"])
    assert vocabulary.encode("a café, a cafe, a Crème") == [0, 2, 0, 1, 0, 3]
    assert unknown_words(["brûlée crème"], vocabulary, english=False) == ["brûlée"]
