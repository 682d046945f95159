"""Probabilities of pairs of a query and an image, fitted to the sentences of a split and to their nouns."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence

import numpy as np

from seesay.arrays import Mask
from seesay.metrics.inputs import refuse_nan
from seesay.protocols.subject import RunSubject
from seesay.runs.calibration import Calibration, NothingToFitError, ScoreCalibration
from seesay.runs.scores import Matrix
from seesay.text.concepts import nouns

_FITTED = 500  # most queries of a kind to which probabilities are fitted
_WEIGHT = 1e4  # total weight of the answers, so large that the regularisation hardly counts
_SEVERAL = 5  # least number of images of a noun that is a query


def fit_calibration(subject: RunSubject) -> ScoreCalibration:
    """Fit the probabilities of queries of a sentence, and of queries of a noun that several images share.

    Images whose sentences contain the noun are right, others wrong. For a sentence its own images are right,
    and those wrong whose sentences share no noun with it; the others are left out. Nouns are English lemmas.
    Without such nouns, single words are judged like sentences.

    Raises:
        NothingToFitError: the split has no such queries, or only right or only wrong answers.
        SeesayError: a score is NaN.
    """
    texts = [" ".join(text.lower().split()) for text in subject.corpus.texts()]
    named = [nouns(text) for text in texts]
    showing: defaultdict[str, Mask] = defaultdict(lambda: np.zeros(subject.n_images, bool))
    own: defaultdict[str, Mask] = defaultdict(lambda: np.zeros(subject.n_images, bool))
    for text, its_nouns, owner in zip(texts, named, subject.owners, strict=True):
        own[text][owner] = True
        for noun in its_nouns:
            showing[noun][owner] = True
    queries = []
    for text, right in own.items():
        column = texts.index(text)
        wrong = ~np.any([right, *(showing[noun] for noun in named[column])], axis=0)
        if named[column] and wrong.any():
            queries.append((column, right, right | wrong))
    if not queries:
        raise NothingToFitError(
            f"{subject.corpus.root}: no sentence of split '{subject.split}' has a noun that the sentences of "
            "other images lack; probabilities need images that do not fit (and English)."
        )
    of_sentences = _fitted(subject.scores.by_direction()[1], queries)
    names = sorted(noun for noun, images in showing.items() if images.sum() >= _SEVERAL and not images.all())
    if not names:
        return ScoreCalibration(of_sentences, of_sentences)
    scores = subject.run.score_prepared(subject.inputs.features, subject.run.prepare(names))
    every = np.ones(subject.n_images, bool)
    of_nouns = _fitted(scores, [(column, showing[name], every) for column, name in enumerate(names)])
    return ScoreCalibration(of_nouns, of_sentences)


def _fitted(scores: Matrix, queries: Sequence[tuple[int, Mask, Mask]]) -> Calibration:
    """Fit to the scores (n, m) of queries: the column of each, its right images, and those that are known."""
    refuse_nan(np.asarray(scores, np.result_type(scores, np.float32)), "scores")
    few = queries[:: -(-len(queries) // _FITTED)]
    values = np.concatenate([scores[known, column] for column, _, known in few]).astype(np.float64)
    outcomes = np.concatenate([right[known] for _, right, known in few])
    return Calibration.fit(values, outcomes, np.full(len(values), _WEIGHT / len(values)))
