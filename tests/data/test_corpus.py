from pathlib import Path

import pytest

from seesay.data.corpus import Corpus, CorpusImage, Issues, Sentence
from seesay.errors import SeesayError


def corpus():
    images = (CorpusImage("a", "train"), CorpusImage("b", "test"), CorpusImage("c", "train"))
    sentences = (Sentence("c0", 2), Sentence("a0", 0), Sentence("b0", 1), Sentence("c1", 2))
    return Corpus("tiny", Path("/tiny"), images, sentences)


def test_a_split_renumbers_its_sentences():
    train = corpus().split("train")
    assert [image.name for image in train.images] == ["a", "c"]
    assert train.texts() == ["c0", "a0", "c1"]
    assert train.image_of_sentence().tolist() == [1, 0, 1]


def test_an_empty_split_names_those_there():
    with pytest.raises(SeesayError, match=r"no image in split 'val'; splits there: test, train\."):
        corpus().split("val")


def test_issues_keep_the_first_five_places():
    issues = Issues()
    for line in range(9):
        issues.add("empty sentence", f"x:{line}")
    assert issues.counts["empty sentence"] == 9
    assert issues.examples["empty sentence"] == [f"x:{line}" for line in range(5)]
