"""Re-ranked ranks against a plain loop over sorted lists, and of a real pair matcher."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from seesay.data.corpus import Corpus
from seesay.data.readers import read_corpus
from seesay.errors import SeesayError
from seesay.metrics.ranks import NO_ANSWER, Ranks, ranks
from seesay.protocols.evaluate import evaluate
from seesay.protocols.rerank import reranked_ranks
from seesay.results.rows import provenance_of
from seesay.runs.inputs import split_inputs
from seesay.runs.run import Run
from tests.protocols.drawn import flat


def pairs_of(matrix: np.ndarray):
    return lambda images, sentences: matrix[images, sentences]


def same(one: Ranks, other: Ranks) -> bool:
    return np.array_equal(one.sentence, other.sentence) and np.array_equal(one.image, other.image)


def plain_rank(first: np.ndarray, second: np.ndarray, right: np.ndarray, shortlist: int) -> int:
    """One query by sorting twice: best first, right ones last among equals; its other right ones left out."""
    if not right.any():
        return NO_ANSWER
    by_first = sorted(range(len(first)), key=lambda c: (-first[c], right[c]))
    listed = by_first[:shortlist]
    order = sorted(listed, key=lambda c: (-second[c], right[c])) + by_first[shortlist:]
    return next(place for place, c in enumerate(order) if right[c])


@st.composite
def cases(draw):
    """Scores of few values, so that ties are everywhere, and sentences of any image."""
    n, m = draw(st.integers(1, 6)), draw(st.integers(1, 9))
    values = st.sampled_from(np.array([-1.5, -0.1, 0, 0.1, 0.3, 2], np.float32))
    first, second = (draw(arrays(np.float32, (n, m), elements=values)) for _ in range(2))
    owners = draw(arrays(np.int64, m, elements=st.integers(0, n - 1)))
    return first, second, owners, draw(st.integers(1, 10))


@given(cases())
@settings(max_examples=100)
def test_it_is_what_sorting_twice_gives(case) -> None:
    """Which of equal candidates enters the shortlist is open; the right ones never gain by it."""
    first, second, owners, shortlist = case
    # Equal first scores among wrong candidates may be cut anywhere, so those are made different here.
    first = first + np.linspace(0, 0.01, first.size, dtype=np.float32).reshape(first.shape)
    found = reranked_ranks(first, owners, pairs_of(second), shortlist)
    n, m = first.shape
    for i in range(n):
        assert found.sentence[i] == plain_rank(first[i], second[i], owners == i, shortlist)
    for j in range(m):
        assert found.image[j] == plain_rank(first[:, j], second[:, j], np.arange(n) == owners[j], shortlist)


@given(cases())
@settings(max_examples=100)
def test_a_shortlist_of_all_is_the_other_score_and_of_one_changes_nothing(case) -> None:
    first, second, owners, _ = case
    assert same(reranked_ranks(first, owners, pairs_of(second), max(first.shape)), ranks(second, owners))
    assert same(reranked_ranks(first, owners, pairs_of(second), 1), ranks(first, owners))
    assert same(reranked_ranks(first, owners, pairs_of(first), 3), ranks(first, owners))


@pytest.mark.parametrize("shortlist", [1, 5, 19])
def test_constant_scores_gain_nothing(shortlist: int) -> None:
    owners = np.repeat(np.arange(20), 2)
    informed = np.eye(20)[:, owners].astype(np.float32)
    constant = np.zeros((20, 40), np.float32)
    # A shortlist drawn from equal candidates holds the right one last.
    found = reranked_ranks(constant, owners, pairs_of(informed), shortlist)
    assert same(found, ranks(constant, owners))
    worse = reranked_ranks(informed, owners, pairs_of(constant), shortlist)
    assert (worse.image == shortlist - 1).all()


def test_only_shortlisted_pairs_are_scored() -> None:
    generator = np.random.default_rng(0)
    first = generator.standard_normal((30, 60)).astype(np.float32)
    scored = []

    def score(images, sentences):
        scored.append(np.stack([images, sentences]))
        return generator.standard_normal(len(images)).astype(np.float32)

    reranked_ranks(first, np.repeat(np.arange(30), 2), score, 7)
    by_image, by_sentence = scored
    assert by_image.shape == (2, 30 * 7)
    assert by_sentence.shape == (2, 60 * 7)
    for image in range(30):
        listed = by_image[1][by_image[0] == image]
        assert set(listed) == set(np.argsort(-first[image])[:7])


def test_a_score_that_is_nan_is_refused() -> None:
    with pytest.raises(SeesayError, match="NaN"):
        reranked_ranks(np.eye(2), [0, 1], lambda i, j: np.full(len(i), np.nan, np.float32), 2)


def reranked(run: Run, other: Run, corpus: Corpus, split: str, shortlist: int, **said) -> dict[str, Any]:
    return flat(evaluate(run, corpus, split=split, rerank=other, shortlist=shortlist, resamples=0, **said))


@pytest.fixture(scope="module")
def runs(pair_run: Path) -> tuple[Run, Run]:
    return Run.load("seesay-small"), Run.load(str(pair_run))


@pytest.mark.parametrize("shortlist", [1, 10, 1000])
def test_runs_are_measured_as_by_their_score_matrices(
    runs: tuple[Run, Run], scenes: Path, shortlist: int
) -> None:
    corpus = read_corpus(scenes)
    matrices = []
    for run in runs:
        inputs = split_inputs(run.recipe, corpus, "train", run.vocabulary, run.sentence_encoder)
        matrices.append(run.score_prepared(np.asarray(inputs.features), inputs.sentences))
    owners = inputs.image_of_sentence
    expected = reranked_ranks(matrices[0], owners, pairs_of(matrices[1]), shortlist)
    found = reranked(*runs, corpus, "train", shortlist)
    assert found["I R@1"] == pytest.approx(100 * (expected.image < 1).mean(), abs=1e-3)
    assert found["S R@5"] == pytest.approx(100 * (expected.sentence < 5).mean(), abs=1e-3)
    assert found["gain"] == pytest.approx(found["mR"] - found["seesay-small alone: mR"], abs=2e-3)
    n, m = matrices[0].shape
    assert found["pairs"] == n * min(shortlist, m) + m * min(shortlist, n)
    assert found["re-ranking ms"] > 0
    assert found["shortlist"] == shortlist


def test_the_provenance_names_both_runs(runs: tuple[Run, Run]) -> None:
    origin = provenance_of(runs[:1], None, runs[1], 1.0, None)
    assert origin.recipe == origin.system == "seesay-small > mcnn-wd"
    three = "+".join(f"efficientnet-lite{number}-int8" for number in range(3))
    assert origin.encoder == f"{three} > efficientnet-lite0"
    assert origin.train_seconds is origin.machine is None  # of two trainings


def test_an_embedding_re_ranks_too_and_a_pair_matcher_has_no_shortlist(
    runs: tuple[Run, Run], scenes: Path
) -> None:
    small, pair = runs
    corpus = read_corpus(scenes)
    itself = reranked(small, small, corpus, "val", 4, against=small)
    assert itself["gain"] == 0
    assert itself["against"]["metrics"]["mR"] == {
        "theirs": itself["mR"],
        "difference": 0.0,
        "interval": [0.0, 0.0],
        "p": 1.0,
    }
    with pytest.raises(SeesayError, match="pair matcher has no"):
        reranked(pair, small, corpus, "val", 4)
    with pytest.raises(SeesayError, match="re-ranking is measured by retrieval"):
        reranked(small, pair, corpus, "val", 4, protocol="sentence-to-sentence")
    with pytest.raises(SeesayError, match="one run to re-rank the results of one other"):
        evaluate([small, small], corpus, combine="mean", rerank=pair)
