"""Graded relevance against scikit-learn's nDCG, and plain loops over ranked lists."""

from __future__ import annotations

import io
from itertools import permutations
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from rich.console import Console
from sklearn.metrics import ndcg_score

from seesay.data.corpus import Corpus, CorpusImage, Sentence
from seesay.errors import SeesayError
from seesay.protocols import graded
from seesay.protocols.graded import given_answers, measure_graded, ndcg, ndcg_by_chance, precision_at_r
from seesay.protocols.retrieval import evaluate_scores
from seesay.results.columns import figures
from seesay.results.rows import read_rows, record_row
from seesay.results.terminal import print_report
from seesay.runs.split_scores import EmbeddingScores, MatrixScores

WORDS = ["dog", "cat", "runs", "sits", "a", "the", "red", "on", "grass", "two"]


def drawn_corpus(seed=0, n=12):
    draw = np.random.default_rng(seed)
    owners = np.sort(np.concatenate([np.arange(n), draw.integers(0, n, 2 * n)]))
    sentences = tuple(Sentence(" ".join(draw.choice(WORDS, draw.integers(1, 8))), int(o)) for o in owners)
    return Corpus("drawn", Path("there"), tuple(CorpusImage(f"{i}.jpg", "test") for i in range(n)), sentences)


@st.composite
def scored(draw, most=200):
    q, c, top = draw(st.integers(1, 6)), draw(st.integers(1, 40)), draw(st.integers(1, 30))
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    many = draw(st.integers(1, most))
    return rng.integers(0, many, (q, c)).astype(np.float32), rng.integers(0, 5, (q, c)) / 4, top


@given(scored())
@settings(max_examples=60, deadline=None)
def test_ndcg_is_scikit_learns_where_no_scores_are_equal(case):
    scores, relevance, top = case
    scores = scores.argsort(axis=1).argsort(axis=1).astype(np.float32)  # one of a kind
    for row, found in enumerate(ndcg(scores, relevance, top)):
        if not relevance[row].any():
            assert np.isnan(found)
        elif scores.shape[1] > 1:  # of one candidate scikit-learn asks nothing
            expected = ndcg_score(2 ** relevance[[row]] - 1, scores[[row]], k=top)
            assert found == pytest.approx(expected)


@given(scored())
@settings(max_examples=60, deadline=None)
def test_ndcg_of_equal_scores_is_that_of_the_worst_order(case):
    scores, relevance, top = case
    for row, found in enumerate(ndcg(scores, relevance, top)):
        order = sorted(range(scores.shape[1]), key=lambda j, r=row: (-scores[r, j], relevance[r, j]))
        gained, ideal = (
            sum((2 ** relevance[row, j] - 1) / np.log2(rank + 2) for rank, j in enumerate(some[:top]))
            for some in (order, sorted(range(scores.shape[1]), key=lambda j, r=row: -relevance[r, j]))
        )
        assert found == pytest.approx(gained / ideal) if ideal else np.isnan(found)


def test_chance_is_the_mean_over_all_orders():
    relevance = np.array([[0, 0.25, 1, 0.5], [1, 0, 0, 0], [0, 0, 0, 0]])
    orders = np.array(list(permutations(range(4))), float)
    expected = [np.mean(ndcg(orders, np.broadcast_to(row, (24, 4)), 3)) for row in relevance]
    assert ndcg_by_chance(relevance, 3) == pytest.approx(expected, nan_ok=True)
    assert np.isnan(expected[2])


def ranked_loop(scores, right):
    """R-precision, mAP@R and R@1 as the papers define them, from a list in which wrong ones win ties."""
    order = sorted(range(len(scores)), key=lambda j: (-scores[j], j in right))
    r = len(right)
    precisions = [sum(j in right for j in order[: at + 1]) / (at + 1) for at in range(r)]
    average = sum(precisions[at] for at in range(r) if order[at] in right) / r
    return precisions[-1], average, float(order[0] in right)


@given(scored(), st.data())
@settings(max_examples=60, deadline=None)
def test_precisions_are_those_of_a_loop(case, data):
    scores, _, _ = case
    answers = [
        np.array(sorted(data.draw(st.sets(st.integers(0, scores.shape[1] - 1)))), np.int64) for _ in scores
    ]
    for row, found in enumerate(precision_at_r(scores, answers)):
        if len(answers[row]):
            assert found == pytest.approx(ranked_loop(scores[row].tolist(), set(answers[row].tolist())))
        else:
            assert np.isnan(found).all()


def test_map_at_r_by_hand():
    # Ranked: right, wrong, right, right; R = 3. mAP@R = (1 + 0 + 2/3) / 3.
    (found,) = precision_at_r([[9.0, 8.0, 7.0, 6.0, 1.0]], [np.array([0, 2, 3])])
    assert found == pytest.approx([2 / 3, 5 / 9, 1])


@pytest.mark.parametrize("queries", [1, 5, 1000])
def test_both_directions_whatever_the_block(queries, monkeypatch):
    monkeypatch.setattr(graded, "_QUERIES", queries)
    corpus = drawn_corpus()
    owners, draw = corpus.image_of_sentence(), np.random.default_rng(1)
    images, sentences = draw.normal(size=(12, 5)), draw.normal(size=(36, 5))
    scores = images @ sentences.T
    measured = measure_graded(EmbeddingScores(images, sentences), corpus, "test")
    standard = evaluate_scores(scores, owners)
    by_image, by_sentence = measured["by direction"].values()
    assert by_image["R@1"] == standard["sentence_retrieval"]["R@1"]
    assert {by_sentence[name] for name in ("R@1", "R-precision", "mAP@R")} == {
        standard["image_retrieval"]["R@1"]
    }
    loops = [ranked_loop(scores[i].tolist(), set(np.flatnonzero(owners == i).tolist())) for i in range(12)]
    expected = [round(100 * value, 3) for value in np.mean(loops, axis=0)]
    assert [by_image[name] for name in ("R-precision", "mAP@R", "R@1")] == pytest.approx(expected, abs=2e-3)
    relevance = graded.rouge_l(corpus.texts(), corpus.texts(), owners, 12)
    assert relevance[owners, np.arange(36)] == pytest.approx(1)  # its own words
    for found, x, y in ((by_image, relevance, scores), (by_sentence, relevance.T, scores.T)):
        assert found["nDCG@25"] == pytest.approx(100 * ndcg_score(2.0**x - 1, y, k=25), abs=2e-3)
    assert (by_image["queries"], by_sentence["queries"]) == (12, 36)


def test_the_report_and_the_row(tmp_path):
    draw = np.random.default_rng(1)
    measured = measure_graded(MatrixScores(draw.normal(size=(12, 36))), drawn_corpus(), "test")
    assert list(figures(measured)) == [
        f"{way} {name}" for way in "SI" for name in ("nDCG@25", "R-precision", "mAP@R", "R@1")
    ]
    console = Console(file=io.StringIO(), width=140)
    print_report(measured, "VSE++", "drawn", (), console)
    for row in measured["by direction"].values():
        told = [f"{value:.1f}" for name, value in row.items() if name != "queries"]
        assert any(all(each in line for each in told) for line in console.file.getvalue().splitlines())
    row = measured | {"recipe": "x", "seed": 1, "encoder": "e", "commit": None, "seconds": 1.0}
    assert read_rows(record_row(tmp_path, "drawn", row)) == [row]
    row["by direction"] = {"image retrieval": {"queries": 1}}
    with pytest.raises(SeesayError, match=r"nDCG@25"):
        record_row(tmp_path, "drawn", row)


def test_each_direction_has_the_scores_of_what_asks():
    corpus = drawn_corpus()
    draw = np.random.default_rng(1)
    one, other = draw.normal(size=(2, 12, 36))
    both = measure_graded(MatrixScores(one, other), corpus, "test")["by direction"]
    first, second = (measure_graded(MatrixScores(x), corpus, "test")["by direction"] for x in (one, other))
    assert both["sentence retrieval"] == first["sentence retrieval"]
    assert both["image retrieval"] == second["image retrieval"] != first["image retrieval"]


def test_a_constant_scorer_gains_nothing():
    found = measure_graded(MatrixScores(np.ones((12, 36))), drawn_corpus(), "test")["by direction"]
    for row in found.values():
        assert (row["R-precision"], row["mAP@R"], row["R@1"]) == (0, 0, 0)
    assert found["sentence retrieval"]["nDCG@25"] < 60


def test_given_answers():
    corpus = drawn_corpus()
    scores = np.random.default_rng(2).normal(size=(12, 36))
    at = [int(np.flatnonzero(corpus.image_of_sentence() == i)[0]) for i in range(12)]
    given = {"0.jpg": ["0.jpg#0", "3.jpg#0", "3.jpg#0", "none.jpg#0"], "gone.jpg": ["0.jpg#0"]}
    measured = measure_graded(MatrixScores(scores), corpus, "test", given)
    found = measured["by direction"]["sentence retrieval"]
    expected = ranked_loop(scores[0].tolist(), {at[0], at[3]})
    assert [found[name] for name in ("R-precision", "mAP@R", "R@1")] == pytest.approx(
        [100 * value for value in expected], abs=1e-3
    )
    assert (found["queries"], measured["left out"], measured["answers"]) == (1, 2, "given")
    nothing = measured["by direction"]["image retrieval"]
    assert (nothing["mAP@R"], nothing["queries"]) == (None, 0)
    assert nothing["nDCG@25"] > 0  # of all queries, whatever their answers
    (images, sentences), left_out = given_answers({"1.jpg#0": ["1.jpg", "2.jpg"]}, corpus)
    assert sentences[at[1]].tolist() == [1, 2]
    assert (sum(map(len, images)), left_out) == (0, 0)


def test_what_cannot_be_measured():
    corpus = drawn_corpus()
    with pytest.raises(SeesayError, match="2 names of the file"):
        measure_graded(MatrixScores(np.ones((12, 36))), corpus, "test", {"gone.jpg": ["gone.jpg#0"]})
    scores = np.ones((12, 36))
    scores[7, 30] = np.nan
    with pytest.raises(SeesayError, match="query 7 and candidate 30"):
        measure_graded(MatrixScores(scores), corpus, "test")


def test_an_image_without_sentences_is_a_candidate_alone():
    corpus = drawn_corpus()
    images = (*corpus.images, CorpusImage("silent.jpg", "test"))
    silent = Corpus("drawn", Path("there"), images, corpus.sentences)
    measured = measure_graded(MatrixScores(np.random.default_rng(0).normal(size=(13, 36))), silent, "test")
    assert measured["by direction"]["sentence retrieval"]["queries"] == 12


def test_it_says_how_sure_it_is():
    draw, corpus = np.random.default_rng(3), drawn_corpus()
    measured = measure_graded(MatrixScores(draw.normal(size=(12, 36))), corpus, "test", resamples=100)
    for way, row in measured["by direction"].items():
        told = measured["intervals"]["by direction"][way]
        assert all(told[name][0] <= row[name] <= told[name][1] for name in told)
        assert told["nDCG@25"][0] < told["nDCG@25"][1]
    console = Console(file=io.StringIO(), width=140)
    print_report(measured, None, "drawn", (), console)
    text = console.file.getvalue()
    assert text.count("95 %") == 3  # a row a direction, and the line below
    low, high = measured["intervals"]["by direction"]["image retrieval"]["nDCG@25"]
    assert f"{low:.1f}–{high:.1f}" in text
