from pathlib import Path

import pytest

from seesay.data.corpus import Corpus, CorpusImage, Issues, Sentence
from seesay.errors import SeesayError

IMAGES = (CorpusImage("a", "train"), CorpusImage("b", "test"), CorpusImage("c", "train"))
CORPUS = Corpus(
    "tiny",
    Path("/tiny"),
    IMAGES,
    (Sentence("c0", 2), Sentence("a0", 0), Sentence("b0", 1), Sentence("c1", 2)),
)
PHRASES = Corpus(
    "tiny",
    Path("/tiny"),
    IMAGES,
    (
        Sentence("x", 2, ((0, 0, 1, 1), (3, 2, 4, 5))),
        Sentence("y", 1, ((0, 0, 1, 1),)),
        Sentence("z", 0, ((0, 0, 2, 1),)),
    ),
)


def test_a_split_renumbers_its_sentences():
    train = CORPUS.split("train")
    assert [image.name for image in train.images] == ["a", "c"]
    assert train.texts() == ["c0", "a0", "c1"]
    assert train.image_of_sentence().tolist() == [1, 0, 1]


def test_a_split_renumbers_its_phrases():
    train = PHRASES.split("train")
    assert train.texts() == ["x", "z"]
    assert train.image_of_sentence().tolist() == [1, 0]
    assert train.sentences[0].boxes == ((0, 0, 1, 1), (3, 2, 4, 5))
    assert (CORPUS.has_boxes, train.has_boxes) == (False, True)


@pytest.mark.parametrize("corpus", [CORPUS, PHRASES], ids=["sentences", "phrases"])
def test_an_empty_split_names_those_there(corpus):
    with pytest.raises(SeesayError, match=r"no image in split 'val'; splits there: test, train\."):
        corpus.split("val")


def test_several_boxes_are_joined():
    assert PHRASES.sentences[0].box.tolist() == [0, 0, 4, 5]
    assert PHRASES.enclosing_boxes().tolist() == [[0, 0, 4, 5], [0, 0, 1, 1], [0, 0, 2, 1]]


def test_issues_keep_the_first_five_places():
    issues = Issues()
    for line in range(9):
        issues.add("empty sentence", f"x:{line}")
    assert issues.counts["empty sentence"] == 9
    assert issues.examples["empty sentence"] == [f"x:{line}" for line in range(5)]
