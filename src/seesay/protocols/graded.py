"""Graded relevance and several right answers.

nDCG: the relevance of an image and a sentence is ROUGE-L of the sentence against the image's sentences
(Messina et al., "Transformer Reasoning Network", 2020: the first 25 answers, gains of 2^relevance - 1). An
image's own sentences have relevance 1. R-precision and mAP@R (Musgrave et al., "A Metric Learning Reality
Check", 2020; for images and sentences Chun et al., ECCV 2022): right answers are the image's own sentences,
the sentence's own image, or those of a file.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray
from pydantic import JsonValue

from seesay.data.corpus import Corpus
from seesay.data.judgements import Names, sentence_number
from seesay.errors import SeesayError
from seesay.metrics.bootstrap import MeanSample
from seesay.metrics.inputs import refuse_nan
from seesay.metrics.ndcg import TOP, ndcg, ndcg_by_chance
from seesay.metrics.precision import precision_at_r
from seesay.metrics.rouge import rouge_l
from seesay.protocols.base import Options, Protocol, Result, register_protocol
from seesay.protocols.subject import Subject
from seesay.runs.scores import Matrix
from seesay.runs.sentences import rows_of_each
from seesay.text.vocabulary import tokenize

RELEVANCE = "ROUGE-L"
NDCG = f"nDCG@{TOP}"
CHANCE = f"{NDCG} by chance"

_METRICS = (NDCG, CHANCE, "R-precision", "mAP@R", "R@1")
_QUERIES = 256  # ranked at a time

# The right answers of each query; empty if it is not a query.
Answers = Sequence[NDArray[np.int64]]


@register_protocol
class Graded(Protocol):
    """nDCG, R-precision and mAP@R in both directions."""

    name = "graded"
    summary = "graded relevance and several right answers: nDCG, R-precision and mAP@R"
    monitor = f"S {NDCG}"
    identity = ("answers",)
    options = ("answers",)

    def measure(self, subject: Subject, options: Options) -> Result:
        """Measure both directions.

        Without `options.answers`, the right answers are an image's own sentences and a sentence's own image;
        R-precision and mAP@R of sentence queries then equal their R@1. With it, queries that are not named
        have no right answers.
        """
        corpus, owners, n = subject.corpus, subject.owners, subject.n_images
        own = rows_of_each(owners, n), [np.array([owner]) for owner in owners]
        given = options.answers
        answers, left_out = (own, 0) if given is None else named_answers(given, corpus)
        texts = [tokenize(text) for text in corpus.texts()]
        relevance = rouge_l(texts, texts, owners, n)
        by_images, by_sentences = subject.scores.by_direction()
        found = (
            _of_queries(by_images, relevance, answers[0]),
            _of_queries(by_sentences.T, relevance.T, answers[1]),
        )
        queries = [int((~np.isnan(each[:, 2])).sum()) for each in found]
        if not any(queries):
            raise SeesayError(
                f"protocol '{self.name}': no query of split '{subject.split}' of {corpus.root} has a right "
                "answer" + ("." if given is None else f"; {left_out} names of the file are not in it.")
            )
        samples = []
        for way, values, images in zip("SI", found, (np.arange(n), owners), strict=True):
            samples.append(("", [MeanSample([f"{way} {name}" for name in _METRICS], values, images)]))
        counts = {f"{way} queries": count for way, count in zip("SI", queries, strict=True)}
        about: dict[str, JsonValue] = {"images": n, "sentences": len(texts), "relevance": RELEVANCE}
        if given is None:
            right = "the image's own sentences, the sentence's own image"
            about["answers"] = "own"
        else:
            right = f"those of the file, {left_out} names of which are not in the split"
            about |= {"left out": left_out, "answers": "external"}
        notes = [
            f"nDCG: relevance is {RELEVANCE}.",
            f"R-precision, mAP@R, R@1: right answers are {right}; they are of the queries that have some.",
        ]
        return self.result(subject, options, samples, about, counts, notes)


def named_answers(named: Mapping[str, Sequence[str]], corpus: Corpus) -> tuple[tuple[Answers, Answers], int]:
    """Return the right answers of images and of sentences by position, and the number of unknown names."""
    names = Names(corpus)
    of_images: list[NDArray[np.int64]] = [np.zeros(0, np.int64)] * len(corpus.images)
    of_sentences: list[NDArray[np.int64]] = [np.zeros(0, np.int64)] * len(corpus.sentences)
    left_out = 0
    for query, right in named.items():
        is_image = sentence_number(query) is None
        at = names.image(query) if is_image else names.sentence(query)
        found = {names.sentence(name) if is_image else names.image(name) for name in set(right)}
        positions = np.array(sorted(one for one in found if one is not None), np.int64)
        left_out += (at is None) + len(set(right)) - len(positions)
        if at is not None:
            (of_images if is_image else of_sentences)[at] = positions
    return (of_images, of_sentences), left_out


def _of_queries(scores: Matrix, relevance: NDArray[np.float32], answers: Answers) -> NDArray[np.float64]:
    """Return the `_METRICS` of the queries of one direction, (q, 5) in percent, from scores (q, c).

    R-precision, mAP@R and R@1 are NaN for a query without answers.
    """
    blocks = []
    for start in range(0, len(scores), _QUERIES):
        some = slice(start, start + _QUERIES)
        block = np.asarray(scores[some], np.result_type(scores, np.float32))
        refuse_nan(block, "scores", start)
        gains = ndcg(block, relevance[some]), ndcg_by_chance(relevance[some])
        blocks.append(np.column_stack([*gains, precision_at_r(block, answers[some])]))
    return 100 * np.concatenate(blocks)
