from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from seesay.data.readers import read_corpus
from seesay.errors import SeesayError
from seesay.text.vocabulary import UNKNOWN, Vocabulary, tokenize, vocabulary_summary


def test_frequent_first_ties_by_alphabet_and_seldom_left_out() -> None:
    vocabulary = Vocabulary.from_texts(["b a c", "b a", "b d"], min_count=2)
    assert vocabulary.words == ("b", "a")
    assert vocabulary.encode("a zebra b") == [2, UNKNOWN, 1]
    assert len(vocabulary) == 3


def test_a_sentence_without_words_is_one_unknown_word() -> None:
    assert Vocabulary(["a"]).encode(" ?! ") == [UNKNOWN]


def test_saved_and_loaded_is_the_same(tmp_path: Path) -> None:
    vocabulary = Vocabulary(["schöne", "日本", "it's"])
    vocabulary.save(tmp_path / "v.json")
    assert Vocabulary.load(tmp_path / "v.json").words == vocabulary.words


@pytest.mark.parametrize("content", ["{", '{"a": 1}', "[1, 2]"])
def test_a_damaged_file_is_named(tmp_path: Path, content: str) -> None:
    path = tmp_path / "v.json"
    path.write_text(content)
    with pytest.raises(SeesayError, match=r"v\.json"):
        Vocabulary.load(path)


@given(st.text())
def test_tokens_are_lower_case_words(text: str) -> None:
    for word in tokenize(text):
        assert word
        assert not any(c.isspace() for c in word)
        assert tokenize(word) == [word] or word != word.lower()


def test_words_come_from_the_train_split_only(scenes: Path) -> None:
    corpus = read_corpus(scenes)
    summary = vocabulary_summary(corpus)
    assert summary["words"] == len(Vocabulary.from_texts(corpus.split("train").texts(), min_count=1).words)
