"""Where the line between likely and less likely images runs, for words that many images answer.

Each noun that sentences of many images have is a query to all images of the split. Images whose sentences
have the noun are right, and the others count as wrong, although some show what nobody has written down.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from seesay.errors import SeesayError
from seesay.metrics.bootstrap import Sample, Values, Weights
from seesay.protocols.base import Options, Percent, Protocol, Result, register_protocol
from seesay.protocols.no_match import nouns_asked_twice
from seesay.protocols.subject import RunSubject
from seesay.runs.calibration import FITS
from seesay.runs.mixture import chances

MANY = 10  # images that a noun must have
_BINS = 10  # of probabilities, for the expected calibration error


class ManyMatchesResult(Result):
    """How well the line parts right images from others, in percent, over all pairs of a noun and an image.

    Attributes:
        recall: of the right images, those above the line.
        precision: of the images above the line, those that are right.
        ece: expected calibration error: mean distance of the probabilities from how often such images are
            right, over ten bins.
    """

    monitor_metric = "recall"
    metric_names = ("recall", "precision", "ECE")

    images: int = Field(gt=0)
    queries: int = Field(gt=0)
    recall: Percent
    precision: Percent
    ece: Percent = Field(alias="ECE")


@register_protocol
class ManyMatches(Protocol):
    """Nouns against all images of the split."""

    name = "many-matches"
    summary = "whether the images above the line are those that show a common noun"
    needs = "run"
    result_type = ManyMatchesResult

    def measure(self, subject: RunSubject, options: Options) -> Result:  # type: ignore[override]
        """Measure recall and precision above the line, and the calibration error of all pairs."""
        asked = nouns_asked_twice(subject, MANY)
        if asked is None:
            raise SeesayError(
                f"{subject.corpus.root}: the sentences of split '{subject.split}' have no noun that {MANY} "
                "images share and others lack; the protocol needs common words (and English)."
            )
        found = np.empty(asked.scores.shape)
        for query in asked.queries:
            scores = asked.answered(query)
            found[:, query.column] = chances(scores, scores, len(scores), asked.unit, subject.run.calibration)
        right = np.column_stack([query.right for query in asked.queries])
        sample = ManyMatchesSample(found, right)
        return self.result(
            subject, options, [((), [sample])], images=subject.n_images, queries=len(asked.queries)
        )


class ManyMatchesSample(Sample):
    """The metrics of `ManyMatchesResult`.

    Args:
        probabilities: (n, q) of n images for q nouns.
        right: (n, q), whether an image shows it.
    """

    keys = (("recall",), ("precision",), ("ECE",))

    def __init__(self, probabilities: NDArray[np.float64], right: NDArray[np.bool_]) -> None:
        self.groups = np.arange(len(right))
        above = probabilities >= FITS
        bins = np.minimum((probabilities * _BINS).astype(int), _BINS - 1)
        excess = [((probabilities - right) * (bins == each)).sum(axis=1) for each in range(_BINS)]
        self._sums = np.column_stack(
            [(right & above).sum(axis=1), right.sum(axis=1), above.sum(axis=1), *excess]
        )
        self._queries = right.shape[1]

    def metrics(self, weights: Weights) -> Values:
        """See `Sample`."""
        both, right, above, *excess = (weights @ self._sums).T
        with np.errstate(invalid="ignore", divide="ignore"):
            error = np.abs(excess).sum(axis=0) / (weights.sum(axis=1) * self._queries)
            return np.column_stack([100 * both / right, 100 * both / above, 100 * error])

    def pooled(self, other: ManyMatchesSample) -> ManyMatchesSample:
        """Not defined: other images have other nouns."""
        raise NotImplementedError
