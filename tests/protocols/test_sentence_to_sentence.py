"""Sentence-to-sentence retrieval against a loop that follows its definition word by word."""

import json

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from seesay.errors import SeesayError
from seesay.metrics import NO_ANSWER
from seesay.protocols.standard import sentence_ranks
from tests.protocols.drawn import measured


def sentence_to_sentence(vectors, owners, resamples=0):
    images = np.zeros((max(owners) + 1, vectors.shape[1]))
    return measured((images, vectors), owners, "sentence-to-sentence", resamples)


def naive_ranks(vectors, owners):
    result = []
    for i, query in enumerate(vectors):
        scores = [sum(float(a) * float(b) for a, b in zip(query, other, strict=True)) for other in vectors]
        own = [scores[j] for j, owner in enumerate(owners) if owner == owners[i] and j != i]
        foreign = [scores[j] for j, owner in enumerate(owners) if owner != owners[i]]
        result.append(sum(score >= max(own) for score in foreign) if own else NO_ANSWER)
    return result


@st.composite
def sentences(draw):
    owners = draw(st.lists(st.integers(0, 6), min_size=1, max_size=25))
    seed, levels = draw(st.integers(0, 2**32 - 1)), draw(st.integers(1, 3))  # few levels: ties abound
    dtype = draw(st.sampled_from([np.float16, np.float32, np.float64, np.int8]))
    return np.random.default_rng(seed).integers(-levels, levels, (len(owners), 3)).astype(dtype), owners


@given(sentences())
@settings(max_examples=150)
def test_ranks_are_those_of_the_definition(case):
    vectors, owners = case
    assert sentence_ranks(vectors, owners).tolist() == naive_ranks(vectors, owners)


def test_more_sentences_than_a_block_rank_the_same():
    rng = np.random.default_rng(1)
    vectors, owners = rng.integers(-2, 3, (5000, 3)).astype(np.float32), np.arange(5000) % 1700
    found, scores = sentence_ranks(vectors, owners), vectors @ vectors.T
    for query in (0, 838, 839, 4999):
        own = np.flatnonzero((owners == owners[query]) & (np.arange(5000) != query))
        foreign = scores[query][owners != owners[query]]
        assert found[query] == (foreign >= scores[query][own].max()).sum()


def test_the_measures_are_those_of_the_ranks():
    rng = np.random.default_rng(0)
    owners = np.repeat(np.arange(60), rng.integers(1, 8, 60))
    vectors = rng.standard_normal((60, 4))[owners] + rng.standard_normal((len(owners), 4))
    ranks = np.array([rank for rank in naive_ranks(vectors, owners) if rank != NO_ANSWER])
    result = sentence_to_sentence(vectors, owners)
    assert result["sentences"] == len(owners)
    assert result["queries"] == len(ranks) < len(owners)
    for k in (1, 5, 10):
        assert result[f"R@{k}"] == pytest.approx(100 * np.mean(ranks < k), abs=0.001)
    assert result["Med r"] == np.floor(np.median(ranks)) + 1
    assert 0 < result["R@1"] < result["R@10"] < 100
    assert json.loads(json.dumps(result)) == result


def test_equal_vectors_gain_nothing_and_the_query_is_no_answer_to_itself():
    assert sentence_to_sentence(np.ones((40, 2)), np.arange(40) // 2)["R@10"] == 0
    # Each sentence is nearest to itself, and to the foreign one that stands before its own.
    vectors = np.eye(4)[[0, 1, 0, 1]] + 0.1
    assert sentence_to_sentence(vectors, [0, 0, 1, 1])["R@1"] == 0


@pytest.mark.parametrize(
    ("vectors", "owners", "message"),
    [
        (np.eye(3), [0, 0], r"image_of_sentence: shape \(2,\), dtype int64; it must be \(3,\)"),
        (np.eye(3), [0, 0, -1], "sentence 2 belongs to image -1"),
        (np.eye(3), [0.0, 0.0, 1.0], "dtype float64"),
        (np.zeros((0, 3)), np.zeros(0, int), "nothing to rank"),
        (np.ones(3), [0, 0, 1], r"vectors: shape \(3,\); it must be \(m, d\)"),
        (np.array([["a"], ["b"]]), [0, 0], "real numbers"),
        (np.array([[1.0], [2.0], [np.nan]]), [0, 0, 1], r"sentence scores: NaN at \[0, 2\]"),
        (np.array([[np.inf], [0.0]]), [0, 0], r"sentence scores: NaN at \[0, 1\]"),
    ],
)
def test_what_cannot_be_ranked_is_refused(vectors, owners, message):
    with pytest.raises(SeesayError, match=message):
        sentence_ranks(vectors, owners)


def test_an_image_must_have_two_sentences_and_scores_be_of_embeddings():
    with pytest.raises(SeesayError, match="no image has two sentences"):
        sentence_to_sentence(np.eye(3), [0, 1, 2])
    with pytest.raises(SeesayError, match="drawn: the protocol compares embeddings"):
        measured(np.eye(3), [0, 1, 2], "sentence-to-sentence")


def test_the_intervals_hold_the_figures():
    rng = np.random.default_rng(0)
    owners = np.repeat(np.arange(60), 3)
    vectors = rng.standard_normal((60, 4))[owners] + rng.standard_normal((180, 4))
    found = sentence_to_sentence(vectors, owners, resamples=100)
    for name in ("R@1", "R@5", "R@10"):
        low, high = found["intervals"][name]
        assert low < found[name] < high
