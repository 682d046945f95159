from pathlib import Path

import numpy as np
import pytest

from seesay.data.corpus import CorpusImage
from seesay.data.phrases import Phrase, PhraseCorpus
from seesay.errors import SeesayError


@pytest.fixture
def corpus():
    images = tuple(CorpusImage(name, split) for name, split in [("a", "train"), ("b", "test"), ("c", "test")])
    phrases = (
        Phrase("x", 2, ((0, 0, 1, 1), (3, 2, 4, 5))),
        Phrase("y", 0, ((0, 0, 1, 1),)),
        Phrase("z", 1, ((0, 0, 2, 1),)),
    )
    return PhraseCorpus("c", Path("c"), Path("i"), images, phrases, np.array([[1, 2], [3, 4], [5, 6]]))


def test_a_split_renumbers_its_phrases(corpus):
    test = corpus.split("test")
    assert [test.images[p.image].name + p.text for p in test.phrases] == ["cx", "bz"]
    assert test.sizes.tolist() == [[3, 4], [5, 6]]
    assert test.image_of_phrase().tolist() == [1, 0]
    assert test.texts() == ["x", "z"]


def test_an_empty_split_is_told(corpus):
    with pytest.raises(SeesayError, match="no image in split 'val'; splits there: test, train"):
        corpus.split("val")


def test_several_boxes_are_joined(corpus):
    assert corpus.phrases[0].box.tolist() == [0, 0, 4, 5]
    assert corpus.enclosing_boxes().tolist() == [[0, 0, 4, 5], [0, 0, 1, 1], [0, 0, 2, 1]]
