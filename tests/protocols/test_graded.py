"""Graded relevance in both directions against scikit-learn's nDCG and plain loops over ranked lists."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from sklearn.metrics import ndcg_score

from seesay.data.corpus import Corpus, CorpusImage, Sentence
from seesay.errors import SeesayError
from seesay.metrics import rouge_l
from seesay.protocols.base import Options
from seesay.protocols.evaluate import measure
from seesay.protocols.graded import named_answers
from seesay.protocols.subject import Subject
from seesay.runs.scores import EmbeddingScores, MatrixScores, SplitScores
from tests.metrics.test_precision_at_r import ranked_loop
from tests.protocols.drawn import flat, measured

WORDS = ["dog", "cat", "runs", "sits", "a", "the", "red", "on", "grass", "two"]


def drawn_corpus(seed=0, n=12):
    draw = np.random.default_rng(seed)
    owners = np.sort(np.concatenate([np.arange(n), draw.integers(0, n, 2 * n)]))
    sentences = tuple(Sentence(" ".join(draw.choice(WORDS, draw.integers(1, 8))), int(o)) for o in owners)
    return Corpus("drawn", Path("there"), tuple(CorpusImage(f"{i}.jpg", "test") for i in range(n)), sentences)


def graded(scores: SplitScores, corpus: Corpus, **options):
    return flat(measure(Subject("drawn", "test", corpus, scores), "graded", Options(**options)))


def directed(found, way):
    """The metrics of one direction."""
    return {
        name.removeprefix(f"{way} "): value for name, value in found.items() if name.startswith(f"{way} ")
    }


@pytest.mark.parametrize("n", [12, 130])  # 390 sentences are more than a block
def test_both_directions(n):
    corpus = drawn_corpus(n=n)
    owners, draw = corpus.image_of_sentence(), np.random.default_rng(1)
    images, sentences = draw.normal(size=(n, 5)), draw.normal(size=(3 * n, 5))
    scores = images @ sentences.T
    found = graded(EmbeddingScores(images, sentences), corpus)
    standard = measured(scores, owners)
    by_image, by_sentence = (directed(found, way) for way in "SI")
    assert by_image["R@1"] == standard["S R@1"]
    assert {by_sentence[name] for name in ("R@1", "R-precision", "mAP@R")} == {standard["I R@1"]}
    loops = [ranked_loop(scores[i].tolist(), set(np.flatnonzero(owners == i).tolist())) for i in range(n)]
    expected = [round(100 * value, 3) for value in np.mean(loops, axis=0)]
    assert [by_image[name] for name in ("R-precision", "mAP@R", "R@1")] == pytest.approx(expected, abs=2e-3)
    texts = [text.split() for text in corpus.texts()]
    relevance = rouge_l(texts, texts, owners, n)
    assert relevance[owners, np.arange(3 * n)] == pytest.approx(1)  # its own words
    for found, x, y in ((by_image, relevance, scores), (by_sentence, relevance.T, scores.T)):
        assert found["nDCG@25"] == pytest.approx(100 * ndcg_score(2.0**x - 1, y, k=25), abs=2e-3)
    assert (by_image["queries"], by_sentence["queries"]) == (n, 3 * n)


def test_each_direction_has_the_scores_of_its_queries():
    corpus = drawn_corpus()
    draw = np.random.default_rng(1)
    one, other = draw.normal(size=(2, 12, 36))
    both = graded(MatrixScores(one, other), corpus)
    first, second = (graded(MatrixScores(x), corpus) for x in (one, other))
    assert directed(both, "S") == directed(first, "S")
    assert directed(both, "I") == directed(second, "I") != directed(first, "I")


def test_a_constant_scorer_gains_nothing():
    found = graded(MatrixScores(np.ones((12, 36))), drawn_corpus())
    for way in "SI":
        assert [found[f"{way} {name}"] for name in ("R-precision", "mAP@R", "R@1")] == [0, 0, 0]
    assert found["S nDCG@25"] < 60


def test_external_answers():
    corpus = drawn_corpus()
    scores = np.random.default_rng(2).normal(size=(12, 36))
    at = [int(np.flatnonzero(corpus.image_of_sentence() == i)[0]) for i in range(12)]
    answers = {"0.jpg": ["0.jpg#0", "3.jpg#0", "3.jpg#0", "none.jpg#0"], "gone.jpg": ["0.jpg#0"]}
    result = graded(MatrixScores(scores), corpus, answers=answers)
    found = directed(result, "S")
    expected = ranked_loop(scores[0].tolist(), {at[0], at[3]})
    assert [found[name] for name in ("R-precision", "mAP@R", "R@1")] == pytest.approx(
        [100 * value for value in expected], abs=1e-3
    )
    assert (found["queries"], result["left out"], result["answers"]) == (1, 2, "external")
    nothing = directed(result, "I")
    assert (nothing["mAP@R"], nothing["queries"]) == (None, 0)
    assert nothing["nDCG@25"] > 0  # of all queries, whatever their answers
    (images, sentences), left_out = named_answers({"1.jpg#0": ["1.jpg", "2.jpg"]}, corpus)
    assert sentences[at[1]].tolist() == [1, 2]
    assert (sum(map(len, images)), left_out) == (0, 0)


def test_what_cannot_be_measured():
    corpus = drawn_corpus()
    with pytest.raises(SeesayError, match="2 names of the file"):
        graded(MatrixScores(np.ones((12, 36))), corpus, answers={"gone.jpg": ["gone.jpg#0"]})
    scores = np.ones((12, 36))
    scores[7, 30] = np.nan
    with pytest.raises(SeesayError, match=r"scores: NaN at \[7, 30\]"):
        graded(MatrixScores(scores), corpus)


def test_an_image_without_sentences_is_a_candidate_alone():
    corpus = drawn_corpus()
    images = (*corpus.images, CorpusImage("silent.jpg", "test"))
    silent = Corpus("drawn", Path("there"), images, corpus.sentences)
    found = graded(MatrixScores(np.random.default_rng(0).normal(size=(13, 36))), silent)
    assert found["S queries"] == 12


def test_the_columns_and_their_intervals():
    draw, corpus = np.random.default_rng(3), drawn_corpus()
    subject = Subject("drawn", "test", corpus, MatrixScores(draw.normal(size=(12, 36))))
    result = measure(subject, "graded", Options(resamples=100))
    names = ("nDCG@25", "nDCG@25 by chance", "R-precision", "mAP@R", "R@1")
    assert list(result.intervals) == [f"{way} {name}" for way in "SI" for name in names]
    assert [*result.metrics] == [*result.intervals, "S queries", "I queries"]
    for column, (low, high) in result.intervals.items():
        assert low <= result.metrics[column] <= high
    low, high = result.intervals["S nDCG@25"]
    assert low < high
    assert f"[{low:.1f}, {high:.1f}]" in str(result)
