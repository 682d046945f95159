"""Similar sentences of an image, against a loop over pairs."""

from __future__ import annotations

from itertools import combinations
from pathlib import Path

import numpy as np

from seesay.data.corpus import Corpus, CorpusImage, Sentence
from seesay.encoders.sentences.base import SentenceEncoder
from seesay.text.vocabulary import similar_summary


class ByLength(SentenceEncoder):
    """A sentence's vector points to the angle that its length says."""

    dim, fingerprint = 2, "by-length"

    def encode(self, texts):  # type: ignore[no-untyped-def]
        angles = np.array([len(text) / 3 for text in texts], np.float32)
        return np.stack([np.cos(angles), np.sin(angles)], axis=1) * 3


def test_pairs_are_counted() -> None:
    generator = np.random.default_rng(0)
    lengths = [*generator.integers(1, 12, (7, 6)).tolist(), [3, 3, 3, 3], [5] * 5]
    images = tuple(CorpusImage(f"{i}.jpg", "train") for i in range(len(lengths)))
    sentences = tuple(Sentence("x" * n, i) for i, some in enumerate(lengths) for n in some)
    corpus = Corpus("drawn", Path("drawn"), images, sentences)
    expected = [
        sum(np.cos((a - b) / 3) >= 0.8 for a, b in combinations(some[:5], 2))
        for some in lengths
        if len(some) > 4
    ]
    found = similar_summary(corpus, ByLength().encode, 0.8)
    counts = np.bincount(expected, minlength=11)
    assert expected[-1] == 10
    assert found["by_pairs"] == (100 * counts / len(expected)).round(2).tolist()


def test_the_summary_is_of_shares() -> None:
    images = tuple(CorpusImage(f"{i}.jpg", "train") for i in range(4))
    sentences = tuple(Sentence("x" * n, i) for i in range(4) for n in ([2] * 5 if i else [1, 1, 1, 1, 6]))
    found = similar_summary(Corpus("drawn", Path("drawn"), images, sentences), ByLength().encode)
    assert found == {"images": 4, "threshold": 0.65, "by_pairs": [0, 0, 0, 0, 0, 0, 25, 0, 0, 0, 75]}


def test_no_image_with_five_sentences() -> None:
    images, sentences = (CorpusImage("a.jpg", "train"),), (Sentence("a dog", 0),)
    corpus = Corpus("drawn", Path("drawn"), images, sentences)
    assert similar_summary(corpus, ByLength().encode)["by_pairs"] == [0.0] * 11
