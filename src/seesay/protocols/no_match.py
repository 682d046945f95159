"""Whether a run can tell a query that nothing in the gallery fits from one that is answered there.

Each distinct sentence is a query twice. First to all images: its own are its right answers. Then to those
images alone that no sentence shares a noun with, where nothing fits it (nouns as lemmas; English). Whether
other images that share a noun fit is not annotated: they are in the first gallery, and count neither as right
nor as wrong.

The two kinds of queries are told apart by the best answer's probability (`seesay.runs.calibration`).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from seesay.data.corpus import Corpus
from seesay.metrics.bootstrap import Sample, Values, Weights
from seesay.metrics.inputs import refuse_nan
from seesay.protocols.base import Options, Percent, Protocol, Result, register_protocol
from seesay.protocols.subject import RunSubject
from seesay.runs.calibration import FITS, Background, Calibration, NothingToFitError, unrelated_sentences
from seesay.runs.scores import Matrix
from seesay.text.concepts import nouns

LOST = 5  # percent of the queries that are answered, which a threshold may lose

_BINS = 10  # of probabilities, for the expected calibration error
_ANSWERS = 10  # of each query, that probabilities are fitted to

Floats = NDArray[np.float64]
Rows = NDArray[np.int64]


class NoMatchResult(Result):
    """How well queries without an answer are told from others, in percent.

    Attributes:
        auc: of all pairs of a query that is answered and one that is not, those where the first has the
            higher probability.
        ece: expected calibration error of the best answer's probability: its mean distance from how often
            such answers are right, over ten bins.
        recognised: of the queries that nothing fits, those below the threshold that 5 % of the others are
            below.
        reported: of the queries that nothing fits, those of which the run says so.
        false_alarms: of the queries that are answered, those of which it says that nothing fits.
    """

    monitor_metric = "AUC"
    metric_names = ("AUC", "ECE", "recognised", "reported", "false alarms")

    images: int = Field(gt=0)
    queries: int = Field(gt=0)
    auc: Percent = Field(alias="AUC")
    ece: Percent = Field(alias="ECE")
    recognised: Percent
    reported: Percent
    false_alarms: Percent = Field(alias="false alarms")


@register_protocol
class NoMatch(Protocol):
    """Queries that are answered, against the same ones without the images that may fit them."""

    name = "no-match"
    summary = "whether queries that nothing fits are told from others, and whether probabilities are right"
    needs = "run"
    result_type = NoMatchResult

    def measure(self, subject: RunSubject, options: Options) -> Result:  # type: ignore[override]
        """Measure AUC, calibration error, and how many queries without an answer are recognised."""
        asked = asked_twice(subject)
        sample = NoMatchSample(*first_answers(asked), subject.run.calibration)
        return self.result(
            subject, options, [((), [sample])], images=subject.n_images, queries=len(asked.queries)
        )


class Query(NamedTuple):
    """A column of the score matrix, its right answers, and the images that may fit it, both (n,) masks."""

    column: int
    right: NDArray[np.bool_]
    related: NDArray[np.bool_]


@dataclass(frozen=True)
class Asked:
    """Queries and their scores: (n, m), of a gallery with that background."""

    queries: list[Query]
    scores: Matrix
    background: Background

    def answered(self, query: Query) -> Floats:
        """Return standardised scores (n,) of all images."""
        return self._standardised(self.scores[:, query.column])

    def unanswered(self, query: Query) -> Floats:
        """Return standardised scores of the images that do not fit, as a gallery of their own."""
        return self._standardised(self.scores[~query.related, query.column])

    def _standardised(self, scores: Matrix) -> Floats:
        return self.background.standardised(scores - scores.mean(dtype=np.float64))


def asked_twice(subject: RunSubject) -> Asked:
    """Find the queries of a split and score them.

    Raises:
        NothingToFitError: there is no query whose nouns some image lacks.
        SeesayError: a score is NaN.
    """
    queries = list(queries_of(subject.corpus, subject.owners, subject.n_images))
    if not queries:
        raise NothingToFitError(
            f"{subject.corpus.root}: no sentence of split '{subject.split}' has a noun that the sentences of "
            "other images lack; the protocol needs images that do not fit (and English)."
        )
    scores = subject.scores.by_direction()[1]
    run, features = subject.run, subject.inputs.features
    unrelated = run.prepare(unrelated_sentences())
    if run.embeds:
        reached = run.embed_features(features) @ run.embed_prepared(unrelated, query=True).T
    else:
        reached = run.score_prepared(features, unrelated)
    refuse_nan(np.asarray(scores, np.result_type(scores, np.float32)), "scores")
    return Asked(queries, scores, Background.of_scores(reached))


def queries_of(corpus: Corpus, owners: Rows, n_images: int) -> Iterator[Query]:
    """Yield the distinct sentences that no image, or not every one, shares a noun with."""
    texts = [" ".join(text.lower().split()) for text in corpus.texts()]
    nouns_of = [nouns(text) for text in texts]
    showing: defaultdict[str, NDArray[np.bool_]] = defaultdict(lambda: np.zeros(n_images, bool))
    right: defaultdict[str, NDArray[np.bool_]] = defaultdict(lambda: np.zeros(n_images, bool))
    for text, named, owner in zip(texts, nouns_of, owners, strict=True):
        right[text][owner] = True
        for noun in named:
            showing[noun][owner] = True
    for text, own in right.items():
        column = texts.index(text)
        related = own.copy()
        for noun in nouns_of[column]:
            related |= showing[noun]
        if nouns_of[column] and not related.all():
            yield Query(column, own, related)


class FirstAnswers(NamedTuple):
    """The best answer to each query asked twice, (q,) each: standardised scores, and whether it is right.

    `right` is 1, 0, or NaN where it is not annotated.
    """

    answered: Floats
    unanswered: Floats
    right: Floats
    images: Rows  # of each query one that is right, by which queries are drawn


def first_answers(asked: Asked) -> FirstAnswers:
    """Return the best answers."""
    rows = []
    for query in asked.queries:
        scores = asked.answered(query)
        best = int(scores.argmax())
        unknown = query.related[best] and not query.right[best]
        right = np.nan if unknown else float(query.right[best])
        rows.append((scores[best], asked.unanswered(query).max(), right, query.right.argmax()))
    answered, unanswered, right, images = np.array(rows, np.float64).T
    return FirstAnswers(answered, unanswered, right, images.astype(np.int64))


def fit_calibration(subjects: Sequence[RunSubject]) -> Calibration:
    """Fit a run's probabilities to the ten best answers of queries asked twice; each split counts the same.

    Raises:
        NothingToFitError: a split has no such queries, or answers of one kind only.
    """
    values, outcomes, weights = list[Floats](), list[Floats](), list[Floats]()
    for subject in subjects:
        asked = asked_twice(subject)
        parts = [part for query in asked.queries for part in _known_answers(asked, query)]
        values += [scores for scores, _ in parts]
        outcomes += [right for _, right in parts]
        count = sum(len(scores) for scores, _ in parts)
        weights.append(np.full(count, 1000.0 / count))  # so many that the prior hardly counts
    return Calibration.fit(*map(np.concatenate, (values, outcomes, weights)))


def _known_answers(asked: Asked, query: Query) -> Iterator[tuple[Floats, Floats]]:
    """Yield scores and correctness of the best answers in both galleries, those of unknown ones left out."""
    scores = asked.answered(query)
    best = np.argsort(-scores, kind="stable")[:_ANSWERS]
    known = best[query.right[best] | ~query.related[best]]
    yield scores[known], query.right[known].astype(np.float64)
    alone = -np.sort(-asked.unanswered(query))[:_ANSWERS]
    yield alone, np.zeros(len(alone))


class NoMatchSample(Sample):
    """The metrics of `NoMatchResult`; arguments are those of `FirstAnswers` and the run's calibration."""

    keys = (("AUC",), ("ECE",), ("recognised",), ("reported",), ("false alarms",))

    def __init__(
        self, answered: Floats, unanswered: Floats, right: Floats, images: Rows, calibration: Calibration
    ) -> None:
        self._given = answered, unanswered, right
        self._calibration = calibration
        self.groups = np.unique(images, return_inverse=True)[1]
        self._order = np.argsort(answered, kind="stable"), np.argsort(unanswered, kind="stable")
        present, absent = answered[self._order[0]], unanswered[self._order[1]]
        self._below = np.searchsorted(absent, present, "left"), np.searchsorted(absent, present, "right")
        chances = calibration.probabilities(np.concatenate([answered, unanswered]))
        outcomes = np.concatenate([right, np.zeros(len(unanswered))])
        self._hardly = chances < FITS
        self._excess = np.nan_to_num(chances - outcomes)
        self._known = ~np.isnan(outcomes)
        self._bins = np.minimum((chances * _BINS).astype(int), _BINS - 1)

    def metrics(self, weights: Weights) -> Values:
        """See `Sample`."""
        counts = weights[:, self.groups].astype(np.float64)
        total = counts.sum(axis=1)
        present, absent = counts[:, self._order[0]], counts[:, self._order[1]]
        under = np.concatenate([np.zeros((len(counts), 1)), absent.cumsum(axis=1)], axis=1)
        first, last = self._below
        pairs = (present * (under[:, first] + under[:, last]) / 2).sum(axis=1)
        lost = (present.cumsum(axis=1) > LOST / 100 * total[:, None]).argmax(axis=1)
        recognised = under[np.arange(len(counts)), first[lost]]
        wrongly, rightly = self._hardly[: len(self.groups)], self._hardly[len(self.groups) :]
        sums = np.column_stack([recognised, counts @ rightly, counts @ wrongly])
        with np.errstate(invalid="ignore", divide="ignore"):
            rates = np.column_stack(
                [pairs / total**2, self._calibration_error(counts), sums / total[:, None]]
            )
        return np.asarray(100 * rates)

    def _calibration_error(self, counts: Floats) -> Floats:
        twice = np.concatenate([counts, counts], axis=1) * self._known
        errors = [
            np.abs(twice[:, self._bins == each] @ self._excess[self._bins == each]) for each in range(_BINS)
        ]
        found: Floats = np.sum(errors, axis=0) / twice.sum(axis=1)
        return found

    def pooled(self, other: NoMatchSample) -> NoMatchSample:
        """See `Sample`."""
        both = [np.concatenate(pair) for pair in zip(self._given, other._given, strict=True)]
        images = np.concatenate([self.groups, other.groups + self.size])
        return NoMatchSample(both[0], both[1], both[2], images, self._calibration)
