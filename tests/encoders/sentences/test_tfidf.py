import numpy as np
import pytest
from sklearn.feature_extraction.text import TfidfVectorizer

from seesay.encoders.sentences.word_vectors import Tfidf
from seesay.errors import SeesayError
from seesay.text.vocabulary import tokenize

TEXTS = ["A dog runs, a dog jumps.", "Two dogs and a man", "a man runs", "two men", "Once only"]


def test_rows_are_scikit_learns():
    ours = Tfidf.fit(TEXTS)
    words = {word: i for i, word in enumerate(ours.vocabulary.words)}
    theirs = TfidfVectorizer(tokenizer=tokenize, token_pattern=None, vocabulary=words).fit(TEXTS)
    np.testing.assert_allclose(ours.rows(TEXTS), theirs.transform(TEXTS).toarray(), atol=1e-6)


def test_words_that_occur_once_are_left_out():
    tfidf = Tfidf.fit(TEXTS)
    assert set(tfidf.vocabulary.words) == {"a", "dog", "runs", "two", "man"}
    assert not tfidf.rows(["once only", ""]).any()


def test_tensors_bring_it_back():
    tfidf = Tfidf.fit([*TEXTS, "Ein Mädchen und ein Mädchen"])
    again = Tfidf.from_tensors(tfidf.tensors())
    assert "mädchen" in again.vocabulary.words
    np.testing.assert_array_equal(again.rows(TEXTS), tfidf.rows(TEXTS))


def test_no_word_twice_is_said():
    with pytest.raises(SeesayError, match="occur twice"):
        Tfidf.fit(["one two", "three"])
