"""Whether a run can distinguish queries with and without a matching image in the gallery.

Each distinct sentence is a query twice: among all images, of which its own are right, and among the images
whose sentences share no noun with it, of which none fits (nouns are compared as English lemmas). Other images
that share a noun are not annotated: they are in the first gallery, but count neither as right nor as wrong.

The two kinds of queries are distinguished by the probability of the best answer (`seesay.runs.calibration`).
`ManyMatches` measures the line between likely and less likely images.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from seesay.arrays import Floats, Ints
from seesay.data.corpus import Corpus
from seesay.errors import SeesayError
from seesay.metrics.bootstrap import MeanSample, Sample, Values, Weights
from seesay.metrics.inputs import refuse_nan
from seesay.metrics.precision import CalibrationSample
from seesay.protocols.base import Options, Protocol, Result, register_protocol
from seesay.protocols.subject import RunSubject
from seesay.runs.calibration import (
    FITS,
    Calibration,
    NothingToFitError,
    ScoreCalibration,
    chances,
    unrelated_sentences,
    usual_unit,
)
from seesay.runs.scores import Matrix
from seesay.text.concepts import nouns

MANY = 10  # least number of images of a noun in `ManyMatches`
LOST = 5  # percent of the answerable queries that a threshold may lose

_FITTED = 500  # most queries of a kind to which probabilities are fitted
_WEIGHT = 1e4  # total weight of the answers, so large that the regularisation hardly counts
_SEVERAL = 5  # least number of images of a noun to which probabilities are fitted


@register_protocol
class NoMatch(Protocol[RunSubject]):
    """Answerable queries, compared with the same queries without the images that may fit, in percent.

    AUC: the share of pairs of an answerable and an unanswerable query in which the first has the higher
        probability. ECE: expected calibration error of the best answer's probability. Recognised:
        unanswerable queries below a threshold that 95 % of the answerable ones reach. Reported: unanswerable
        queries for which the run reports that nothing fits. False alarms: answerable queries for which it
        reports this.
    """

    name = "no-match"
    summary = "whether queries that nothing fits are told from others, and whether probabilities are right"
    needs = "run"
    monitor = "AUC"
    columns = ("AUC", "ECE", "recognised", "reported", "false alarms")

    def measure(self, subject: RunSubject, options: Options) -> Result:
        """Measure AUC, calibration error, and how many queries without an answer are recognised."""
        asked = asked_twice(subject)
        found = first_answers(asked, subject.run.calibration)
        about = {"images": subject.n_images, "queries": len(asked.queries)}
        return self.result(subject, options, [("", [each]) for each in found.samples()], about)


@register_protocol
class ManyMatches(Protocol[RunSubject]):
    """The line between likely and less likely images, for words that fit many images.

    Each noun that occurs in the sentences of many images is a query among all images of the split. Images
    whose sentences contain the noun are right; others count as wrong, although some show it.

    Recall: the right images above the line. Precision: the images above the line that are right. ECE:
        expected calibration error of all pairs of a noun and an image. All are in percent.
    """

    name = "many-matches"
    summary = "whether the images above the line are those that show a common noun"
    needs = "run"
    monitor = "recall"

    def measure(self, subject: RunSubject, options: Options) -> Result:
        """Measure recall and precision above the line, and the calibration error of all pairs."""
        asked = nouns_asked_twice(subject, MANY)
        if asked is None:
            raise SeesayError(
                f"{subject.corpus.root}: the sentences of split '{subject.split}' have no noun that {MANY} "
                "images share and others lack; the protocol needs common words (and English)."
            )
        found = np.empty(asked.scores.shape)
        for query in asked.queries:
            found[:, query.column] = asked.chances(query, asked.answered(query), subject.run.calibration)
        right = np.column_stack([query.right for query in asked.queries])
        about = {"images": subject.n_images, "queries": len(asked.queries)}
        return self.result(subject, options, [("", [each]) for each in line_samples(found, right)], about)


def line_samples(probabilities: Floats, right: NDArray[np.bool_]) -> tuple[MeanSample, CalibrationSample]:
    """Return the samples of recall and precision above the line, and of ECE, of (n, q) images and nouns."""
    chances, right, images = probabilities.ravel(), right.ravel(), np.indices(right.shape)[0].ravel()
    above = chances >= FITS
    shares = np.column_stack([np.where(right, above, np.nan), np.where(above, right, np.nan)])
    return (
        MeanSample(["recall", "precision"], 100 * shares, images),
        CalibrationSample(chances, right, images),
    )


class NoMatchQuery(NamedTuple):
    """A text, its column of the score matrix, and masks (n,) of its right answers and of all that may fit."""

    text: str
    column: int
    right: NDArray[np.bool_]
    related: NDArray[np.bool_]


@dataclass(frozen=True)
class Asked:
    """Queries, the scores (n, m) of a gallery's images, and the unit of the scores (see `usual_unit`)."""

    queries: list[NoMatchQuery]
    scores: Matrix
    unit: float

    def answered(self, query: NoMatchQuery) -> Floats:
        """Return the scores (n,) of all images."""
        return np.asarray(self.scores[:, query.column], np.float64)

    def unanswered(self, query: NoMatchQuery) -> Floats:
        """Return the scores (g,) of the images that do not fit, as a separate gallery."""
        return np.asarray(self.scores[~query.related, query.column], np.float64)

    def chances(self, query: NoMatchQuery, scores: Floats, calibration: ScoreCalibration | None) -> Floats:
        """Return the probabilities of all images of a gallery with these scores, (g,)."""
        if calibration is not None:
            return calibration.of(query.text).probabilities(scores)
        return chances(scores, scores, len(scores), self.unit)


def asked_twice(subject: RunSubject) -> Asked:
    """Find the queries of a split and score them.

    Raises:
        NothingToFitError: no query has nouns that some image lacks.
        SeesayError: a score is NaN.
    """
    queries = list(queries_of(subject.corpus, subject.owners, subject.n_images))
    if not queries:
        raise NothingToFitError(
            f"{subject.corpus.root}: no sentence of split '{subject.split}' has a noun that the sentences of "
            "other images lack; the protocol needs images that do not fit (and English)."
        )
    return _asked(subject, queries, subject.scores.by_direction()[1])


def queries_of(corpus: Corpus, owners: Ints, n_images: int) -> Iterator[NoMatchQuery]:
    """Yield the distinct sentences that have nouns and share none with at least one image."""
    texts = [" ".join(text.lower().split()) for text in corpus.texts()]
    nouns_of = [nouns(text) for text in texts]
    showing: defaultdict[str, NDArray[np.bool_]] = defaultdict(lambda: np.zeros(n_images, bool))
    right: defaultdict[str, NDArray[np.bool_]] = defaultdict(lambda: np.zeros(n_images, bool))
    column_of: dict[str, int] = {}
    for column, (text, named, owner) in enumerate(zip(texts, nouns_of, owners, strict=True)):
        column_of.setdefault(text, column)
        right[text][owner] = True
        for noun in named:
            showing[noun][owner] = True
    for text, own in right.items():
        column = column_of[text]
        related = own.copy()
        for noun in nouns_of[column]:
            related |= showing[noun]
        if nouns_of[column] and not related.all():
            yield NoMatchQuery(text, column, own, related)


class FirstAnswers(NamedTuple):
    """The best answers to each query in both galleries, (q,) each: probabilities, and whether they are right.

    `right` is 1, 0, or NaN if not annotated.
    """

    answered: Floats
    unanswered: Floats
    right: Floats
    images: Ints  # a right image of each query; queries of one image are drawn together

    def samples(self) -> tuple[Sample, ...]:
        """Return the samples of the metrics of `NoMatch`."""
        twice = np.concatenate([self.answered, self.unanswered])
        outcomes = np.concatenate([self.right, np.zeros(len(self.unanswered))])
        hardly = np.column_stack([self.unanswered, self.answered]) < FITS
        return (
            ToldApartSample(self.answered, self.unanswered, self.images),
            CalibrationSample(twice, outcomes, np.tile(self.images, 2)),
            MeanSample(["reported", "false alarms"], 100.0 * hardly, self.images),
        )


def first_answers(asked: Asked, calibration: ScoreCalibration | None) -> FirstAnswers:
    """Return the best answers to each query."""
    rows = []
    for query in asked.queries:
        scores = asked.answered(query)
        best = int(scores.argmax())
        unknown = query.related[best] and not query.right[best]
        right = np.nan if unknown else float(query.right[best])
        galleries = scores, asked.unanswered(query)
        both = (asked.chances(query, each, calibration).max() for each in galleries)
        rows.append((*both, right, query.right.argmax()))
    answered, unanswered, right, images = np.array(rows, np.float64).T
    return FirstAnswers(answered, unanswered, right, images.astype(np.int64))


def fit_calibration(subject: RunSubject) -> ScoreCalibration:
    """Fit the probabilities of pairs of a query and an image, for nouns of several images and for sentences.

    Images that are not annotated as right or wrong are left out. If no noun has several images, single words
    are judged like sentences.

    Raises:
        NothingToFitError: the split has no such queries, or only right or only wrong answers.
    """
    sentences, of_nouns = _fitted(asked_twice(subject)), nouns_asked_twice(subject)
    return ScoreCalibration(sentences if of_nouns is None else _fitted(of_nouns), sentences)


def _fitted(asked: Asked) -> Calibration:
    few = asked.queries[:: -(-len(asked.queries) // _FITTED)]
    known = [query.right | ~query.related for query in few]
    values = np.concatenate([asked.answered(query)[each] for query, each in zip(few, known, strict=True)])
    outcomes = np.concatenate([query.right[each] for query, each in zip(few, known, strict=True)])
    return Calibration.fit(values, outcomes, np.full(len(values), _WEIGHT / len(values)))


def nouns_asked_twice(subject: RunSubject, least: int = _SEVERAL) -> Asked | None:
    """Score the nouns that occur for at least that many images; None if there are none.

    Images whose sentences contain the noun are right. Each noun is a query among all images, and among the
    others.
    """
    showing: defaultdict[str, NDArray[np.bool_]] = defaultdict(lambda: np.zeros(subject.n_images, bool))
    for text, owner in zip(subject.corpus.texts(), subject.owners, strict=True):
        for noun in nouns(text.lower()):
            showing[noun][owner] = True
    names = sorted(noun for noun, images in showing.items() if images.sum() >= least and not images.all())
    if not names:
        return None
    scores = subject.run.score_prepared(subject.inputs.features, subject.run.prepare(names))
    queries = [NoMatchQuery(name, column, showing[name], showing[name]) for column, name in enumerate(names)]
    return _asked(subject, queries, scores)


def _asked(subject: RunSubject, queries: list[NoMatchQuery], scores: Matrix) -> Asked:
    refuse_nan(np.asarray(scores, np.result_type(scores, np.float32)), "scores")
    run, features = subject.run, subject.inputs.features
    unrelated = run.prepare(unrelated_sentences())
    if run.embeds:
        of_unrelated = run.embed_features(features) @ run.embed_prepared(unrelated, query=True).T
    else:
        of_unrelated = run.score_prepared(features, unrelated)
    return Asked(queries, scores, usual_unit(of_unrelated))


class ToldApartSample(Sample):
    """AUC and recognised, see `NoMatch`, of probabilities of answerable and unanswerable queries, (q,)."""

    names = ("AUC", "recognised")

    def __init__(self, answered: Floats, unanswered: Floats, images: Ints) -> None:
        self._given = answered, unanswered
        self.groups = np.unique(images, return_inverse=True)[1]
        self._order = np.argsort(answered, kind="stable"), np.argsort(unanswered, kind="stable")
        present, absent = answered[self._order[0]], unanswered[self._order[1]]
        self._below = np.searchsorted(absent, present, "left"), np.searchsorted(absent, present, "right")

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
        with np.errstate(invalid="ignore", divide="ignore"):
            return np.asarray(100 * np.column_stack([pairs / total**2, recognised / total]))

    def pooled(self, other: ToldApartSample) -> ToldApartSample:
        """See `Sample`."""
        answered, unanswered = (np.concatenate(pair) for pair in zip(self._given, other._given, strict=True))
        return ToldApartSample(answered, unanswered, np.concatenate([self.groups, other.groups + self.size]))
