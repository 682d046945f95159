"""Graded relevance: are the first answers good ones, whether or not they are the one right answer?

nDCG, where an image is as relevant to a sentence, and the sentence to the image, as ROUGE-L of the sentence
against the image's sentences says (Messina et al., "Transformer Reasoning Network", 2020: the first 25
answers, gains of 2^relevance - 1). An image's own sentences have relevance 1. And R-precision and mAP@R over
several right answers (Musgrave et al., "A Metric Learning Reality Check", 2020; for images and sentences
Chun et al., ECCV 2022): the image's own sentences, the sentence's own image, or what a file says.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from seesay.data.corpus import Corpus
from seesay.data.judgements import Names, sentence_number
from seesay.errors import SeesayError
from seesay.metrics.bootstrap import how_drawn, mean_intervals
from seesay.metrics.rouge import rouge_l
from seesay.results.columns import BY_DIRECTION
from seesay.runs.split_scores import Matrix, SplitScores

GRADED = "graded"
RELEVANCE = "ROUGE-L"
TOP = 25  # answers that nDCG looks at
NDCG = f"nDCG@{TOP}"
CHANCE = f"{NDCG} by chance"
AT_R = ("R-precision", "mAP@R", "R@1")
_COLUMNS = (NDCG, CHANCE, *AT_R)

_QUERIES = 256  # ranked at a time

# For each query its right answers; empty where it is no query.
Answers = Sequence[NDArray[np.int64]]


def measure_graded(
    scores: SplitScores,
    corpus: Corpus,
    split: str,
    given: Mapping[str, Sequence[str]] | None = None,
    resamples: int = 0,
) -> dict[str, Any]:
    """nDCG, R-precision and mAP@R in both directions.

    Args:
        scores: of the corpus's images and sentences.
        corpus: the split; its sentences say what is relevant.
        split: its name, for the record.
        given: right answers by name, as `read_answers` reads them; queries that are not in it have none,
            and names that the split does not have are left out. Without it an image's own sentences and a
            sentence's own image; then R-precision and mAP@R of sentence queries are their R@1.
        resamples: of the bootstrap intervals; without them there are none.

    Returns:
        protocol, split, images, sentences, `relevance`, `answers` (own or given), and `by direction`, for
        `sentence retrieval` and `image retrieval`: in percent nDCG@25, that of an order by chance,
        R-precision, mAP@R and R@1; and `queries`, how many have right answers, which the last three are of.
        Of given answers also `left out`, how many names. And `intervals`.

    Raises:
        SeesayError: a score is NaN, or no query has an answer.
    """
    texts, owners, n_images = corpus.texts(), corpus.image_of_sentence(), len(corpus.images)
    own = _groups(owners, n_images), [np.array([owner]) for owner in owners]
    answers, left_out = (own, 0) if given is None else given_answers(given, corpus)
    relevance = rouge_l(texts, texts, owners, n_images)
    by_images, by_sentences = scores.by_direction()
    columns = {
        "sentence retrieval": _of_queries(by_images, relevance, answers[0]),
        "image retrieval": _of_queries(by_sentences.T, relevance.T, answers[1]),
    }
    measured = {way: _means(found) for way, found in columns.items()}
    if not any(found["queries"] for found in measured.values()):
        raise SeesayError(
            f"protocol '{GRADED}': no query of split '{split}' of {corpus.root} has a right answer"
            + (f"; {left_out} names of the file are not in it." if given is not None else ".")
        )
    about = {"protocol": GRADED, "split": split, "images": n_images, "sentences": len(texts)}
    about |= {"relevance": RELEVANCE, "answers": "own" if given is None else "given"}
    if resamples:
        images = dict(zip(columns, (np.arange(n_images), owners), strict=True))
        told = {
            way: mean_intervals(_COLUMNS, found, images[way], resamples) for way, found in columns.items()
        }
        about["intervals"] = how_drawn(resamples) | {BY_DIRECTION: told}
    return about | {BY_DIRECTION: measured} | ({"left out": left_out} if given is not None else {})


def ndcg(scores: ArrayLike, relevance: ArrayLike, top: int = TOP) -> NDArray[np.float64]:
    """Normalised discounted cumulative gain of each query's first answers, (q,), 0 to 1.

    The answer at rank r, from 1, gains (2^relevance - 1) / log2(r + 1); the sum is divided by that of the
    best order. Among equal scores the least relevant comes first, so that equal scores gain nothing.

    Args:
        scores: (q, c), floats.
        relevance: (q, c), 0 to 1; a query to which nothing is relevant has NaN.
        top: how many answers count.
    """
    values, relevant = np.asarray(scores), np.asarray(relevance)
    top = min(top, values.shape[1])
    discounts = 1 / np.log2(np.arange(top) + 2)
    least = np.partition(values, -top, axis=1)[:, -top]
    gained = np.empty(len(values))
    for row, (mine, gains) in enumerate(zip(values, relevant, strict=True)):
        among = np.flatnonzero(mine >= least[row])
        first = among[np.lexsort((gains[among], -mine[among]))[:top]]
        gained[row] = (2.0 ** gains[first] - 1) @ discounts
    return _share(gained, relevant, discounts)


def ndcg_by_chance(relevance: ArrayLike, top: int = TOP) -> NDArray[np.float64]:
    """The mean of `ndcg` over all orders of the candidates, (q,): every rank gains the mean gain."""
    relevant = np.asarray(relevance)
    discounts = 1 / np.log2(np.arange(min(top, relevant.shape[1])) + 2)
    return _share((2.0**relevant - 1).mean(axis=1, dtype=np.float64) * discounts.sum(), relevant, discounts)


def _share(
    gained: NDArray[np.float64], relevance: NDArray[Any], discounts: NDArray[np.float64]
) -> NDArray[np.float64]:
    """Of what the best order gains; NaN where that is nothing."""
    top = len(discounts)
    best = np.sort(np.partition(relevance, -top, axis=1)[:, -top:], axis=1)[:, ::-1]
    ideal = (2.0 ** best.astype(np.float64) - 1) @ discounts
    found: NDArray[np.float64] = np.divide(gained, ideal, out=np.full(len(gained), np.nan), where=ideal > 0)
    return found


def precision_at_r(scores: ArrayLike, answers: Answers) -> NDArray[np.float64]:
    """R-precision, mAP@R and R@1 of each query, (q, 3), where R is how many right answers it has.

    R-precision is the share of right ones among the first R; mAP@R the mean over these R ranks of the
    precision up to a rank where a right one stands there, else 0. A wrong answer that scores as high as a
    right one stands before it. NaN for a query without right answers.

    Args:
        scores: (q, c), floats.
        answers: for each query the right candidates, each once.
    """
    values = np.asarray(scores)
    measures = np.full((len(values), 3), np.nan)
    for row, right in enumerate(answers):
        if not len(right):
            continue
        mine = np.sort(values[row, right])[::-1]
        upto = np.arange(1, len(right) + 1)
        # Where the right one number t stands: behind all that score as high but the right ones behind it.
        as_high = (values[row] >= mine[:, None]).sum(axis=1)
        right_as_high = (mine >= mine[:, None]).sum(axis=1)
        ranks = as_high - right_as_high + upto
        hits = ranks <= len(right)
        measures[row] = hits.mean(), (hits * upto / ranks).mean(), ranks[0] == 1
    return measures


def refuse_nan(scores: NDArray[Any], start: int, protocol: str) -> None:
    """See that scores (q, c), the first query of which is number `start`, are numbers.

    Raises:
        SeesayError: one is NaN; says which.
    """
    if np.isnan(scores).any():
        row, column = np.argwhere(np.isnan(scores))[0]
        raise SeesayError(
            f"protocol '{protocol}': query {start + row} and candidate {column} score NaN; ranks of that "
            "would mean nothing. Check the matcher's weights."
        )


def given_answers(given: Mapping[str, Sequence[str]], corpus: Corpus) -> tuple[tuple[Answers, Answers], int]:
    """The right answers of images and of sentences by position, and how many names are unknown."""
    names = Names(corpus)
    of_images: list[NDArray[np.int64]] = [np.zeros(0, np.int64)] * len(corpus.images)
    of_sentences: list[NDArray[np.int64]] = [np.zeros(0, np.int64)] * len(corpus.sentences)
    left_out = 0
    for query, answers in given.items():
        is_image = sentence_number(query) is None
        at = names.image(query) if is_image else names.sentence(query)
        found = {names.sentence(name) if is_image else names.image(name) for name in set(answers)}
        positions = np.array(sorted(one for one in found if one is not None), np.int64)
        left_out += (at is None) + len(set(answers)) - len(positions)
        if at is not None:
            (of_images if is_image else of_sentences)[at] = positions
    return (of_images, of_sentences), left_out


def _groups(owners: NDArray[np.int64], n_images: int) -> list[NDArray[np.int64]]:
    """The sentences of each image."""
    order = np.argsort(owners, kind="stable")
    return np.split(order, np.searchsorted(owners[order], np.arange(1, n_images)))


def _of_queries(scores: Matrix, relevance: NDArray[np.float32], answers: Answers) -> NDArray[np.float64]:
    """The measures of each query of one direction, (q, 5) in percent, from (q, c); NaN where it has none."""
    blocks = []
    for start in range(0, len(scores), _QUERIES):
        some = slice(start, start + _QUERIES)
        block = np.asarray(scores[some], np.result_type(scores, np.float32))
        refuse_nan(block, start, GRADED)
        gains = ndcg(block, relevance[some]), ndcg_by_chance(relevance[some])
        blocks.append(np.column_stack([*gains, precision_at_r(block, answers[some])]))
    return 100 * np.concatenate(blocks)


def _means(found: NDArray[np.float64]) -> dict[str, Any]:
    """Over the queries (q, 5) that have a value; None where none has."""
    there = [column[~np.isnan(column)] for column in found.T]
    means = [round(float(column.mean()), 3) if len(column) else None for column in there]
    return dict(zip(_COLUMNS, means, strict=True)) | {"queries": len(there[2])}
