"""Words that are known, those that mean nothing, and what misspelt ones are taken for."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from seesay.text.spelling import corrections, is_word, unknown_words
from seesay.text.tokens import tokenize
from seesay.text.vocabulary import Vocabulary
from tests.linear import check_linear


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


VOCABULARY = Vocabulary(["dog", "bandanna", "hat", "hut", "rigger", "skateboarding"])


def meant(word: str, vocabulary: Vocabulary = VOCABULARY, english: bool = True) -> str | None:
    return corrections([word], vocabulary, english).get(word)


@pytest.mark.parametrize(
    ("typed", "word"),
    [
        ("giraff", "giraffe"),
        ("bicylce", "bicycle"),
        ("ttoaster", "toaster"),
        ("brocfoli", "broccoli"),
        ("skateboqrding", "skateboarding"),
        ("rrefrigerator", "refrigerator"),
    ],
)
def test_one_slip_is_corrected(typed: str, word: str) -> None:
    assert meant(typed) == word


@pytest.mark.parametrize("word", ["dog", "dachshund", "london", "it's", "4x4", "a", "asda", "hundt"])
def test_known_words_are_left(word: str) -> None:
    assert meant(word) is None


def test_words_of_the_same_letters_come_first() -> None:
    assert meant("bananna") == "banana"


def test_then_words_of_the_vocabulary_and_of_these_the_more_frequent() -> None:
    assert (meant("zebru"), meant("riggzr")) == ("zebra", "rigger")
    first, second = Vocabulary(["zebre", "zebro"]), Vocabulary(["zebro", "zebre"])
    assert (meant("zebru", first), meant("zebru", second)) == ("zebre", "zebro")


def test_short_words_are_taken_for_words_of_the_same_letters_only() -> None:
    vocabulary = Vocabulary(["knot", "bird"])
    assert (meant("xnot", vocabulary), meant("bixd", vocabulary)) == (None, None)
    assert meant("knto", vocabulary) == "knot"


def test_without_english_only_words_of_the_vocabulary_are_meant() -> None:
    assert meant("giraff", english=False) is None
    assert meant("bandana", english=False) is None  # an English word, though none of the vocabulary
    assert meant("bandannna", english=False) == "bandanna"


def test_forms_of_words_are_known_to_a_vocabulary_of_base_forms() -> None:
    assert meant("trombonnes", Vocabulary(["trombone"], lemmas=True), english=False) == "trombones"


def test_words_in_other_scripts_are_left() -> None:
    assert corrections(["велосипед", "自転車自転車"], VOCABULARY, english=True) == {}


@given(st.text("kedisi\u0307x\u030c'’", max_size=12))
def test_letters_with_accents_of_their_own_and_apostrophes_are_read(text: str) -> None:
    for word in tokenize(text):
        corrections([word], VOCABULARY, english=True)


def test_what_may_be_another_language_is_left() -> None:
    slips = ["giraff", "bicylce", "skatebord", "scisors", "kichen", "unbrella"]
    assert len(corrections(slips[1:], VOCABULARY, english=True)) == 5
    assert corrections(slips, VOCABULARY, english=True) == {}


def test_the_time_is_linear_in_the_query() -> None:
    check_linear(lambda word: corrections([word], VOCABULARY, english=True), lambda size: "q" * size, 1_600)


def test_words_of_more_than_thirty_letters_are_left() -> None:
    word = "pneumonoultramicroscopicsilicov"
    assert meant(word[2:] * 2, Vocabulary([word])) is None
    assert meant(word[:-2], Vocabulary([word[:-1]])) == word[:-1]
    assert meant("p" + word[:-1], Vocabulary([word[:-1]])) is None


@pytest.mark.parametrize("typed", ["?!?!?", "-----", "👍👍👍👍👍"])
def test_signs_are_no_misspelt_words(typed: str) -> None:
    assert corrections([typed], Vocabulary(["a", "dog"]), english=True) == {}
