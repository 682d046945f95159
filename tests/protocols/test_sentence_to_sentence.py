"""Sentence-to-sentence retrieval against a loop that follows its definition word by word."""

import json

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from seesay.errors import SeesayError
from seesay.metrics.bootstrap import rank_intervals
from seesay.metrics.ranks import NO_ANSWER
from seesay.protocols import sentence_to_sentence as module
from seesay.protocols.sentence_to_sentence import sentence_to_sentence, sentence_to_sentence_ranks


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


@given(sentences(), st.sampled_from([1, 30, 1 << 20]))
@settings(max_examples=200, deadline=None)
def test_ranks_are_those_of_the_definition_whatever_the_block(case, cells):
    vectors, owners = case
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "_CELLS", cells)
        assert sentence_to_sentence_ranks(vectors, owners).tolist() == naive_ranks(vectors, owners)


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
        (np.eye(3), [0, 1, 2], "no image has two sentences"),
        (np.eye(3), [0, 0], "one whole number for each of the 3 sentences"),
        (np.eye(3), [0, 0, -1], "sentence 2 belongs to image -1"),
        (np.eye(3), [0.0, 0.0, 1.0], "dtype float64"),
        (np.zeros((0, 3)), np.zeros(0, int), "nothing to rank"),
        (np.ones(3), [0, 0, 1], r"\(3,\); they must be real numbers \(m, d\)"),
        (np.array([["a"], ["b"]]), [0, 0], "real numbers"),
        (np.array([[1.0], [2.0], [np.nan]]), [0, 0, 1], "sentences 0 and 2 is NaN"),
        (np.array([[np.inf], [0.0]]), [0, 0], "sentences 0 and 1 is NaN"),
    ],
)
def test_what_cannot_be_ranked_is_refused(vectors, owners, message):
    with pytest.raises(SeesayError, match=message):
        sentence_to_sentence(vectors, owners)


def test_it_says_how_sure_it_is():
    rng = np.random.default_rng(0)
    owners = np.repeat(np.arange(60), 3)
    vectors = rng.standard_normal((60, 4))[owners] + rng.standard_normal((180, 4))
    told = sentence_to_sentence(vectors, owners, resamples=100)
    assert told["intervals"] == rank_intervals(sentence_to_sentence_ranks(vectors, owners), owners, 100)
    assert all(told["intervals"][k][0] < told[k] < told["intervals"][k][1] for k in ("R@1", "R@5", "R@10"))
