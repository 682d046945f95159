"""Image to image against loops: who shares a sentence, where the best one stands, how relevant all are."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.metrics import ndcg_score

from seesay.data.corpus import Corpus, CorpusImage, Sentence
from seesay.data.readers import read_corpus
from seesay.errors import SeesayError
from seesay.metrics import rouge_l
from seesay.protocols.base import Options
from seesay.protocols.evaluate import measure
from seesay.protocols.subject import Subject
from seesay.protocols.within_modality import image_relevance, images_alike
from seesay.runs.scores import EmbeddingScores, MatrixScores
from tests.protocols.drawn import flat

FLICKR8K = Path(__file__).parents[3] / "shared" / "flickr8k"
NOUNS = ["dog", "cat", "boy", "girl", "horse"]


def image_to_image(vectors, corpus, queries=None, resamples=0):
    scores = EmbeddingScores(np.asarray(vectors), np.zeros((1, 1)), queries, np.zeros((1, 1)))
    subject = Subject("drawn", "test", corpus, scores)
    return flat(measure(subject, "image-to-image", Options(resamples=resamples)))


def corpus_of(described):
    """A corpus from each image's sentences."""
    images = tuple(CorpusImage(f"{i}.jpg", "test") for i in range(len(described)))
    sentences = tuple(Sentence(text, i) for i, texts in enumerate(described) for text in texts)
    return Corpus("drawn", Path("there"), images, sentences)


def test_alike_is_of_the_same_content_words():
    corpus = corpus_of(
        [
            ["Two dogs run in the snow.", "A red car"],
            ["snow, through which two dogs are running"],
            ["Three dogs run in the snow."],
            ["Here they are.", "cars that are red"],
            ["There it is."],  # nothing said: alike to nothing
            [],
        ]
    )
    assert [some.tolist() for some in images_alike(corpus)] == [[1, 3], [0], [], [0], [], []]


@st.composite
def drawn(draw):
    described = draw(
        st.lists(
            st.lists(st.lists(st.sampled_from(NOUNS), min_size=1, max_size=2).map(" ".join), max_size=3),
            min_size=2,
            max_size=12,
        )
    )
    seed = draw(st.integers(0, 2**32 - 1))
    levels = draw(st.integers(1, 3))  # few levels: ties abound
    return corpus_of(described), np.random.default_rng(seed).integers(-levels, levels, (len(described), 3))


@given(drawn())
@settings(max_examples=60)
def test_ranks_are_those_of_the_definition(case):
    corpus, vectors = case
    alike = [set(some.tolist()) for some in images_alike(corpus)]
    ranks = []
    for i, mine in enumerate(alike):
        scores = [float(vectors[i] @ other) for other in vectors]
        if mine:
            best = max(scores[j] for j in mine)
            ranks.append(sum(scores[j] >= best for j in range(len(alike)) if j not in mine and j != i))
    if not ranks:
        with pytest.raises(SeesayError, match="no two images"):
            image_to_image(vectors, corpus)
        return
    measured = image_to_image(vectors, corpus)
    assert measured["queries"] == len(ranks)
    for k in (1, 5, 10):
        assert measured[f"R@{k}"] == pytest.approx(100 * np.mean(np.array(ranks) < k), abs=1e-3)
    assert measured["Med r"] == np.floor(np.median(ranks)) + 1


def test_relevance_is_the_mean_over_the_others_sentences():
    described = [["dog cat boy", "girl"], ["dog boy"], ["horse", "a dog", "cat boy girl"], []]
    corpus = corpus_of(described)
    relevance = image_relevance(corpus)
    for i, own in enumerate(described):
        for j, others in enumerate(described):
            one_image = np.zeros(len(own), np.int64)
            words = [text.split() for text in others], [text.split() for text in own]
            expected = rouge_l(*words, one_image, 1)[0].mean() if own and others else 0
            assert relevance[i, j] == pytest.approx(expected)


def test_ndcg_is_scikit_learns_without_the_query():
    draw = np.random.default_rng(0)
    corpus = corpus_of([[" ".join(draw.choice(NOUNS, 3)) for _ in range(3)] for _ in range(40)])
    vectors, as_queries = draw.normal(size=(2, 40, 4))
    relevance, others = image_relevance(corpus), ~np.eye(40, dtype=bool)
    for queries in (None, as_queries):
        rows = vectors if queries is None else queries
        gains = 2.0 ** relevance[others].reshape(40, 39) - 1
        expected = ndcg_score(gains, (rows @ vectors.T)[others].reshape(40, 39), k=25)
        assert image_to_image(vectors, corpus, queries)["nDCG@25"] == pytest.approx(100 * expected, abs=2e-3)


def test_what_cannot_be_measured():
    corpus = corpus_of([["a dog"], ["a dog"], ["a cat"]])
    with pytest.raises(SeesayError, match=r"image scores: NaN at \[0, 0\]"):
        image_to_image(np.full((3, 4), np.nan), corpus)
    with pytest.raises(SeesayError, match="compares embeddings"):
        measure(Subject("drawn", "test", corpus, MatrixScores(np.ones((3, 3)))), "image-to-image")
    assert image_to_image(np.ones((3, 4)), corpus)["R@1"] == 0  # equal vectors gain nothing


@pytest.mark.skipif(not FLICKR8K.is_dir(), reason="needs Flickr8k in ../shared/flickr8k")
def test_how_many_images_of_flickr8k_have_an_answer():
    alike = images_alike(read_corpus(FLICKR8K).split("test"))
    assert sum(bool(len(some)) for some in alike) == 61


def test_the_columns_and_their_intervals():
    draw = np.random.default_rng(0)
    corpus = corpus_of([[" ".join(draw.choice(NOUNS, 2)) for _ in range(2)] for _ in range(60)])
    vectors = draw.normal(size=(60, 4))
    subject = Subject("drawn", "test", corpus, EmbeddingScores(vectors, vectors))
    result = measure(subject, "image-to-image", Options(resamples=100))
    assert list(result.metrics) == ["R@1", "R@5", "R@10", "Med r", "nDCG@25", "nDCG@25 by chance"]
    for name in ("R@1", "R@10", "nDCG@25"):
        low, high = result.intervals[name]
        assert low <= result.metrics[name] <= high
        assert low < high
