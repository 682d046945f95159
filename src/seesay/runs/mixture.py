"""A query's scores over a gallery as a mixture of related and unrelated images.

Both kinds have normal distributions, and the mixture is fitted by expectation maximisation (Dempster, Laird,
Rubin 1977). A gallery may contain any number of related images, so these have prior counts: as if there were
a few more of them, at a typical distance above the others. An image is judged by comparing its score with the
scores of *unrelated images*, whether these are the rule or the exception.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from seesay.runs.calibration import Calibration, ScoreCalibration, probability

Floats = NDArray[np.float64]

# Chosen on the nouns of Flickr8k's val split: images whose sentences have the noun, against the others.
_PRIOR_IMAGES = 20.0  # that the gallery's own images are weighed against
_PRIOR_SHARE = 0.05  # of images that show what is asked for
_PRIOR_DISTANCE, _PRIOR_SPREAD = 2.0, 1.2  # of the scores of these, in units
_LEAST_DISTANCE, _LEAST_SPREAD = 0.75, 0.4  # in units
_SHARES = 0.001, 0.6
_STEPS, _CONVERGED = 60, 1e-3  # at most so many; in units of the scores
_LOW, _HIGH, _QUANTILES_APART = 0.1, 0.5, 1.2816  # of a normal distribution, in standard deviations


@dataclass(frozen=True, slots=True)
class ScoreMixture:
    """Two normal distributions of scores for each of q queries; every attribute has the shape (q,).

    Attributes:
        centre: mean score of unrelated images.
        spread: their standard deviation.
        right_centre: mean score of related images.
        right_spread: their standard deviation.
        share: the share of related images.

    Example:
        >>> import numpy as np
        >>> from seesay.runs.mixture import ScoreMixture
        >>> draw = np.random.default_rng(1)
        >>> scores = np.concatenate([draw.normal(0.1, 0.05, 900), draw.normal(0.4, 0.05, 100)])
        >>> mixture = ScoreMixture.fit(scores, unit=0.05)
        >>> round(float(mixture.share), 2), (mixture.log_odds([0.1, 0.4]) > 0).tolist()
        (0.1, [False, True])
    """

    centre: Floats
    spread: Floats
    right_centre: Floats
    right_spread: Floats
    share: Floats

    @classmethod
    def fit(cls, scores: ArrayLike, unit: float) -> Self:
        """Fit to the scores (n, q) of n images for q queries, or (n,) for one.

        Args:
            scores: n is at least 1.
            unit: standard deviation of the scores of a typical query, the unit of the priors.
        """
        values = np.asarray(scores, np.float64)
        # The low half tells where the images are that do not show it, also if the high half does.
        low, centre = np.quantile(values, [_LOW, _HIGH - _LOW], axis=0)
        spread = np.maximum(
            (np.quantile(values, _HIGH, axis=0) - low) / _QUANTILES_APART, _LEAST_SPREAD * unit
        )
        fitted = cls(
            centre,
            spread,
            centre + _PRIOR_DISTANCE * unit,
            np.full_like(centre, _PRIOR_SPREAD * unit),
            np.full_like(centre, _PRIOR_SHARE),
        )
        for _ in range(_STEPS):
            former, fitted = fitted, fitted._improved(values, unit)
            if np.abs(fitted.right_centre - former.right_centre).max() < _CONVERGED * unit:
                break
        return fitted

    def _improved(self, scores: Floats, unit: float) -> Self:
        """Perform one step of expectation maximisation."""
        shown = np.where(scores < self.centre, 0.0, probability(self._log_ratio(scores)))
        others = 1 - shown
        count, rest = shown.sum(axis=0), np.maximum(others.sum(axis=0), 1.0)
        centre = (others * scores).sum(axis=0) / rest
        spread = np.sqrt((others * np.square(scores - centre)).sum(axis=0) / rest)
        weight = count + _PRIOR_IMAGES
        right = ((shown * scores).sum(axis=0) + _PRIOR_IMAGES * (centre + _PRIOR_DISTANCE * unit)) / weight
        right = np.maximum(right, centre + _LEAST_DISTANCE * unit)
        squares = (shown * np.square(scores - right)).sum(axis=0)
        right_spread = np.sqrt((squares + _PRIOR_IMAGES * (_PRIOR_SPREAD * unit) ** 2) / weight)
        share = (count + _PRIOR_IMAGES * _PRIOR_SHARE) / (len(scores) + _PRIOR_IMAGES)
        return type(self)(
            centre, np.maximum(spread, _LEAST_SPREAD * unit), right, right_spread, np.clip(share, *_SHARES)
        )

    def log_odds(self, scores: ArrayLike) -> Floats:
        """Return the log-odds (k, q) that images with scores (k, q) are related to the query.

        Unlike the ratio of two normal densities, they never fall with rising scores: below the centre and
        above the highest ratio they are constant.
        """
        sharper = np.square(self.spread) - np.square(self.right_spread)
        highest = self.right_centre + np.where(
            sharper > 0,
            np.square(self.right_spread)
            * (self.right_centre - self.centre)
            / np.where(sharper > 0, sharper, 1),
            np.inf,
        )
        return self._log_ratio(np.clip(np.asarray(scores, np.float64), self.centre, highest))

    def _log_ratio(self, scores: Floats) -> Floats:
        shown = np.square((scores - self.right_centre) / self.right_spread)
        other = np.square((scores - self.centre) / self.spread)
        prior = np.log(self.share / (1 - self.share)) + np.log(self.spread / self.right_spread)
        ratio: Floats = prior + (other - shown) / 2
        return ratio

    def excess(self, best: ArrayLike, images: int, unit: float) -> Floats:
        """Return how far the best score (q,) exceeds the one expected from unrelated images, in units.

        Args:
            best: highest score of the gallery.
            images: the number of images of the gallery, with which the best score by chance grows.
            unit: as for `fit`.
        """
        result: Floats = (np.asarray(best, np.float64) - self.centre) / unit - expected_best(images)
        return result


def expected_best(images: int) -> float:
    """Return the approximate expected maximum of that many standard normal numbers (Cramér 1946, 28.6).

    >>> [round(expected_best(n), 1) for n in (10, 100, 1000, 1_000_000)]
    [1.6, 2.6, 3.3, 4.9]
    """
    root = np.sqrt(2 * np.log(max(images, 3)))
    return float(
        root - (np.log(np.log(max(images, 3))) + np.log(4 * np.pi) - 2 * np.euler_gamma) / (2 * root)
    )


def chances(
    scores: ArrayLike,
    gallery: ArrayLike,
    images: int,
    unit: float,
    calibration: Calibration | ScoreCalibration,
    texts: Sequence[str] = (),
) -> Floats:
    """Return the probabilities (k,) that images with these scores are related to the query.

    With a `ScoreCalibration`, each score has its own probability, and the gallery does not matter. With a
    `Calibration`, it gives the probability of the best image; that of another image is lower by the ratio of
    their probabilities in the mixture.

    Args:
        scores: (k,) of the images, the best of the gallery among them.
        gallery: scores (s,) of all its images, or of a sample.
        images: number of images of the gallery.
        unit: as for `ScoreMixture.fit`.
        calibration: of the run.
        texts: of the query.

    Example:
        >>> import numpy as np
        >>> from seesay.runs.calibration import USUAL
        >>> gallery = np.random.default_rng(1).normal(0.1, 0.05, 1000)
        >>> chances([0.6, 0.1], gallery, 1000, 0.05, USUAL).round(2).tolist()
        [0.93, 0.0]
    """
    if isinstance(calibration, ScoreCalibration):
        return calibration.of(*texts).probabilities(scores)
    values, others = np.asarray(scores, np.float64), np.asarray(gallery, np.float64)
    mixture = ScoreMixture.fit(others, unit)
    best = max(values.max(), others.max())
    of_best = calibration.probabilities(mixture.excess(best, images, unit))
    result: Floats = of_best * probability(mixture.log_odds(values)) / probability(mixture.log_odds(best))
    return result
